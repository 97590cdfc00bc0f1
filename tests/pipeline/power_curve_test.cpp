#include "pipeline/power_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/index.h"
#include "pipeline/late_clocks.h"
#include "pipeline/pipeline_spec.h"
#include "support/small_pipelines.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;

constexpr Nanoseconds kOneMs = kMillisecond;

std::vector<double> watts_of(const PowerCurve& curve) {
  std::vector<double> watts;
  for (const Watts power : curve.power) watts.push_back(power.value());
  return watts;
}

Joules integral(const PowerCurve& curve) {
  Joules sum;
  for (std::size_t k = 0; k < curve.begin.size(); ++k) {
    sum += curve.power[k] * to_seconds(curve.end_of(k) - curve.begin[k]);
  }
  return sum;
}

// Forwards of 1 ms and 1 J, backwards of 2 ms and 2 J: every operation draws 1000 W. The stages wait at 100 and 50 W.
//   stage 0  01...bbaa     0-2 busy, 2-5 waits, 5-9 busy
//   stage 1  .01bbaa..     0-1 waits, 1-7 busy, 7-9 waits
class GpipeOfTwo : public ::testing::Test {
 protected:
  const ComputationDag dag_ =
      scheduled_dag(ScheduleKind::kGpipe, uniform_profile(2, {{"forward", 1}, {"backward", 2}}), 2);
  const ClockPlan plan_ = same_clock_plan(dag_, 0);
  const std::vector<Watts> blocking_ = {Watts(100), Watts(50)};
};

TEST_F(GpipeOfTwo, IsTheSumOfWhatStagesDraw) {
  const PowerCurve curve = power_curve(dag_, plan_, blocking_);
  EXPECT_EQ(curve.period, 9 * kOneMs);
  EXPECT_THAT(curve.begin, ElementsAre(0, 1 * kOneMs, 2 * kOneMs, 5 * kOneMs, 7 * kOneMs));
  EXPECT_THAT(watts_of(curve), ElementsAre(::testing::DoubleNear(1050, 1e-6), ::testing::DoubleNear(2000, 1e-6),
                                           ::testing::DoubleNear(1100, 1e-6), ::testing::DoubleNear(2000, 1e-6),
                                           ::testing::DoubleNear(1050, 1e-6)));
  EXPECT_NEAR(integral(curve).value(), energy_of(dag_, plan_, curve.period, blocking_).total().value(), 1e-9);
}

// Stage 0's last backward takes 1 ms longer than it should, at the 1000 W that were measured; stage 1 waits until then.
TEST_F(GpipeOfTwo, HasACurveForEachStage) {
  std::vector<Nanoseconds> durations = plan_durations(dag_, plan_);
  durations[at(dag_.stage_order(0).back())] += kOneMs;
  const std::vector<PowerCurve> curves =
      stage_power_curves(dag_, plan_, blocking_, emulate(dag_, durations), durations);
  ASSERT_EQ(curves.size(), 2u);
  EXPECT_THAT(curves[0].begin, ElementsAre(0, 2 * kOneMs, 5 * kOneMs));
  EXPECT_THAT(watts_of(curves[0]), ElementsAre(::testing::DoubleNear(1000, 1e-6), ::testing::DoubleNear(100, 1e-6),
                                               ::testing::DoubleNear(1000, 1e-6)));
  EXPECT_THAT(curves[1].begin, ElementsAre(0, 1 * kOneMs, 7 * kOneMs));
  EXPECT_THAT(watts_of(curves[1]), ElementsAre(::testing::DoubleNear(50, 1e-6), ::testing::DoubleNear(1000, 1e-6),
                                               ::testing::DoubleNear(50, 1e-6)));
  for (const PowerCurve& curve : curves) EXPECT_EQ(curve.period, 10 * kOneMs);
}

