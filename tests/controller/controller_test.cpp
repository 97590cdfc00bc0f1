// The controller on a scripted engine: it grows and shrinks jobs, leaves others alone, and may be killed at any act.
#include "controller/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "controller/controller_site.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using testing::a100_cluster;
using ::testing::Contains;
using testing::elastic;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Killed;
using ::testing::Not;
using testing::ScriptedEngine;
using testing::Site;
using testing::TempFolder;
using testing::times_of;

// By the guess that the scheduler starts with, two GPUs of a node are 1.7 times as fast as one, so that two jobs share
// eight GPUs, and one that is left gets all of them.
TEST(Controller, GrowsAJobWhenAnotherHasEnded) {
  Site site(2);
  site.engine.submit(1, elastic("a"));
  site.engine.submit(2, elastic("b"));
  site.cycles(6);
  EXPECT_EQ(site.gpus(1), 4);
  EXPECT_EQ(site.gpus(2), 4);
  EXPECT_THAT(site.engine.acts, ElementsAre("resize 1", "resize 2", "start 1", "start 2"));
  site.engine.acts.clear();
  site.engine.end(1);
  site.cycles(6);
  EXPECT_EQ(site.gpus(2), 8);
  EXPECT_THAT(site.engine.acts, ElementsAre("requeue 2", "resize 2", "start 2"));
  EXPECT_THAT(site.why(2), HasSubstr("running: from 4 GPUs on n"));
  EXPECT_THAT(site.why(2), HasSubstr("job 1 has finished"));
  site.engine.acts.clear();
  site.cycles(5);
  EXPECT_THAT(site.engine.acts, IsEmpty());  // nothing more happens
  EXPECT_EQ(std::ranges::count(site.log, "job 1 has finished"), 1);
}

// Without any time to act in, a cycle still gives one job its turn, and the next cycle the next one.
TEST(Controller, SpreadsActsOverCyclesWhereTheyTakeLong) {
  ControllerOptions how = a100_cluster();
  how.act_within = Seconds(0.0);
  Site site(2, how);
  for (int job = 1; job <= 3; ++job) site.engine.submit(job, elastic("a", 1, 2));
  site.cycles(4);
  EXPECT_THAT(site.engine.acts, ElementsAre("resize 1", "resize 2", "resize 3", "start 1"));
  site.cycles(6);
  for (int job = 1; job <= 3; ++job) EXPECT_EQ(site.gpus(job), 2) << job;
}

// A job that waits for its turn longer than a change may take is not given up for that: with one turn in each cycle,
// the eighth has its first after 8 s.
TEST(Controller, GivesNoJobUpThatHadNoTurn) {
  ControllerOptions how = a100_cluster();
  how.act_within = Seconds(0.0);
  how.stop_within = Seconds(2.0);
  how.settle_within = Seconds(3.0);
  Site site(2, how);
  for (int job = 1; job <= 8; ++job) site.engine.submit(job, elastic("a", 1, 1));
  site.cycles(30);
  EXPECT_THAT(site.log, Not(Contains(HasSubstr("came to nothing"))));
  for (int job = 1; job <= 8; ++job) EXPECT_EQ(site.gpus(job), 1) << site.why(job);
}

// Of many causes at once the first few are told.
TEST(Controller, TellsFewOfManyCauses) {
  Site site(2);
  for (int job = 1; job <= 8; ++job) site.engine.submit(job, elastic("a", 1, 1));
  site.cycles(1);
  EXPECT_THAT(site.why(8), HasSubstr("job 3 has come and "));
  EXPECT_THAT(site.why(8), Not(HasSubstr("job 4 has come")));
}

TEST(Controller, HoldsWhatIsNotHeldAndAdoptsWhatRuns) {
  Site site(2);
  site.engine.submit(1, elastic("a"), false).wanted.nodes.clear();
  site.engine.run(2, elastic("b", 1, 2), "n2", 2);
  site.engine.run(3, elastic("c", 1, 2), "n2", 2);
  site.cycles(6);
  EXPECT_EQ(site.gpus(1), 4);
  EXPECT_EQ(site.gpus(2), 2);
  EXPECT_EQ(site.gpus(3), 2);
  EXPECT_EQ(site.engine.job(1).gpus[0].node, "n1");
  EXPECT_THAT(site.engine.acts, Contains("hold 1"));
  for (const char* const act : {"requeue 2", "requeue 3"}) EXPECT_THAT(site.engine.acts, Not(Contains(act)));
}

