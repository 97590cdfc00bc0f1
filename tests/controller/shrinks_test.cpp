// Jobs that give nodes back without ending, on a scripted engine. Four nodes of four GPUs: a job that is alone gets all
// sixteen, and two jobs eight each, as by the first guess of what GPUs are worth (controller_test.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/controller_site.h"

namespace flyball {
namespace {

using testing::a100_cluster;
using ::testing::Contains;
using testing::elastic;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Site;
using testing::times_of;

std::string shrinking(const std::string& kind, int min = 4, int max = 16) {
  return elastic(kind, min, max) + ",shrinks";
}

ElasticReport on(int gpus, double iteration = 100.0) { return {iteration, 1e6, Seconds(0.1), gpus}; }

ElasticAnswer tell(Site& site, std::int64_t job, int gpus, double iteration = 100.0) {
  return site.controller->report(job, 1000, on(gpus, iteration));
}

// Job 1 runs on n1 to n4 and has said so; job 2 has come, so that job 1 is to have n1 and n2.
void run_on_all_and_be_joined(Site& site, const std::string& option = shrinking("a")) {
  site.engine.submit(1, option);
  site.cycles(6);
  ASSERT_EQ(site.gpus(1), 16) << site.why(1);
  (void)tell(site, 1, 16);
  site.cycle();
  site.engine.submit(2, elastic("b", 8, 8));
  site.engine.acts.clear();
  site.cycle();
}

TEST(Shrinks, AJobGoesOnWithSomeOfItsNodes) {
  Site site(4);
  run_on_all_and_be_joined(site);
  EXPECT_THAT(site.why(1), HasSubstr("shrinking: from 16 GPUs on n1, n2, n3, n4 to 8 GPUs on n1, n2: "));
  const ElasticAnswer told = tell(site, 1, 16);
  EXPECT_TRUE(told.stop);
  EXPECT_THAT(told.keeps, ElementsAre("n1", "n2"));
  site.cycles(2);
  EXPECT_EQ(site.gpus(1), 16);  // it has not said yet that it has left the others
  EXPECT_EQ(site.gpus(2), 0);
  const ElasticAnswer again = tell(site, 1, 8);
  EXPECT_FALSE(again.stop);
  EXPECT_THAT(again.keeps, IsEmpty());
  site.cycles(3);
  EXPECT_EQ(site.gpus(1), 8);
  EXPECT_EQ(site.gpus(2), 8);
  EXPECT_THAT(site.engine.acts, ElementsAre("resize 2", "take 1", "start 2"));
  EXPECT_THAT(site.store->transitions(), IsEmpty());
  EXPECT_THAT(site.why(1), HasSubstr("running: "));
  EXPECT_FALSE(tell(site, 1, 8).stop);
  site.start();  // nothing is left over
  site.cycles(3);
  EXPECT_FALSE(tell(site, 1, 8).stop);
  // Its end is its end: it was told nothing since.
  site.engine.end(1);
  site.cycles(2);
  EXPECT_EQ(site.requeues(1), 0);
  EXPECT_THAT(site.log, Contains("job 1 has finished"));
}

// The script runs on one of the nodes, which is kept.
TEST(Shrinks, TheNodeOfTheScriptIsKept) {
  Site site(4);
  site.engine.submit(1, shrinking("a"));
  site.cycles(6);
  site.engine.job(1).first_node = "n3";
  (void)tell(site, 1, 16);
  site.cycle();
  site.engine.submit(2, elastic("b", 4, 8));
  site.cycle();
  EXPECT_THAT(tell(site, 1, 16).keeps, ElementsAre("n1", "n3"));
  (void)tell(site, 1, 8);
  site.cycles(3);
  EXPECT_EQ(site.gpus(1), 8);
  EXPECT_EQ(site.engine.job(2).gpus.front().node, "n2");
}

TEST(Shrinks, OthersAreStoppedAsBefore) {
  Site site(4);
  run_on_all_and_be_joined(site, elastic("a", 4, 16));
  EXPECT_THAT(site.why(1), HasSubstr("stopping: "));
  const ElasticAnswer told = tell(site, 1, 16);
  EXPECT_TRUE(told.stop);
  EXPECT_THAT(told.keeps, IsEmpty());
}

// Where part of a node is to be given up, the job ends: four GPUs of n1 become two.
TEST(Shrinks, APartOfANodeIsNotGivenBackByAJobThatRuns) {
  Site site(1);
  site.engine.submit(1, shrinking("a", 1, 4));
  site.cycles(6);
  ASSERT_EQ(site.gpus(1), 4);
  (void)tell(site, 1, 4);
  site.cycle();
  site.engine.submit(2, elastic("b", 1, 4));
  site.cycle();
  const ElasticAnswer told = tell(site, 1, 4);
  EXPECT_TRUE(told.stop) << site.why(1);
  EXPECT_THAT(told.keeps, IsEmpty());
}

// Eight GPUs on n1 and n2 become four on n1, once the first shrink is over.
TEST(Shrinks, AgainAfterTheFirst) {
  for (const bool shrinkable : {true, false}) {
    SCOPED_TRACE(shrinkable);
    Site site(4);
    run_on_all_and_be_joined(site);
    (void)tell(site, 1, 16);
    (void)tell(site, 1, 8);
    site.cycles(3);
    ASSERT_EQ(site.gpus(1), 8);
    site.engine.job(1).changeable = shrinkable;  // false: as of Slurm without accounts, once it has shrunk
    (void)tell(site, 1, 8);
    (void)tell(site, 2, 8);
    site.cycle();
    site.engine.submit(3, elastic("c", 4, 4));
    site.engine.acts.clear();
    site.cycle();
    const ElasticAnswer told = tell(site, 1, 8);
    ASSERT_TRUE(told.stop) << site.why(1);
    if (!shrinkable) {
      EXPECT_THAT(told.keeps, IsEmpty());
      continue;
    }
    EXPECT_THAT(told.keeps, ElementsAre("n1"));
    (void)tell(site, 1, 4);
    site.cycles(3);
    EXPECT_EQ(site.gpus(1), 4);
    EXPECT_EQ(site.gpus(3), 4);
    EXPECT_EQ(site.requeues(1), 0);
  }
}

// A job that never goes on with fewer is asked for 30 s, then told to stop for 30 s, then put back. From then on it is
// told to stop at once, also by a controller that has been started since.
TEST(Shrinks, AJobThatDoesNotGoOnIsStartedAgain) {
  Site site(4);
  run_on_all_and_be_joined(site);
  for (int i = 0; i < 29; ++i) {
    EXPECT_THAT(tell(site, 1, 16).keeps, ElementsAre("n1", "n2"));
    site.cycle();
  }
  site.cycle();
  for (int i = 0; i < 29; ++i) {
    const ElasticAnswer told = tell(site, 1, 16);
    EXPECT_TRUE(told.stop);
    EXPECT_THAT(told.keeps, IsEmpty());
    site.cycle();
  }
  EXPECT_EQ(site.requeues(1), 0);
  EXPECT_THAT(site.log, Contains(HasSubstr("job 1 is stopped and started again for fewer GPUs, since it did not go on "
                                           "with n1, n2 within 30 s, as at every change from now on")));
  site.cycles(8);
  EXPECT_EQ(site.requeues(1), 1);
  EXPECT_EQ(site.gpus(1), 8);
  EXPECT_EQ(site.gpus(2), 8);
  (void)tell(site, 1, 8);
  site.start();
  site.cycle();
  (void)tell(site, 1, 8);
  (void)tell(site, 2, 8);
  site.cycle();
  site.engine.submit(3, elastic("c", 4, 4));
  site.cycle();
  EXPECT_TRUE(tell(site, 1, 8).stop);
  EXPECT_THAT(tell(site, 1, 8).keeps, IsEmpty());
}

// A job that always says eight has never said that it runs on sixteen, so that its word for eight is not taken. One
// that then says four or twelve has not done what it was told either.
TEST(Shrinks, AJobThatSaysAnythingIsNotBelieved) {
  {
    Site site(4);
    site.engine.submit(1, shrinking("a"));
    site.cycles(6);
    (void)tell(site, 1, 8);
    site.cycle();
    site.engine.submit(2, elastic("b", 4, 8));
    for (int i = 0; i < 30; ++i) {
      site.cycle();
      EXPECT_FALSE(tell(site, 1, 8).stop);
    }
    site.cycles(2);
    EXPECT_EQ(site.gpus(1), 16);
    EXPECT_THAT(site.engine.acts, Not(Contains("take 1")));
    EXPECT_TRUE(tell(site, 1, 8).stop);
    EXPECT_THAT(tell(site, 1, 8).keeps, IsEmpty());
  }
  for (const int said : {4, 12, 32}) {
    Site site(4);
    run_on_all_and_be_joined(site);
    (void)tell(site, 1, 16);
    EXPECT_TRUE(tell(site, 1, said).stop) << said;
    site.cycles(3);
    EXPECT_THAT(site.engine.acts, Not(Contains("take 1"))) << said;
    EXPECT_EQ(site.gpus(1), 16);
  }
}

// Slurm may refuse, which it says only when it is asked. Asked twice, the job is started again: it goes on with eight
// of sixteen GPUs until then. In its next start it is tried anew.
TEST(Shrinks, AnEngineThatRefusesIsNotAskedAgain) {
  for (const int refused : {1, 2}) {
    SCOPED_TRACE(refused);
    Site site(4);
    run_on_all_and_be_joined(site);
    site.engine.takes_refused = refused;
    (void)tell(site, 1, 16);
    (void)tell(site, 1, 8);
    site.cycles(4);
    if (refused == 1) {
      EXPECT_EQ(site.gpus(1), 8);
      EXPECT_FALSE(tell(site, 1, 8).stop);
      continue;
    }
    EXPECT_EQ(site.gpus(1), 16);
    EXPECT_THAT(site.log, Contains(HasSubstr("cannot take nodes from job 1: Job update not available")));
    EXPECT_THAT(site.log, Contains(HasSubstr("since the cluster engine takes no nodes from it while it runs")));
    site.start();  // which is kept
    site.cycles(2);
    const ElasticAnswer told = tell(site, 1, 8);
    EXPECT_TRUE(told.stop);
    EXPECT_THAT(told.keeps, IsEmpty());
    site.engine.end(1);
    site.cycles(8);
    ASSERT_EQ(site.gpus(1), 8) << site.why(1);
    EXPECT_EQ(site.gpus(2), 8);
    EXPECT_EQ(site.requeues(1), 1);
    (void)tell(site, 1, 8);
    (void)tell(site, 2, 8);
    site.cycle();
    site.engine.submit(3, elastic("c", 4, 4));
    site.cycle();
    const ElasticAnswer next = tell(site, 1, 8);
    EXPECT_TRUE(next.stop);
    EXPECT_EQ(next.keeps.size(), 1U);
  }
}

// A script that does not know what to do with nodes that it keeps ends with status 0, as it would when told to stop.
TEST(Shrinks, AJobThatEndsInsteadIsStartedAgain) {
  Site site(4);
  run_on_all_and_be_joined(site);
  EXPECT_TRUE(tell(site, 1, 16).stop);
  site.engine.end(1);
  site.cycles(8);
  EXPECT_EQ(site.gpus(1), 8);
  EXPECT_EQ(site.requeues(1), 1);
  EXPECT_FALSE(tell(site, 1, 8).stop);
}

// One of the two nodes is drained before the job has gone on, or just after: what it is to have then it gets by ending,
// since it may have left nodes that it is to keep now.
TEST(Shrinks, WhatIsWantedMayChangeMeanwhile) {
  for (const bool went_on : {false, true}) {
    SCOPED_TRACE(went_on);
    Site site(4);
    run_on_all_and_be_joined(site);
    EXPECT_THAT(tell(site, 1, 16).keeps, ElementsAre("n1", "n2"));
    if (went_on) (void)tell(site, 1, 8);
    site.engine.node("n2").usable = false;
    site.cycles(2);
    EXPECT_THAT(site.why(1), HasSubstr("stopping: from 16 GPUs"));
    const ElasticAnswer told = tell(site, 1, 8);
    EXPECT_TRUE(told.stop) << site.why(1);
    EXPECT_THAT(told.keeps, IsEmpty());
    EXPECT_THAT(site.engine.acts, Not(Contains("take 1")));
    site.engine.end(1);
    site.cycles(8);
    EXPECT_GE(site.gpus(1), 4) << site.why(1);
    EXPECT_EQ(site.gpus(1) + site.gpus(2), 12);
    EXPECT_EQ(site.requeues(1), 1);
  }
}

// While the controller is away, a node that the job was to keep is drained, so that nothing is decided for it until the
// node is back. By then it has sixteen GPUs again and uses eight: it is started again.
TEST(Shrinks, AJobThatGaveNodesBackInVainIsStartedAgain) {
  Site site(4);
  run_on_all_and_be_joined(site);
  (void)tell(site, 1, 16);
  site.engine.node("n2").usable = false;
  site.engine.end(2, EngineJobState::kCancelled);
  site.start();
  site.cycles(2);
  EXPECT_FALSE(tell(site, 1, 8).stop) << site.why(1);
  site.engine.node("n2").usable = true;
  site.cycles(2);
  EXPECT_TRUE(tell(site, 1, 8).stop) << site.why(1);
  EXPECT_THAT(tell(site, 1, 8).keeps, IsEmpty());
  site.engine.end(1);
  site.cycles(8);
  EXPECT_EQ(site.gpus(1), 16) << site.why(1);
  EXPECT_FALSE(tell(site, 1, 16).stop);
}

// Until the engine shows the job with eight GPUs it counts with sixteen, though it has left them: 16 GPUs on four nodes
// count with their boards' 6400 W here, and eight with 3200 W, since no agent tells of any.
TEST(Shrinks, ItCountsWithAllItsGpusUntilTheEngineShowsFewer) {
  NodeAgents agents({});
  ControllerOptions how = a100_cluster();
  how.agents = &agents;
  Site site(4, how);
  run_on_all_and_be_joined(site);
  const auto counted = [&] { return site.controller->status().jobs.at(0).power; };
  EXPECT_EQ(counted(), Watts(6400.0));
  (void)tell(site, 1, 16);
  (void)tell(site, 1, 8);
  site.engine.takes_refused = 1;
  site.cycle();
  EXPECT_EQ(counted(), Watts(6400.0));
  site.cycle();  // which takes the nodes, having looked before
  EXPECT_EQ(counted(), Watts(6400.0));
  site.cycle();
  EXPECT_EQ(counted(), Watts(3200.0));
}

// What it costs is counted from the cycle after the one answer to that after the other, 7 s, in which ten iterations of
// 0.1 s were done, and is shown and kept beside what a restart costs.
TEST(Shrinks, WhatItCostsIsMeasured) {
  Site site(4);
  run_on_all_and_be_joined(site);
  (void)tell(site, 1, 16, 100.0);
  site.cycles(7);
  (void)site.controller->report(1, 1000, {110.0, 1e6, Seconds(0.0), 8});  // not a whole iteration yet
  EXPECT_THAT(times_of(*site.store, ChangePart::kShrink), IsEmpty());
  (void)tell(site, 1, 8, 110.0);
  site.cycle();
  ASSERT_EQ(times_of(*site.store, ChangePart::kShrink).size(), 1U);
  EXPECT_EQ(times_of(*site.store, ChangePart::kShrink)[0].kind, "a");
  EXPECT_DOUBLE_EQ(times_of(*site.store, ChangePart::kShrink)[0].mean_s, 7.0 - 1.0);
  site.start();
  site.cycles(2);
  const std::vector<ClusterKindStatus> kinds = site.controller->status().kinds;
  ASSERT_EQ(kinds.size(), 2U);
  EXPECT_EQ(kinds[0].shrinks, 1);
  EXPECT_DOUBLE_EQ(kinds[0].shrink.value(), 6.0);
  EXPECT_EQ(kinds[0].measured, 0);
  EXPECT_EQ(kinds[0].restart, site.given.spec.restart);
}

// Also of a job that goes on before a cycle has seen that it was told: it lost less than a cycle.
TEST(Shrinks, WhatItCostsIsMeasuredWithinACycle) {
  Site site(4);
  run_on_all_and_be_joined(site);
  (void)tell(site, 1, 16);
  (void)site.controller->report(1, 1000, {100.0, 1e6, Seconds(0.0), 8});
  site.cycles(2);
  (void)tell(site, 1, 8, 105.0);
  site.cycle();
  ASSERT_EQ(times_of(*site.store, ChangePart::kShrink).size(), 1U);
  EXPECT_DOUBLE_EQ(times_of(*site.store, ChangePart::kShrink)[0].mean_s, 2.0 - 0.5);
}

// A job as it would behave: it reports once a cycle, goes on with what it keeps two cycles after it was told, and ends
// where it is told to end.
class Program {
 public:
  Program(Site& site, std::int64_t job) : site_(site), job_(job) {}