TEST_F(GpipeOfTwo, GpusInStepMultiplyIt) {
  const PowerCurve curve = power_curve(dag_, plan_, blocking_, 3);
  EXPECT_NEAR(peak_of(curve).value(), 6000, 1e-6);
  EXPECT_NEAR(curve.power[0].value(), 3150, 1e-6);
}

// From 9 to 12 ms both stages wait.
TEST_F(GpipeOfTwo, WaitsForAStraggler) {
  const PowerCurve curve = power_curve(dag_, plan_, blocking_, 1, 12 * kOneMs);
  EXPECT_EQ(curve.period, 12 * kOneMs);
  EXPECT_EQ(curve.begin.back(), 9 * kOneMs);
  EXPECT_NEAR(curve.power.back().value(), 150, 1e-6);
}

// (1050 + 2000 + 3 * 1100 + 2 * 2000 + 2 * 1050) / 9 W in the mean. The greatest step is from 1050 to 2000 W; over
// windows of 1 ms the power changes by as much from the first to the second; over windows of a whole iteration it
// does not change.
TEST_F(GpipeOfTwo, HasAShape) {
  const PowerCurve curve = power_curve(dag_, plan_, blocking_);
  const PowerShape shape = shape_of(curve, Seconds(0.001));
  EXPECT_NEAR(shape.mean.value(), 12450.0 / 9.0, 1e-6);
  EXPECT_NEAR(shape.least.value(), 1050, 1e-6);
  EXPECT_NEAR(shape.peak.value(), 2000, 1e-6);
  EXPECT_NEAR(shape.greatest_step.value(), 950, 1e-6);
  EXPECT_NEAR(shape.ramp_w_per_s, 950e3, 1e-3);
  EXPECT_NEAR(ramp_of(curve, Seconds(0.009)), 0.0, 1e-3);
  EXPECT_EQ(shape.swing.peak_to_peak, Watts(0));  // its slowest harmonic is one of 111 Hz
}

// Two stages whose waiting costs more at higher clocks, transfers that take energy of their own, and loading.
TEST(PowerCurve, ItsIntegralIsTheEnergyOfThePlan) {
  const Profile profile = profile_of_rows(
      "0,forward,1410,0.010,3.0\n0,forward,1005,0.013,2.6\n0,backward,1410,0.021,6.1\n0,backward,1005,0.028,5.4\n"
      "1,forward,1410,0.011,3.2\n1,forward,1005,0.014,2.7\n1,backward,1410,0.020,6.0\n1,backward,1005,0.027,5.2\n"
      "0,waiting,1410,1,120\n0,waiting,1005,1,90\n1,waiting,1410,1,125\n1,waiting,1005,1,80\n"
      "0,p2p,0,0.002,0.5\n1,p2p,0,0.003,0.1\n0,data_load,0,0.004,0.44\n");
  PipelineSpec spec;
  spec.schedule = ScheduleKind::k1f1b;
  spec.stages = 2;
  spec.microbatches = 5;
  std::mt19937 random(7);
  for (const bool both : {false, true}) {
    spec.transfers_occupy_both = both;
    const ComputationDag dag = build_dag(spec, profile);
    const std::vector<Watts> blocking = spec.blocking_powers(2, profile);
    for (int round = 0; round < 20; ++round) {
      ClockPlan plan;
      for (int i = 0; i < dag.size(); ++i) {
        const std::size_t options = dag.type_of(i).options.size();
        plan.push_back(static_cast<ClockPlan::value_type>(random() % options));
      }
      const PowerCurve curve = power_curve(dag, plan, blocking);
      const double energy =
          energy_of(dag, plan, emulate(dag, plan_durations(dag, plan)).makespan, blocking).total().value();
      EXPECT_NEAR(integral(curve).value(), energy, 1e-9 * energy) << both;
      const Nanoseconds straggler = curve.period + 7 * kOneMs;
      EXPECT_NEAR(integral(power_curve(dag, plan, blocking, 2, straggler)).value(),
                  2.0 * energy_of(dag, plan, curve.period, blocking, straggler).total().value(), 1e-9 * energy);
    }
  }
}