// Jobs that are not elastic are never touched. Their nodes are out of use as a whole, and their watts off the budget.
TEST(Controller, LeavesOthersAlone) {
  Site site(2);
  site.engine.run(1, "", "n1", 1);
  site.engine.run(2, elastic("a"), "n1", 2);
  site.engine.submit(3, elastic("b"));
  site.cycles(6);
  EXPECT_EQ(site.gpus(3), 4);
  EXPECT_EQ(site.engine.job(3).gpus[0].node, "n2");
  for (const std::string& act : site.engine.acts) EXPECT_THAT(act, HasSubstr(" 3"));
  EXPECT_THAT(site.why(2), HasSubstr("left alone"));
  // Of the eight GPUs, one has job 1 and two have job 2, which is not scheduled: at most 400 W each. One idles at 50 W.
  EXPECT_EQ(site.controller->status().others, Watts(3 * 400.0 + 1 * 50.0));
  // When the other job ends, job 2 is the scheduler's.
  site.engine.end(1);
  site.cycles(8);
  EXPECT_EQ(site.gpus(2), 4);
}

// What the scheduler cannot place waits in Slurm's queue as if there were no controller.
TEST(Controller, HoldsOnlyWhatItCanPlace) {
  Site site(2);
  site.engine.submit(1, elastic("a"), false).resizable = false;  // --gpus=4, an array, srun, --no-requeue
  site.engine.submit(2, elastic("b", 3, 3), false);              // no power of two from 3 to 3
  site.engine.submit(3, elastic("c"), false).depends = true;
  site.engine.submit(4, elastic("d", 3, 3));  // held by `flyball cluster submit`
  site.cycles(3);
  EXPECT_THAT(site.engine.acts, ElementsAre("start 4"));
  EXPECT_THAT(site.why(1), HasSubstr("left alone: its GPUs were not asked for by --gpus-per-node"));
  EXPECT_THAT(site.why(3), HasSubstr("it waits for other jobs"));
}

// Also when the engine refuses at first, and when the controller is started again before it has done so.
TEST(Controller, ReleasesAJobThatIsNoLongerElastic) {
  for (const bool again : {false, true}) {
    Site site(1);
    site.engine.run(1, "", "n1", 4);
    site.engine.submit(2, elastic("a"), false);
    site.cycles(2);
    ASSERT_TRUE(site.engine.job(2).held);
    site.engine.job(2).comment = "";
    site.engine.refuses = true;
    site.cycle();
    if (again) site.start();
    site.engine.refuses = false;
    site.cycle();
    EXPECT_FALSE(site.engine.job(2).held);
    EXPECT_THAT(site.store->jobs(), IsEmpty());
    site.engine.job(2).held = true;  // by its owner
    site.cycles(3);
    EXPECT_TRUE(site.engine.job(2).held);
  }
}

// A job that its owner or an administrator holds stays so, before it has started and after; the controller's own holds
// end, also when it was started again meanwhile.
TEST(Controller, LeavesHoldsOfOthersAlone) {
  Site site(1);
  site.engine.submit(1, elastic("a"), false).held = true;
  site.engine.submit(2, elastic("b", 1, 1), false);
  site.cycles(2);
  site.start();
  site.cycles(4);
  EXPECT_TRUE(site.engine.job(1).held);
  EXPECT_EQ(site.why(1), "left alone: it is held by someone else");
  EXPECT_EQ(site.gpus(2), 1);
  site.engine.job(1).held = false;
  site.cycles(6);
  EXPECT_GE(site.gpus(1), 1);
  EngineJob& job = site.engine.job(1);  // `scontrol requeuehold 1`
  job.state = EngineJobState::kPending;
  job.held = true;
  job.gpus.clear();
  ++job.restarts;
  site.engine.acts.clear();
  site.cycles(6);
  EXPECT_TRUE(site.engine.job(1).held);
  EXPECT_THAT(site.engine.acts, Not(Contains("start 1")));
}

// Slurm that is killed begins again with a state of some seconds ago, in which a job that runs still waits for its
// release, with the same count of restarts. The same holds for one that was put back, where it had not yet been seen to
// run.
TEST(Controller, StartsAgainWhatTheEngineHasForgotten) {
  ControllerOptions how = a100_cluster();
  how.forgotten_for = Seconds(3.0);
  Site site(1, how);
  site.engine.submit(1, elastic("a", 1, 2));
  site.cycles(6);
  EXPECT_EQ(site.gpus(1), 2);
  const auto forget = [&](bool put_back) {
    EngineJob& job = site.engine.job(1);
    job.state = EngineJobState::kPending;
    job.held = true;
    job.put_back = put_back;
    job.gpus.clear();
  };
  for (const bool controller_too : {false, true}) {
    forget(false);
    if (controller_too) site.start();
    const int starts = site.engine.starts[1];
    site.cycles(4);  // the start is seen to be lost in the first of them; what was started may still run for 3 s
    EXPECT_EQ(site.engine.starts[1], starts);
    site.cycles(4);
    EXPECT_EQ(site.gpus(1), 2) << site.why(1);
  }
  // Put back for a change, released, and forgotten before a cycle has seen it run.
  site.engine.job(1).restarts = 3;
  forget(true);
  JobRecord record = site.store->jobs().at(0);
  record.held = false;
  record.released = 3;
  record.ran = 2;
  site.store->keep(std::vector{record});
  site.start();
  site.cycles(8);
  EXPECT_EQ(site.gpus(1), 2) << site.why(1);
}

