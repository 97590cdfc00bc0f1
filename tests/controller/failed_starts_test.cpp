// Starts that come to nothing, and failures that are the end of a job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "controller/controller_site.h"

namespace flyball {
namespace {

using testing::a100_cluster;
using ::testing::Contains;
using testing::elastic;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Site;

// Slurm that is killed may also forget that a job was put back, and show it where it was, running or ended. It is put
// back again.
TEST(Controller, PutsBackAgainWhatTheEngineHasForgotten) {
  for (const EngineJobState state : {EngineJobState::kRunning, EngineJobState::kCompleted}) {
    Site site(2);
    site.engine.submit(1, elastic("a"));
    site.engine.submit(2, elastic("b"));
    site.cycles(6);
    (void)site.controller->report(2, 1000, {100.0, 1e6, Seconds(0.1), 4});
    site.cycle();
    const EngineJob before = site.engine.job(2);
    site.engine.end(1);
    site.cycle();
    ASSERT_TRUE(site.controller->report(2, 1000, {100.0, 1e6, Seconds(0.1), 4}).stop);
    site.engine.end(2);
    // Put back for another decision than the first: the node that it is to have is away, and comes back.
    site.cycle();
    ASSERT_EQ(site.requeues(2), 1);
    site.engine.view.nodes[0].usable = false;
    site.cycle();
    site.engine.view.nodes[0].usable = true;
    site.engine.job(2) = before;
    site.engine.job(2).state = state;
    if (state == EngineJobState::kCompleted) site.engine.job(2).gpus.clear();
    site.cycles(45);
    EXPECT_THAT(site.log, Not(Contains(HasSubstr("came to nothing"))));
    EXPECT_EQ(site.gpus(2), 4) << site.why(2);
    EXPECT_EQ(site.requeues(2), 2);
  }
}

// Slurm that is killed may also forget a release, of a job that `scontrol hold` had held. While Slurm answers, such a
// hold is another's.
TEST(Controller, ReleasesAgainWhatTheEngineHasForgotten) {
  for (const bool is_away : {false, true}) {
    Site site(1);
    site.engine.submit(1, elastic("a", 4, 4));
    while (site.engine.job(1).held) site.cycle();
    if (is_away) {
      site.engine.is_away = true;
      EXPECT_THROW(site.controller->cycle(site.now), SystemError);
      site.engine.is_away = false;
    }
    site.engine.job(1).held = true;
    site.cycles(25);
    EXPECT_EQ(site.gpus(1), is_away ? 4 : 0) << site.why(1);
  }
}

// Nobody but its user can submit it again, who has to be told.
TEST(Controller, SaysThatAJobWasForgottenBeforeItRan) {
  Site site(1);
  site.engine.submit(1, elastic("bert"));
  site.engine.submit(2, elastic("bert")).depends = true;
  site.engine.job(2).name = "night";
  site.cycles(5);
  ASSERT_GT(site.gpus(1), 0);
  site.engine.view.jobs.clear();
  site.cycle();
  EXPECT_THAT(site.log, Contains("job 1 is gone"));
  EXPECT_THAT(site.log,
              Contains("job 2 of user 1000 (night) is gone and has never run: the cluster engine has forgotten "
                       "it; submit it again"));
}

// Slurm that has just begun again does not know yet what its nodes have.
TEST(Controller, StartsNothingJustAfterTheEngineWasAway) {
  Site site(1);
  site.engine.submit(1, elastic("a", 4, 4));
  site.engine.is_away = true;
  EXPECT_THROW(site.cycle(), SystemError);
  site.engine.is_away = false;
  site.cycles(9);
  EXPECT_EQ(site.engine.acts, std::vector<std::string>{"resize 1"});
  site.cycles(2);
  EXPECT_EQ(site.gpus(1), 4);
}

// As when Slurm finds that the job that it is to start still runs on the node: it holds the job and drains the node.
// The third time in a row it stays so. What is in a row ends with a report.
TEST(Controller, TriesAStartAgainThatTheEngineCouldNotMake) {
  ControllerOptions how = a100_cluster();
  how.back_off = Seconds(4.0);
  Site site(1, how);
  site.engine.submit(1, elastic("a", 4, 4));
  site.cycles(6);
  const auto fail = [&] {
    ASSERT_EQ(site.gpus(1), 4) << site.why(1);
    site.engine.fail_to_launch(1);
    site.engine.view.nodes[0] = {"n1", false, "idle+drain", true, 4};
    site.cycle();
    EXPECT_EQ(site.engine.resumed, std::vector<std::string>{"n1"});
    site.engine.resumed.clear();
  };
  for (const int back_off : {4, 8}) {
    fail();
    EXPECT_THAT(site.why(1), HasSubstr("left alone: a change came to nothing (the cluster engine could not start it)"));
    site.cycles(back_off - 1);
    EXPECT_TRUE(site.engine.job(1).held);
    site.start();  // also when the controller is killed meanwhile
    site.cycles(4);
  }
  (void)site.controller->report(1, 1000, {100.0, 1e6, Seconds(0.5), 4});
  site.cycle();
  EXPECT_EQ(site.store->jobs().at(0).failures, 0);
  for (int failure = 0; failure < 3; ++failure) {
    fail();
    site.cycles(20);
  }
  EXPECT_TRUE(site.engine.job(1).held);
  EXPECT_THAT(site.why(1), HasSubstr("left alone from now on"));
  EXPECT_EQ(site.engine.starts[1], 5);
}

// Nodes that somebody drained, and those of jobs that are not ours, stay drained.
TEST(Controller, ResumesNoNodeOfOthers) {
  Site site(3);
  site.engine.submit(1, elastic("a", 1, 1));
  site.engine.submit(2, "");
  site.cycles(6);
  for (const int job : {1, 2}) site.engine.fail_to_launch(job);
  site.engine.job(1).wanted.nodes = {"n1"};
  site.engine.job(2).wanted.nodes = {"n2"};
  site.engine.view.nodes[0] = {"n1", false, "idle+drain", false, 4};
  site.engine.view.nodes[1] = {"n2", false, "idle+drain", true, 4};
  site.cycles(3);
  EXPECT_THAT(site.engine.resumed, IsEmpty());
}

// Where slurmctld has forgotten a run that slurmd has ended, Slurm says of the next start what it says of a program
// that exits with status 1. A program that does so each time is at its end after three starts in a row.
TEST(Controller, TriesAStartAgainThatFailedBeforeItsFirstReport) {
  ControllerOptions how = a100_cluster();
  how.back_off = Seconds(4.0);
  for (const bool killed : {false, true}) {
    Site site(1, how);
    site.engine.submit(1, elastic("a", 4, 4));
    site.cycles(6);
    (void)site.controller->report(1, 1000, {100.0, 1e6, Seconds(0.5), 4});
    site.cycle();
    site.engine.fail_to_launch(1);  // any reason to start it again
    site.cycles(9);
    for (int failure = 2; failure <= 3; ++failure) {
      ASSERT_EQ(site.gpus(1), 4) << site.why(1);
      site.engine.end(1, EngineJobState::kFailed);
      if (killed) site.start();
      site.cycle();
      if (failure == 2) EXPECT_THAT(site.why(1), HasSubstr("it failed before its first report"));
      site.cycles(12);
    }
    EXPECT_EQ(site.engine.job(1).state, EngineJobState::kFailed);
    EXPECT_EQ(site.requeues(1), 1);
    EXPECT_EQ(site.engine.starts[1], 3);
    EXPECT_THAT(site.log, Contains("job 1 has failed"));
    EXPECT_THAT(site.controller->status().jobs, IsEmpty());
  }
}

// One that fails after a report, and one that never reported and whose start nothing is known to have disturbed, have
// failed. Of the latter, a start that the engine has forgotten is such a disturbance, and so is an engine that does not
// answer, or a controller that was away.
TEST(Controller, TakesAFailureForTheEndOfAJob) {
  const auto play = [](bool reports, bool is_forgotten, bool killed = false) {
    Site site(1);
    site.engine.submit(1, elastic("a", 4, 4));
    site.cycles(6);
    if (reports) (void)site.controller->report(1, 1000, {100.0, 1e6, Seconds(0.5), 4});
    site.cycle();
    if (is_forgotten) {
      site.engine.job(1).state = EngineJobState::kPending;
      site.engine.job(1).gpus.clear();
      site.engine.job(1).held = true;
      site.cycles(14);
    }
    EXPECT_EQ(site.gpus(1), 4);
    site.engine.end(1, EngineJobState::kFailed);
    if (killed) site.start();
    site.cycles(3);
    const int requeues = site.requeues(1);
    site.start();  // changes nothing of what was judged
    site.cycles(3);
    EXPECT_EQ(site.requeues(1), requeues);
    return requeues;
  };
  EXPECT_EQ(play(true, false), 0);
  EXPECT_EQ(play(false, false), 0);
  EXPECT_EQ(play(true, true), 1);
  EXPECT_EQ(play(false, true), 1);
  EXPECT_EQ(play(true, false, true), 0);
  EXPECT_EQ(play(false, false, true), 1);
}

// Slurm may start a job without its GPUs just after slurmctld's own start, of which a controller that was killed knows
// nothing. A wrong script is started twice by that.
TEST(Controller, StartsAJobOnceMoreThatFailedAtOnce) {
  ControllerOptions how = a100_cluster();
  how.back_off = Seconds(4.0);
  Site site(1, how);
  site.engine.submit(1, elastic("a", 4, 4));
  site.cycles(6);
  for (int failure = 1; failure <= 2; ++failure) {
    ASSERT_EQ(site.gpus(1), 4) << site.why(1);
    site.engine.end(1, EngineJobState::kFailed);
    site.engine.job(1).failed_at_once = true;
    site.cycles(12);
  }
  EXPECT_EQ(site.engine.job(1).state, EngineJobState::kFailed);
  EXPECT_EQ(site.engine.starts[1], 2);
  EXPECT_THAT(site.log, Contains("job 1 has failed"));
}

// Also while it waits for its next start.
TEST(Controller, LeavesACancelledJobCancelled) {
  Site site(1);
  site.engine.submit(1, elastic("a", 4, 4));
  site.cycles(6);
  site.engine.job(1).engine_failed = true;  // its node was lost
  site.engine.end(1, EngineJobState::kFailed);
  site.cycles(3);
  EXPECT_EQ(site.requeues(1), 1);
  site.engine.end(1, EngineJobState::kCancelled);
  site.cycles(100);
  EXPECT_EQ(site.engine.job(1).state, EngineJobState::kCancelled);
  EXPECT_EQ(site.engine.starts[1], 1);
  EXPECT_THAT(site.controller->status().jobs, IsEmpty());
}

}  // namespace
}  // namespace flyball