// A square wave between 300 and 100 W. Its harmonic k, odd, has an amplitude of 2 / (pi k) times the 200 W between its
// levels, and is twice as much from peak to peak; even ones have none.
TEST(PowerCurve, SwingsAtTheStrongestHarmonicOfTheBand) {
  const auto square = [](double period) {
    const Nanoseconds whole = to_nanoseconds(Seconds(period));
    return PowerCurve{{0, whole / 2}, {Watts(300), Watts(100)}, whole};
  };
  const double one = 400.0 / 3.14159265358979;
  EXPECT_NEAR(swing_of(square(1.0)).peak_to_peak.value(), 2.0 * one, 1e-6);
  EXPECT_NEAR(swing_of(square(1.0)).hertz, 1.0, 1e-12);
  // Of 20 s, harmonic 1 lies at 0.05 Hz, below the band, 2 does not swing, and 3 lies at 0.15 Hz.
  EXPECT_NEAR(swing_of(square(20.0)).peak_to_peak.value(), 2.0 * one / 3.0, 1e-6);
  EXPECT_NEAR(swing_of(square(20.0)).hertz, 0.15, 1e-12);
  EXPECT_EQ(swing_of(square(0.04)).peak_to_peak, Watts(0));
}

// One stage that runs a forward at 1000 MHz and a backward at 1400 MHz; a change takes 50 ms. A forward takes 0.1 s or,
// at 1000 MHz, 0.2 s, and 40 J; a backward as long and 50 J. The forward does half of its work at the old 1400 MHz, and
// ends after 0.15 s. The backward does a quarter at 1000 MHz and the rest at 1400 MHz, in 0.125 s.
TEST(LateClocks, AnOperationDrawsTheMeanOfTheClocksThatItRanAt) {
  const auto options = [](double joules) {
    return std::vector<ClockOption>{{Megahertz(1400), Seconds(0.1), Joules(joules)},
                                    {Megahertz(1000), Seconds(0.2), Joules(joules)}};
  };
  const Profile profile{"test profile", 1, {{0, "forward", options(40), 0}, {0, "backward", options(50), 0}}};
  const ComputationDag dag = scheduled_dag(ScheduleKind::k1f1b, profile, 1);
  ASSERT_EQ(dag.type_of(0).instruction, "forward");
  const ClockPlan plan = {1, 0};
  const std::vector<Watts> blocking = {Watts(75)};
  LateClocks late(dag, blocking, 50 * kMillisecond);
  const PowerCurve curve = late.power(plan, 2);
  EXPECT_EQ(curve.period, 275 * kMillisecond);
  EXPECT_THAT(curve.begin, ElementsAre(0, 150 * kMillisecond));
  EXPECT_THAT(watts_of(curve),
              ElementsAre(::testing::DoubleNear(2 * 40 / 0.15, 1e-6), ::testing::DoubleNear(2 * 50 / 0.125, 1e-6)));
}

// Without latency it is the curve of the plan, waits at their clocks included.
TEST(LateClocks, WithoutLatencyDrawWhatThePlanDraws) {
  const ComputationDag dag =
      scheduled_dag(ScheduleKind::kGpipe, uniform_profile(2, {{"forward", 1}, {"backward", 2}}), 2);
  const ClockPlan plan = same_clock_plan(dag, 0);
  const std::vector<Watts> blocking = {Watts(100), Watts(50)};
  const PowerCurve curve = LateClocks(dag, blocking, 0).power(plan, 1);
  const PowerCurve planned = power_curve(dag, plan, blocking);
  EXPECT_EQ(curve.period, planned.period);
  EXPECT_EQ(curve.begin, planned.begin);
  EXPECT_EQ(curve.power, planned.power);
}

}  // namespace
}  // namespace flyball