// A job that cannot be read for a while is neither touched nor forgotten, and is logged once.
TEST(Controller, LeavesOutWhatCannotBeRead) {
  Site site(2);
  site.engine.submit(1, elastic("a"));
  site.engine.submit(2, elastic("b"));
  site.cycles(6);
  site.engine.acts.clear();
  const EngineJob hidden = site.engine.job(2);
  site.engine.view.jobs.pop_back();
  site.engine.view.odd = {{2, "'n[' is no list of nodes"}};
  site.engine.end(1);
  site.cycles(4);
  EXPECT_THAT(site.engine.acts, IsEmpty());
  EXPECT_EQ(std::ranges::count(site.log, "job 2 cannot be read, and is left out: 'n[' is no list of nodes"), 1);
  EXPECT_THAT(site.log, Not(Contains("job 2 is gone")));
  site.engine.view.odd.clear();
  site.engine.view.jobs.push_back(hidden);
  site.cycles(6);
  EXPECT_EQ(site.gpus(2), 8);
}

TEST(Controller, MovesJobsOffNodesThatAreDrained) {
  Site site(2);
  site.engine.submit(1, elastic("a", 1, 4));
  site.cycles(5);
  ASSERT_EQ(site.gpus(1), 4);
  const std::string first = site.engine.job(1).gpus[0].node;
  for (EngineNode& node : site.engine.view.nodes) node.usable = node.name != first;
  site.cycles(6);
  ASSERT_EQ(site.gpus(1), 4);
  EXPECT_NE(site.engine.job(1).gpus[0].node, first);
  EXPECT_EQ(site.requeues(1), 1);
}

// A job that reports is asked to stop first, and its end is not taken for the end of its work.
TEST(Controller, AsksJobsThatReportToStop) {
  Site site(2);
  site.engine.submit(1, elastic("a"));
  site.engine.submit(2, elastic("b"));
  site.cycles(6);
  const ElasticReport told{100.0, 1e6, Seconds(0.1), 4};
  EXPECT_FALSE(site.controller->report(2, 1000, told).stop);
  site.cycle();
  site.engine.end(1);
  site.cycles(2);
  EXPECT_THAT(site.engine.acts, Not(Contains("requeue 2")));
  EXPECT_TRUE(site.controller->report(2, 1000, told).stop);
  site.start();  // also when the controller was killed meanwhile
  site.cycle();
  site.engine.end(2);
  site.cycles(6);
  EXPECT_EQ(site.gpus(2), 8);
  EXPECT_EQ(site.requeues(2), 1);
  EXPECT_FALSE(site.controller->report(2, 1000, {100.0, 1e6, Seconds(0.1), 8}).stop);
  // With all iterations done it is finished, and is not put back.
  (void)site.controller->report(2, 1000, {1e6, 1e6, Seconds(0.1), 8});
  site.engine.end(2);
  site.cycles(3);
  EXPECT_EQ(site.requeues(2), 1);
  EXPECT_THAT(site.controller->status().jobs, IsEmpty());
}

// A controller that is started again, however late, asks a job that has ever reported, and waits for it from then on.
// Before it has looked, it knows no job, and says so rather than that there is none.
TEST(Controller, AsksAlsoAfterItWasStartedAgain) {
  Site site(2);
  site.engine.submit(1, elastic("a"));
  site.engine.submit(2, elastic("b"));
  site.cycles(6);
  const ElasticReport told{100.0, 1e6, Seconds(0.1), 4};
  (void)site.controller->report(2, 1000, told);
  site.cycle();
  site.engine.end(1);
  for (const bool decided : {false, true}) {
    if (decided) site.cycle();
    site.start();
    site.now += Seconds(500.0);
    try {
      (void)site.controller->report(2, 1000, told);
      ADD_FAILURE() << "taken before the first cycle";
    } catch (const ReportRefusal& refusal) {
      EXPECT_EQ(refusal.status(), 503U);
    }
    site.cycles(10);
    EXPECT_EQ(site.requeues(2), 0);
    EXPECT_TRUE(site.controller->report(2, 1000, told).stop);
  }
  EXPECT_THAT(site.log, Not(Contains(HasSubstr("came to nothing"))));
  site.cycles(30);
  EXPECT_EQ(site.requeues(2), 1);
}