  void turn() {
    if (site_.engine.job(job_).state != EngineJobState::kRunning) {
      gpus_ = 0;
      return;
    }
    if (gpus_ == 0) gpus_ = site_.gpus(job_);
    moving_ = std::max(0, moving_ - 1);
    if (moving_ > 0) return;
    ElasticAnswer answer;
    try {
      answer = tell(site_, job_, gpus_);
    } catch (const ReportRefusal&) {
      return;  // a controller that was just started
    }
    if (!answer.stop) return;
    if (answer.keeps.empty()) return site_.engine.end(job_);
    gpus_ = static_cast<int>(answer.keeps.size()) * 4;
    moving_ = 2;
    ++moves;
  }

  int moves = 0;

 private:
  Site& site_;
  std::int64_t job_;
  int gpus_ = 0;
  int moving_ = 0;
};

struct Played {
  int moves = 0;
  int requeues = 0;
  int gpus = 0;
  int gpus_of_other = 0;
  int takes = 0;
  std::vector<std::string> acts;
};

// `again`: the cycle after which the controller is killed and started again; -1: none.
Played play(Site& site, int again = -1) {
  Program program(site, 1);
  site.engine.submit(1, shrinking("a"));
  for (int cycle = 0; cycle < 40; ++cycle) {
    if (cycle == 8) site.engine.submit(2, elastic("b", 4, 8));
    site.cycle();
    if (cycle == again) site.start();
    program.turn();
  }
  Played played{program.moves, site.requeues(1), site.gpus(1), site.gpus(2), 0, site.engine.acts};
  played.takes = static_cast<int>(std::ranges::count(played.acts, "take 1"));
  return played;
}

void expect_one_shrink(const Site& site, const Played& played) {
  EXPECT_EQ(played.moves, 1);
  EXPECT_EQ(played.requeues, 0);
  EXPECT_EQ(played.gpus, 8);
  EXPECT_EQ(played.gpus_of_other, 8);
  EXPECT_EQ(played.takes, 1);
  EXPECT_THAT(site.store->transitions(), IsEmpty());
}

// Killed before or after any act, or between any two cycles, the controller goes on where it was: the job moves once
// and is never put back, and nodes are taken from it once.
TEST(Shrinks, TheControllerMayBeKilledAtAnyMoment) {
  Site calm(4);
  const Played whole = play(calm);
  expect_one_shrink(calm, whole);
  for (int at = 0; at < static_cast<int>(whole.acts.size()); ++at) {
    for (const bool after : {false, true}) {
      SCOPED_TRACE("act " + std::to_string(at) + (after ? ", after it" : ", before it"));
      Site site(4);
      site.engine.kill_at = at;
      site.engine.kill_after = after;
      const Played played = play(site);
      EXPECT_EQ(site.kills, 1);
      expect_one_shrink(site, played);
    }
  }
  for (int cycle = 0; cycle < 20; ++cycle) {
    SCOPED_TRACE("after cycle " + std::to_string(cycle));
    Site site(4);
    expect_one_shrink(site, play(site, cycle));
  }
}

}  // namespace
}  // namespace flyball
