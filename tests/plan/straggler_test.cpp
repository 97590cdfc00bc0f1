#include "plan/straggler.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace flyball {
namespace {

// Blocking 100 W in all. Baseline: 10 s and 5000 J net. Points at 10, 11 and 13 s (T*) with 4600, 4200 and 4000 J net.
FrontierPoint baseline() {
  FrontierPoint point;
  point.time = 10'000'000'000;
  point.net_joules = 5000;
  return point;
}

Frontier frontier() {
  Frontier frontier(Watts(100));
  FrontierPoint point;
  point.time = 10'000'000'000;
  point.net_joules = 4600;
  frontier.add(point, {0});
  point.time = 11'000'000'000;
  point.net_joules = 4200;
  frontier.add(point, {1});
  point.time = 13'000'000'000;
  point.net_joules = 4000;
  frontier.add(point, {2});
  frontier.finish();
  return frontier;
}

TEST(Straggler, WaitingIsPaidAsBlocking) {
  EXPECT_DOUBLE_EQ(energy_with_straggler(baseline(), Watts(100), 0).value(), 6000.0);
  EXPECT_DOUBLE_EQ(energy_with_straggler(baseline(), Watts(100), 12'000'000'000).value(), 6200.0);
}

// T' = 12 s: baseline 5000 + 1200, T_min plan 4600 + 1200, T_opt = 11 s: 4200 + 1200.
TEST(Straggler, BreaksBloatDown) {
  const BloatBreakdown bloat = break_down_bloat(frontier(), baseline(), 1.2);
  EXPECT_EQ(bloat.straggler_time, 12'000'000'000);
  EXPECT_EQ(bloat.point, 1u);
  EXPECT_DOUBLE_EQ(bloat.baseline.value(), 6200.0);
  EXPECT_DOUBLE_EQ(bloat.intrinsic.value(), 400.0);
  EXPECT_DOUBLE_EQ(bloat.extrinsic.value(), 400.0);
  EXPECT_DOUBLE_EQ(bloat.planned().value(), 5400.0);
  EXPECT_DOUBLE_EQ(bloat.saving_pct(), 100.0 * 800.0 / 6200.0);
}

// Where noise makes maximum clocks slower than T_min, a plan as slow as they are wastes nobody's time: 11 s of 11.5 s.
TEST(Straggler, IntrinsicBloatIsWhatAPlanAsFastAsTheBaselineSaves) {
  FrontierPoint slow = baseline();
  slow.time = 11'500'000'000;
  const BloatBreakdown bloat = break_down_bloat(frontier(), slow, 1.0);
  EXPECT_EQ(bloat.point, 1u);
  EXPECT_DOUBLE_EQ(bloat.intrinsic.value(), 800.0);
  EXPECT_DOUBLE_EQ(bloat.extrinsic.value(), 0.0);
}

// Beyond T* the joules saved stay and their share wanes (Perseus section 6.2.2).
TEST(Straggler, SavingWanesBeyondTStar) {
  const BloatBreakdown at_t_star = break_down_bloat(frontier(), baseline(), 1.3);
  const BloatBreakdown beyond = break_down_bloat(frontier(), baseline(), 1.5);
  EXPECT_DOUBLE_EQ(at_t_star.extrinsic.value(), 600.0);
  EXPECT_DOUBLE_EQ(beyond.extrinsic.value(), 600.0);
  EXPECT_LT(beyond.saving_pct(), at_t_star.saving_pct());
}

TEST(Straggler, NoneMeansNoExtrinsicBloat) {
  const BloatBreakdown bloat = break_down_bloat(frontier(), baseline(), 1.0);
  EXPECT_EQ(bloat.point, 0u);
  EXPECT_DOUBLE_EQ(bloat.intrinsic.value(), 400.0);
  EXPECT_DOUBLE_EQ(bloat.extrinsic.value(), 0.0);
  EXPECT_THROW(static_cast<void>(break_down_bloat(frontier(), baseline(), 0.9)), UsageError);
  EXPECT_THROW(static_cast<void>(break_down_bloat(frontier(), baseline(), std::numeric_limits<double>::quiet_NaN())),
               UsageError);
}

// A plan a little slower than the baseline waits for nobody: its longer blocking counts against it.
TEST(Straggler, ASlowerFastestPlanPaysForItsTime) {
  Frontier slow(Watts(100));
  FrontierPoint point;
  point.time = 10'500'000'000;
  point.net_joules = 4600;
  slow.add(point, {0});
  slow.finish();
  EXPECT_DOUBLE_EQ(break_down_bloat(slow, baseline(), 1.0).intrinsic.value(), 6000.0 - (4600.0 + 1050.0));
}

// 16 pipelines of 8 stages and 8 ranks (Perseus table 5); 15 of them are planned.
TEST(Straggler, JobMultipliesByPipelinesAndRanks) {
  const JobEmulation job = emulate_job(frontier(), baseline(), 8, {16, 8}, 1.2);
  EXPECT_EQ(job.gpus, 1024);
  EXPECT_EQ(job.planned_pipelines, 15);
  EXPECT_DOUBLE_EQ(job.baseline.value(), 16 * 8 * 6200.0);
  EXPECT_DOUBLE_EQ(job.intrinsic.value(), 15 * 8 * 400.0);
  EXPECT_DOUBLE_EQ(job.planned().value(), 8 * (15 * 5400.0 + 6200.0));
  // The share is a little below that of one planned pipeline.
  EXPECT_NEAR(job.saving_pct(), 15.0 / 16.0 * job.pipeline.saving_pct(), 1e-12);

  EXPECT_EQ(emulate_job(frontier(), baseline(), 8, {16, 8}, 1.0).planned_pipelines, 16);
  EXPECT_DOUBLE_EQ(emulate_job(frontier(), baseline(), 8, {1, 1}, 1.2).saving_pct(), 0.0);  // it is the straggler
  EXPECT_THROW(static_cast<void>(emulate_job(frontier(), baseline(), 8, {0, 8}, 1.2)), UsageError);
}

}  // namespace
}  // namespace flyball