// One that does not end when it was asked to is put back after a while.
TEST(Controller, DoesNotWaitForEver) {
  Site site(2);
  site.engine.submit(1, elastic("a"));
  site.engine.submit(2, elastic("b"));
  site.cycles(6);
  (void)site.controller->report(2, 1000, {100.0, 1e6, Seconds(0.1), 4});
  site.engine.end(1);
  site.cycles(25);
  EXPECT_EQ(site.requeues(2), 0);
  site.cycles(15);
  EXPECT_EQ(site.requeues(2), 1);
  EXPECT_EQ(site.gpus(2), 8);
}

TEST(Controller, TakesReportsOfTheJobsOwnUserOnly) {
  Site site(1);
  site.engine.submit(1, elastic("a"));
  site.engine.run(2, "", "n1", 1);
  site.cycle();
  const auto status = [&](std::int64_t job, std::optional<std::int64_t> user) -> unsigned {
    try {
      (void)site.controller->report(job, user, {});
    } catch (const ReportRefusal& refusal) {
      return refusal.status();
    }
    return 200;
  };
  EXPECT_EQ(status(1, 1000), 200U);
  EXPECT_EQ(status(1, 0), 200U);
  EXPECT_EQ(status(1, 1001), 403U);
  EXPECT_EQ(status(2, 1000), 404U);
  EXPECT_EQ(status(3, 0), 404U);
}

// After three transitions that came to nothing a job is left alone, and says so.
TEST(Controller, GivesUpOnAJobThatCannotBeMoved) {
  ControllerOptions given = a100_cluster();
  given.stop_within = Seconds(2.0);
  given.settle_within = Seconds(3.0);
  given.back_off = Seconds(5.0);
  Site site(2, given);
  site.engine.run(1, elastic("a"), "n1", 1);
  site.engine.refuses = true;
  site.cycles(80);
  EXPECT_EQ(site.gpus(1), 1);
  EXPECT_THAT(site.why(1), HasSubstr("left alone from now on"));
  EXPECT_THAT(site.log, Contains(HasSubstr("cannot requeue job 1: Slurm backup controller")));
  site.start();
  site.engine.refuses = false;
  site.cycles(5);
  EXPECT_THAT(site.engine.acts, IsEmpty());
}

TEST(Controller, ObservesWithoutActing) {
  ControllerOptions given = a100_cluster();
  given.mode = ControllerMode::kObserves;
  Site site(2, given);
  site.engine.submit(1, elastic("a"));
  site.engine.run(2, elastic("b"), "n1", 1);
  site.cycles(2);
  for (int step = 1; step <= 3; ++step) {
    (void)site.controller->report(2, 1000, {10.0 * step, 1e6, Seconds(0.25), 1});
    site.cycle();
  }
  EXPECT_THAT(site.engine.acts, IsEmpty());
  const std::vector<MeasuredCost> costs = site.store->costs();
  ASSERT_EQ(costs.size(), 1U);
  EXPECT_EQ(costs[0].kind, "b");
  EXPECT_EQ(costs[0].gpus, 1);
  EXPECT_EQ(costs[0].time_s, 0.25);
}

// The budget counts for all GPUs: a job gets no more of them than it may have watts for, and gives them back when the
// order is over.
TEST(Controller, KeepsABudgetForAWhile) {
  ControllerOptions given = a100_cluster();
  given.budget = Watts(6000.0);
  Site site(2, given);
  site.engine.submit(1, elastic("a"));
  site.cycles(5);
  EXPECT_EQ(site.gpus(1), 8);
  site.controller->order_budget({Watts(1200.0), site.now + Seconds(20.0)});
  site.cycles(6);
  EXPECT_LT(site.gpus(1), 8);
  EXPECT_GT(site.gpus(1), 0);
  const ClusterRunStatus seen = site.controller->status();
  EXPECT_LE(seen.power, seen.limit);
  site.start();  // the order is kept
  site.cycle();
  EXPECT_EQ(site.controller->status().budget, Watts(1200.0));
  site.cycles(25);
  EXPECT_EQ(site.controller->status().budget, Watts(6000.0));
  EXPECT_EQ(site.gpus(1), 8);
}

