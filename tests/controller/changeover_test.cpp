// How long GPUs take to change hands, as the controller measures it, on the scripted engine: a cycle is a second.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/controller_site.h"

namespace flyball {
namespace {

using testing::elastic;
using testing::Site;

// A job that runs on all four GPUs of a node.
void start_job(Site& site) {
  site.engine.submit(1, elastic("a"));
  site.cycles(6);
  ASSERT_EQ(site.gpus(1), 4);
  (void)site.controller->report(1, 1000, {100.0, 1e6, Seconds(0.1), 4});
  site.cycle();
}

// All its GPUs are taken away in the cycle that follows.
void stop_job(Site& site) {
  site.controller->order_budget({Watts(100.0), std::nullopt});
  site.cycle();
  ASSERT_THAT(site.why(1), ::testing::HasSubstr("stopping: from 4 GPUs on n1 to no GPUs"));
}

ClusterKindStatus kind_of(Site& site, std::size_t index = 0) { return site.controller->status().kinds.at(index); }

// It goes on for three cycles, and the fourth sees its end. The mean is kept.
TEST(Changeover, AStopIsFromTheDecisionUntilTheJobHasNoGpus) {
  Site site(1);
  start_job(site);
  EXPECT_EQ(kind_of(site).stops, 0);
  stop_job(site);
  site.cycles(3);
  site.engine.end(1);
  site.cycle();
  EXPECT_EQ(kind_of(site).stops, 1);
  EXPECT_DOUBLE_EQ(kind_of(site).stop.value(), 4.0);
  EXPECT_EQ(kind_of(site).changeovers, 0);  // nobody waits for its GPUs
  EXPECT_EQ(kind_of(site).measured, 0);     // it has not restarted yet
  EXPECT_EQ(kind_of(site).restart, site.given.spec.restart);
  site.start();
  site.cycle();
  EXPECT_EQ(kind_of(site).stops, 1);
  EXPECT_DOUBLE_EQ(kind_of(site).stop.value(), 4.0);
}

// A second job is to have a part of the first one's GPUs. The fourth cycle from then sees the end of the first, and
// starts the second. The first is put back into the queue in that cycle, resized in the fifth, and started in the
// sixth.
TEST(Changeover, IsFromTheDecisionUntilTheJobThatGetsTheGpusCanStart) {
  Site site(1);
  start_job(site);
  EXPECT_EQ(kind_of(site).changeovers, 0);  // they were free
  site.engine.submit(2, elastic("b"));
  site.cycle();
  ASSERT_THAT(site.why(1), ::testing::HasSubstr("stopping: from 4 GPUs on n1 to 2 GPUs on n1"));
  ASSERT_THAT(site.why(2), ::testing::HasSubstr("starting: from no GPUs to 2 GPUs on n1"));
  site.cycles(3);
  site.engine.end(1);
  site.cycles(4);
  ASSERT_EQ(site.gpus(1), 2);
  ASSERT_EQ(site.gpus(2), 2);
  EXPECT_EQ(kind_of(site, 0).stops, 1);
  EXPECT_DOUBLE_EQ(kind_of(site, 0).stop.value(), 4.0);
  EXPECT_EQ(kind_of(site, 0).changeovers, 1);
  EXPECT_DOUBLE_EQ(kind_of(site, 0).changeover.value(), 6.0);
  EXPECT_EQ(kind_of(site, 1).stops, 0);
  EXPECT_EQ(kind_of(site, 1).changeovers, 1);
  EXPECT_DOUBLE_EQ(kind_of(site, 1).changeover.value(), 4.0);
  site.start();
  site.cycle();
  EXPECT_DOUBLE_EQ(kind_of(site, 0).changeover.value(), 6.0);
  EXPECT_DOUBLE_EQ(kind_of(site, 1).changeover.value(), 4.0);
}

// Nothing is measured where the job fails or is cancelled on its way, or where the controller was not there to see it.
TEST(Changeover, IsNotMeasuredWhereTheJobLeavesInAnotherWay) {
  for (const EngineJobState end : {EngineJobState::kCancelled, EngineJobState::kFailed}) {
    Site site(1);
    start_job(site);
    stop_job(site);
    site.engine.end(1, end);
    site.cycle();
    site.engine.submit(2, elastic("a"));
    site.cycles(6);
    ASSERT_EQ(site.gpus(2), 0);  // there are no watts for it
    EXPECT_EQ(kind_of(site).stops, 0);
    EXPECT_EQ(kind_of(site).changeovers, 0);
  }
  Site site(1);
  start_job(site);
  site.engine.submit(2, elastic("a"));
  site.cycle();
  site.start();
  site.cycles(5);
  site.engine.end(1);
  site.cycles(6);
  ASSERT_EQ(site.gpus(2), 2);
  EXPECT_EQ(kind_of(site).stops, 0);
  EXPECT_EQ(kind_of(site).changeovers, 0);
}

// Told to stop twice, with other GPUs in mind the second time, it has left once, since the first time: three cycles.
TEST(Changeover, AStopCountsOnceHoweverOftenTheJobIsToldTo) {
  Site site(1);
  start_job(site);
  stop_job(site);
  ASSERT_TRUE(site.controller->report(1, 1000, {100.0, 1e6, Seconds(0.1), 4}).stop);
  site.cycle();
  site.controller->order_budget({Watts(1e6), std::nullopt});  // it is given GPUs again, and has to stop all the same
  site.cycle();
  site.engine.end(1);
  site.cycle();
  EXPECT_EQ(kind_of(site).stops, 1);
  EXPECT_DOUBLE_EQ(kind_of(site).stop.value(), 3.0);
}

}  // namespace
}  // namespace flyball