// A job that is to shrink draws for all its GPUs until it has stopped; what is to get its watts waits so long, though
// there are free GPUs for it. Eight GPUs on two nodes are believed to draw 2848 W, four on one 1468 W, together 4316 W:
// of 4800 W there is enough for both, of 4000 W only once the first job has four, too.
TEST(Controller, LowersBeforeItRaises) {
  ControllerOptions how = a100_cluster();
  how.budget = Watts(4800.0);
  Site site(3, how);
  site.engine.submit(1, elastic("a"));
  site.cycles(6);
  ASSERT_EQ(site.gpus(1), 8);
  (void)site.controller->report(1, 1000, {100.0, 1e6, Seconds(0.1), 8});
  site.engine.submit(2, elastic("b"));
  site.cycle();
  EXPECT_THAT(site.why(2), HasSubstr("starting: from no GPUs to 4 GPUs on n3: "));
  site.controller->order_budget({Watts(4000.0), std::nullopt});
  site.cycles(10);
  EXPECT_EQ(site.gpus(1), 8);  // it was asked to stop, and takes its time
  EXPECT_EQ(site.gpus(2), 0);
  EXPECT_THAT(site.why(1), HasSubstr("stopping: "));
  site.engine.end(1);
  site.cycles(6);
  EXPECT_EQ(site.gpus(1), 4);
  EXPECT_EQ(site.gpus(2), 4);
}

// A job that is to stop, since no watts are left for it, may be given GPUs again before it has stopped.
TEST(Controller, GivesGpusBackToAJobThatIsToStop) {
  Site site(1);
  site.engine.submit(1, elastic("a"));
  site.cycles(6);
  ASSERT_EQ(site.gpus(1), 4);
  (void)site.controller->report(1, 1000, {100.0, 1e6, Seconds(0.1), 4});
  site.controller->order_budget({Watts(100.0), std::nullopt});
  site.cycles(2);
  EXPECT_THAT(site.why(1), HasSubstr("stopping: from 4 GPUs on n1 to no GPUs"));
  site.controller->order_budget({Watts(1e6), std::nullopt});
  site.cycles(2);
  site.engine.end(1);
  site.cycles(6);
  EXPECT_EQ(site.gpus(1), 4);
}

// A change that was measured to cost 5 s is made for a job that has 200 s left on four GPUs, since twice as many are
// believed to save tens of seconds of them; one that costs 300 s is not, since no change saves more than the 200 s.
TEST(Controller, ChargesWhatAChangeWasMeasuredToCost) {
  for (const double cost : {5.0, 300.0}) {
    SCOPED_TRACE(cost);
    Site site(2);
    site.engine.submit(1, elastic("a"));
    site.engine.submit(2, elastic("b"));
    site.cycles(6);
    (void)site.controller->report(2, 1000, {100.0, 1e6, Seconds(0.1), 4});
    site.cycle();
    site.engine.end(1);
    site.cycle();
    ASSERT_TRUE(site.controller->report(2, 1000, {100.0, 1e6, Seconds(0.1), 4}).stop);
    site.cycle();  // which counts the time from here
    const Seconds told = site.now;
    site.engine.end(2);
    while (site.now < told + Seconds(cost)) site.cycle();
    ASSERT_EQ(site.gpus(2), 8);
    EXPECT_THAT(times_of(*site.store, ChangePart::kRestart), IsEmpty());
    EXPECT_EQ(site.controller->status().kinds.at(0).measured, 0);
    EXPECT_EQ(site.controller->status().kinds.at(0).restart, site.given.spec.restart);
    // One iteration of a second was done meanwhile.
    (void)site.controller->report(2, 1000, {101.0, 1e6, Seconds(1.0), 8});
    site.cycle();
    site.start();  // it is kept
    site.cycle();
    const std::vector<ClusterKindStatus> kinds = site.controller->status().kinds;
    ASSERT_EQ(kinds.size(), 1U);
    EXPECT_EQ(kinds[0].kind, "b");
    EXPECT_EQ(kinds[0].measured, 1);
    EXPECT_DOUBLE_EQ(kinds[0].restart.value(), cost);
    site.engine.end(2, EngineJobState::kCancelled);
    site.engine.submit(3, elastic("b"));
    site.engine.submit(4, elastic("c"));
    site.cycles(6);
    ASSERT_EQ(site.gpus(3), 4);
    for (int i = 0; i < 3; ++i) {
      (void)site.controller->report(3, 1000, {998'000.0, 1e6, Seconds(0.1), 4});
      site.cycle();
    }
    site.engine.end(4);
    site.cycles(2);
    EXPECT_EQ(site.controller->report(3, 1000, {998'000.0, 1e6, Seconds(0.1), 4}).stop, cost < 100.0) << site.why(3);
  }
}

// A job that the scheduler moves to another GPU of its node, to make room for a larger one, stays where it is to the
// engine, and is no longer on its way: it can be stopped.
TEST(Controller, AJobThatMovesWithinItsNodeIsNotOnItsWay) {
  Site site(1);
  for (const std::int64_t job : {1, 2, 3, 4}) site.engine.submit(job, elastic("a", 1, 1));
  site.cycles(6);
  for (const std::int64_t job : {1, 2, 3, 4}) ASSERT_EQ(site.gpus(job), 1);
  for (const std::int64_t job : {2, 4}) site.engine.end(job);
  site.engine.submit(5, elastic("b", 2, 2));
  site.cycles(6);
  ASSERT_EQ(site.gpus(5), 2);
  EXPECT_EQ(site.requeues(1) + site.requeues(3), 0);
  site.controller->order_budget({Watts(100.0), std::nullopt});
  site.cycle();
  for (const std::int64_t job : {1, 3, 5}) EXPECT_THAT(site.why(job), HasSubstr("stopping: "));
}

// Starts a job on four GPUs, and takes all watts away. Returns whether its next report is answered so.
bool runs_and_is_to_stop(Site& site) {
  site.engine.submit(1, elastic("a", 4, 4));
  site.cycles(6);
  (void)site.controller->report(1, 1000, {100.0, 1e6, Seconds(0.5), 4});
  site.cycle();
  site.controller->order_budget({Watts(300.0), std::nullopt});
  site.cycle();
  return site.controller->report(1, 1000, {100.0, 1e6, Seconds(0.5), 4}).stop;
}

// Time in which a job waits for watts is no cost of the change. What it had done since its checkpoint, and does again,
// is.
TEST(Controller, CountsNoTimeInTheQueueAsTheCostOfAChange) {
  Site site(1);
  ASSERT_TRUE(runs_and_is_to_stop(site));
  site.cycle();
  site.engine.end(1);
  site.cycles(50);  // in the second of them it is seen to wait: 2 s
  ASSERT_EQ(site.gpus(1), 0);
  site.controller->order_budget({Watts(1e6), std::nullopt});
  site.cycles(11);  // 10 s from the first of them, in which it may start
  ASSERT_EQ(site.gpus(1), 4);
  // It began again at 90, and did one iteration of half a second: nine are lost, 4.5 s.
  (void)site.controller->report(1, 1000, {91.0, 1e6, Seconds(0.5), 4});
  site.cycle();  // 11 s
  ASSERT_EQ(times_of(*site.store, ChangePart::kRestart).size(), 1U);
  EXPECT_DOUBLE_EQ(times_of(*site.store, ChangePart::kRestart)[0].mean_s, 2.0 + 11.0 + 4.5);
}

// An order that is over leaves nothing behind: what --budget says, when the controller is started again with another
// one, or the order without an end that held before.
TEST(Controller, ForgetsAnOrderThatIsOver) {
  Site site(1);
  site.controller->order_budget({Watts(1200.0), site.now + Seconds(3.0)});
  site.cycle();
  EXPECT_EQ(site.controller->status().budget, Watts(1200.0));
  site.given.budget = Watts(5000.0);
  site.start();
  site.cycles(4);
  EXPECT_EQ(site.controller->status().budget, Watts(5000.0));
  site.controller->order_budget({Watts(3000.0), std::nullopt});
  site.cycle();
  for (const double watts : {1200.0, 1300.0}) {
    site.controller->order_budget({Watts(watts), site.now + Seconds(3.0)});
    site.cycle();
    EXPECT_EQ(site.controller->status().budget, Watts(watts));
  }
  site.start();
  site.cycles(4);
  EXPECT_EQ(site.controller->status().budget, Watts(3000.0));
}

// A job whose first start failed is counted once, and starts. Of four silent GPUs each counts with its board's 400 W;
// there are watts for one such job and not for two.
TEST(Controller, StartsAJobWhoseFirstStartFailed) {
  NodeAgents agents({});
  ControllerOptions how = a100_cluster();
  how.agents = &agents;
  how.budget = Watts(1700.0);
  Site site(1, how);
  site.engine.submit(1, elastic("a", 4, 4));
  site.engine.starts_refused = 1;
  site.cycles(6);
  EXPECT_THAT(site.log, Contains(HasSubstr("cannot start job 1")));
  EXPECT_EQ(site.gpus(1), 4) << site.why(1);
}

// Clocks may be raised while the engine is asked to start a job: its 1600 W are counted already.
TEST(Controller, CountsAJobBeforeItIsStarted) {
  NodeAgents agents({});
  ControllerOptions how = a100_cluster();
  how.agents = &agents;
  Site site(1, how);
  site.engine.submit(1, elastic("a", 4, 4));
  std::vector<Watts> seen;
  site.engine.on_start = [&] {
    site.controller->order_budget({Watts(1e6), std::nullopt});
    (void)site.controller->adjust(site.now);
    seen.push_back(site.controller->status().power);
  };
  site.cycles(6);
  EXPECT_THAT(seen, ElementsAre(Watts(1600.0)));
  EXPECT_EQ(site.controller->status().power, Watts(1600.0));
}

// A job that is to stop altogether still draws what it drew before that was decided.
TEST(Controller, ExpectsTheSameOfAJobThatIsToStop) {
  NodeAgents agents({});
  ControllerOptions how = a100_cluster();
  how.agents = &agents;
  Site site(1, how);
  site.engine.submit(1, elastic("a", 4, 4));
  site.cycles(6);
  (void)site.controller->report(1, 1000, {100.0, 1e6, Seconds(0.5), 4});
  site.cycle();
  const std::optional<Watts> before = site.controller->status().jobs.at(0).expected;
  ASSERT_TRUE(before.has_value());
  site.controller->order_budget({Watts(300.0), std::nullopt});
  site.cycle();
  ASSERT_THAT(site.why(1), HasSubstr("stopping: "));
  EXPECT_EQ(site.controller->status().jobs.at(0).expected, before);
}

// A job that was told to stop altogether gets GPUs again when there are watts for it before it has stopped.
TEST(Controller, GivesGpusToAJobThatHasYetToStop) {
  Site site(1);
  ASSERT_TRUE(runs_and_is_to_stop(site));
  site.controller->order_budget({Watts(1e6), std::nullopt});
  EXPECT_NO_THROW(site.cycles(2));
  site.engine.end(1);
  site.cycles(6);
  EXPECT_EQ(site.gpus(1), 4) << site.why(1);
  EXPECT_EQ(site.requeues(1), 1);
}

// While the engine does not answer, limits may change any number of times: 100 causes are kept, of which 3 are told.
TEST(Controller, KeepsFewCausesWhileTheEngineIsAway) {
  NodeAgents agents({});
  ControllerOptions how = a100_cluster();
  how.agents = &agents;
  Site site(1, how);
  site.cycle();
  for (int order = 0; order < 150; ++order) {
    site.controller->order_budget({Watts(order % 2 == 0 ? 3000.0 : 6000.0), std::nullopt});
    (void)site.controller->adjust(site.now);
  }
  site.engine.submit(1, elastic("a", 4, 4));
  site.cycle();
  EXPECT_THAT(site.why(1), HasSubstr(" and 97 more"));
}

// The third report says nothing of the step: the fourth is learned of.
TEST(Controller, LearnsOfALaterReport) {
  Site site(1);
  site.engine.submit(1, elastic("a", 4, 4));
  site.cycles(6);
  for (const double step_s : {0.25, 0.25, 0.0, 0.25, 0.25}) {
    (void)site.controller->report(1, 1000, {100.0, 1e6, Seconds(step_s), 4});
    site.cycle();
  }
  ASSERT_EQ(site.store->costs().size(), 1U);
  EXPECT_EQ(site.store->costs()[0].time_s, 0.25);
}

// A kind that was measured to draw 390 W on one GPU and is hardly faster on more: 1, 0.97 and 0.92 s for 390, 660 and
// 920 J on 1, 2 and 4 GPUs. Of the 1560 W that four busy GPUs then draw, 1400 W are eta = 0.897, so that a joule costs
// (1 - eta) / (eta 390) = 0.00029 s, and an iteration 1.11, 1.16 and 1.19 s: it gets one GPU. By the 300 W of the
// options there would be power in plenty, joules would cost nothing, and it would get more.
TEST(Controller, WeighsJoulesByWhatItsKindsDraw) {
  ControllerOptions how = a100_cluster();
  how.budget = Watts(1400.0);
  Site site(1, how);
  site.store->keep(MeasuredCost{"a", 1, 1, 1410.0, 1.0, 390.0});
  site.store->keep(MeasuredCost{"a", 2, 1, 1410.0, 0.97, 660.0});
  site.store->keep(MeasuredCost{"a", 4, 1, 1410.0, 0.92, 920.0});
  site.engine.submit(1, elastic("a", 1, 4));
  site.cycles(6);
  EXPECT_EQ(site.gpus(1), 1);
}

// Four GPUs are believed to draw 1129 W, and count with 1468 W while nothing of their kind was metered. Of a budget of
// 1400 W, 1200 are left beside what four idle ones draw. A job that is alone may have them nevertheless: else it would
// wait for ever.
TEST(Controller, StartsAJobAloneSoThatItIsMetered) {
  ControllerOptions how = a100_cluster();
  how.budget = Watts(1400.0);
  Site site(1, how);
  site.engine.submit(1, elastic("a", 4, 4));
  site.cycles(6);
  EXPECT_EQ(site.gpus(1), 4);
}

// Authorities that cannot be read end the first cycle before anything is begun, and the next ones, too.
TEST(Controller, BeginsNothingWhereNoAgentCanBeAsked) {
  const TempFolder folder;
  NodeAgentsOptions where;
  where.addresses = {{"n1", "https://127.0.0.1:1"}};
  where.ca_file = folder / "ca.pem";
  NodeAgents agents(where);
  ControllerOptions how = a100_cluster();
  how.agents = &agents;
  Site site(1, how);
  site.engine.submit(1, elastic("a", 4, 4));
  EXPECT_THROW(site.cycle(), Error);
  EXPECT_FALSE(site.controller->adjust(site.now));
  EXPECT_THROW(site.cycle(), Error);
}

// What is installed agrees with itself: the socket is in a folder that systemd makes, and jobs report there.
TEST(Controller, IsInstalledWhereJobsReport) {
  const auto installed = [](const std::string& name) {
    return read_text_file(std::string(FLYBALL_SOURCE_DIR) + "/" + name);
  };
  EXPECT_THAT(installed("packaging/slurm/plugstack.conf.in"),
              HasSubstr(" cluster=unix:/run/flyball-cluster/cluster.sock\n"));
  EXPECT_THAT(installed("docs/manual/slurm-install.md"), HasSubstr(" --socket /run/flyball-cluster/cluster.sock "));
  const std::string unit = installed("packaging/flyball-cluster.service.in");
  EXPECT_THAT(unit, HasSubstr("\nRuntimeDirectory=flyball-cluster\n"));
  EXPECT_THAT(unit, HasSubstr("\nRestart=on-failure\n"));  // a dry run ends with status 0, once
}

// A database that was written before it said who holds a job: the controller did.
TEST(Controller, OpensADatabaseThatDoesNotSayWhoHolds) {
  const TempFolder folder;
  {
    Database old(folder / "old.db");
    old.execute(
        "CREATE TABLE jobs(job INTEGER PRIMARY KEY, iteration REAL NOT NULL, iterations REAL NOT NULL, "
        "failures INTEGER NOT NULL, told INTEGER NOT NULL); INSERT INTO jobs VALUES(7, 100, 1000, 1, 2); "
        "PRAGMA application_id=0x666c7963; PRAGMA user_version=1");
  }
  for (int opened = 0; opened < 2; ++opened) {
    ControllerStore store(folder / "old.db");
    const std::vector<JobRecord> jobs = store.jobs();
    ASSERT_EQ(jobs.size(), 1U);
    EXPECT_EQ(jobs[0].iteration, 100.0);
    EXPECT_EQ(jobs[0].told, 2);
    EXPECT_TRUE(jobs[0].held);
  }
}

// Until format 5 what restarts cost had a table of its own.
TEST(Controller, KeepsWhatRestartsHaveCostInAnOlderDatabase) {
  const TempFolder folder;
  {
    Database old(folder / "old.db");
    old.execute(
        "CREATE TABLE restarts(kind TEXT PRIMARY KEY, mean_s REAL NOT NULL, measured INTEGER NOT NULL) WITHOUT ROWID; "
        "INSERT INTO restarts VALUES('a', 7.5, 3); PRAGMA application_id=0x666c7963; PRAGMA user_version=5");
  }
  for (int opened = 0; opened < 2; ++opened) {
    ControllerStore store(folder / "old.db");
    const std::vector<ChangeTime> times = store.change_times();
    ASSERT_EQ(times.size(), 1U);
    EXPECT_EQ(times[0].kind, "a");
    EXPECT_EQ(times[0].part, ChangePart::kRestart);
    EXPECT_EQ(times[0].mean_s, 7.5);
    EXPECT_EQ(times[0].measured, 3);
  }
}

// Killed before or after any of its acts, the controller goes on: the same jobs run with the same GPUs in the end, each
// was put back into the queue as often as when nothing went wrong, and none was started more often.
TEST(Controller, MayBeKilledAtAnyAct) {
  const auto play = [](Site& site) {
    site.engine.submit(1, elastic("a"));
    site.engine.submit(2, elastic("b"));
    site.cycles(8);
    site.engine.submit(3, elastic("c"));
    site.cycles(10);
    site.engine.end(1);
    site.cycles(10);
  };
  Site calm(2);
  play(calm);
  const int acts = static_cast<int>(calm.engine.acts.size());
  ASSERT_GE(acts, 10);
  for (int at = 0; at < acts; ++at) {
    for (const bool after : {false, true}) {
      Site site(2);
      site.engine.kill_at = at;
      site.engine.kill_after = after;
      play(site);
      SCOPED_TRACE("act " + std::to_string(at) + (after ? ", after it" : ", before it"));
      EXPECT_EQ(site.kills, 1);
      for (const std::int64_t job : {2, 3}) {
        EXPECT_EQ(site.gpus(job), calm.gpus(job)) << job;
        EXPECT_EQ(site.requeues(job), calm.requeues(job)) << job;
        EXPECT_EQ(site.engine.starts[job], calm.engine.starts[job]) << job;
      }
      EXPECT_THAT(site.store->transitions(), IsEmpty());
    }
  }
}

}  // namespace
}  // namespace flyball
