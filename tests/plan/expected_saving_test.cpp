#include "plan/expected_saving.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "plan/perseus.h"
#include "plan/stage_clock.h"
#include "support/figures.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using testing::dag_of;
using testing::modelled_profile;
using testing::operation;
using testing::OptionRow;
using testing::problem_of;
using testing::profile_of;

// One stage, one microbatch, 21 clocks at which the forward takes the same 100 J in truth; measured are 100 J at the
// highest, then 99 and 101 J in turn. The plan takes a clock of 99 J: 1 % saved of the forward's and the backward's 200
// J, half a percent of the whole, and nothing in truth. The highest clock may be a corner and is known to 1 J, half a
// percent of the whole: that is the deviation, and a little more for the other's.
TEST(ExpectedSaving, IsNotWhatFavourableNoiseShows) {
  std::vector<OptionRow> rows;
  for (int i = 0; i <= 20; ++i) {
    rows.push_back({1000.0 - 15.0 * i, 1.0 + 0.01 * i, i == 0 ? 100.0 : i % 2 == 1 ? 99.0 : 101.0});
  }
  const Profile profile = profile_of({operation(0, "forward", rows), operation(0, "backward", {{1000, 1.0, 100.0}})});
  const ComputationDag dag = dag_of(profile, 1);
  const PlanProblem problem = problem_of(dag);
  const MeasurementNoise noise(dag);
  ASSERT_TRUE(noise.known());
  EXPECT_NEAR(noise.of_energies(), 0.01, 0.001);
  EXPECT_LT(noise.of_times(), 1e-4);
  const ExpectedFigures expected = expected_figures(problem, noise, dag, {11, 0}, std::nullopt);
  EXPECT_NEAR(expected.saving_pct.mean, 0.0, 0.15);
  EXPECT_NEAR(expected.saving_pct.deviation, 0.5, 0.2);
  EXPECT_NEAR(expected.energy.mean, 200.0, 0.3);
  // 1.11 + 1 s after 2 s.
  EXPECT_NEAR(expected.time.mean, 2.11, 1e-3);
  EXPECT_NEAR(expected.slowdown_pct.mean, 5.5, 0.05);
  // While a straggler takes 3 s, both wait at 75 W: 200 + 75 and 200 + 66.75 J, 3 % less.
  const ExpectedFigures waiting = expected_figures(problem, noise, dag, {11, 0}, Seconds(3.0));
  EXPECT_NEAR(waiting.energy.mean, 266.75, 0.3);
  EXPECT_NEAR(waiting.saving_pct.mean, 3.0, 0.15);
}

TEST(ExpectedSaving, WithoutNoiseIsWhatWasMeasured) {
  const Profile profile = modelled_profile({0.020, 0.024});
  const ComputationDag dag = dag_of(profile, 4);
  const PlanProblem problem = problem_of(dag);
  const PlannerResult result = make_perseus()->plan(problem, nullptr);
  const ClockPlan plan = result.frontier.plan(0);
  const MeasurementNoise noise(dag);
  ASSERT_TRUE(noise.known());
  const double before = energy_of(dag, max_clock_plan(problem),
                                  replay(dag, problem.blocking, max_clock_plan(problem)).time, problem.blocking)
                            .total()
                            .value();
  const ExpectedFigures expected = expected_figures(problem, noise, dag, plan, std::nullopt);
  EXPECT_NEAR(expected.saving_pct.mean, 100.0 * (1.0 - result.frontier.energy(0).value() / before), 0.02);
  EXPECT_LT(expected.saving_pct.deviation, 0.02);
}

TEST(ExpectedSaving, FewClocksTellNothing) {
  const std::vector<OptionRow> few = {{500, 1, 9}, {400, 2, 8}, {300, 3, 7}, {200, 4, 6}, {100, 5, 5}};
  const Profile profile = profile_of({operation(0, "forward", few), operation(0, "backward", {{1000, 1.0, 100.0}})});
  EXPECT_FALSE(MeasurementNoise(dag_of(profile, 1)).known());
  const Profile constant =
      profile_of({operation(0, "forward", {{500, 1, 9}}), operation(0, "backward", {{1000, 1.0, 100.0}})});
  EXPECT_FALSE(MeasurementNoise(dag_of(constant, 1)).known());
}

// A pipeline whose truth is known, measured with noise of 1 % in energies and 0.3 % in times of a form that the
// estimate does not assume. How far plans of such measurements overstate their saving, and what is left of that.
struct Study {
  double overstated = 0.0;  // percentage points, mean over the studies
  double left = 0.0;
  int within = 0;  // of the studies, where the truth lies within two deviations
};
constexpr int kStudies = 40;

class ExpectedSavingStudy : public ::testing::Test {
 protected:
  void SetUp() override { FLYBALL_STATISTIC(); }
};

// `error` gives numbers of variance 1 for the k-th of n clocks.
Study study(const std::function<double(NoiseSource&, std::size_t, std::size_t)>& error) {
  const Profile truth = modelled_profile({0.020, 0.024, 0.022});
  const ComputationDag true_dag = dag_of(truth, 6);
  Study study;
  NoiseSource random(1);
  for (int round = 0; round < kStudies; ++round) {
    Profile measured = truth;
    for (OperationProfile& one : measured.operations) {
      for (std::size_t k = 0; k < one.options.size(); ++k) {
        one.options[k].energy = one.options[k].energy * (1.0 + 0.01 * error(random, k, one.options.size()));
      }
      for (std::size_t k = 0; k < one.options.size(); ++k) {
        one.options[k].time = one.options[k].time * (1.0 + 0.003 * error(random, k, one.options.size()));
      }
    }
    const ComputationDag dag = dag_of(measured, 6);
    const PlanProblem problem = problem_of(dag);
    const PlannerResult result = make_perseus()->plan(problem, nullptr);
    const ClockPlan plan = result.frontier.plan(0);
    const ClockPlan fastest = max_clock_plan(problem);
    const auto saving = [&](const ComputationDag& on) {
      const auto energy = [&](const ClockPlan& one) {
        return energy_of(on, one, replay(on, problem.blocking, one).time, problem.blocking).total();
      };
      return 100.0 * (1.0 - energy(plan) / energy(fastest));
    };
    const ExpectedFigures expected = expected_figures(problem, MeasurementNoise(dag), dag, plan, std::nullopt);
    const double true_saving = saving(true_dag);
    study.overstated += (saving(dag) - true_saving) / kStudies;
    study.left += (expected.saving_pct.mean - true_saving) / kStudies;
    study.within += std::abs(expected.saving_pct.mean - true_saving) <= 2.0 * expected.saving_pct.deviation ? 1 : 0;
  }
  ::testing::Test::RecordProperty("overstated_in_thousandths", static_cast<int>(std::lround(1e3 * study.overstated)));
  ::testing::Test::RecordProperty("left_in_thousandths", static_cast<int>(std::lround(1e3 * study.left)));
  ::testing::Test::RecordProperty("within", study.within);
  return study;
}

// The mean of 40 is known to 0.04 points; two deviations hold 95 % of normal errors, 38 of 40.
void expect_right(const Study& study) {
  EXPECT_GT(study.overstated, 0.2);
  EXPECT_LT(std::abs(study.left), study.overstated / 3);
  EXPECT_GE(study.within, 34);
}

TEST_F(ExpectedSavingStudy, HoldsForHeavyTails) {  // Laplace
  expect_right(study([](NoiseSource& random, std::size_t, std::size_t) {
    const double sign = random.uniform() < 0.5 ? -1.0 : 1.0;
    return -sign * std::log(1.0 - random.uniform()) / std::sqrt(2.0);
  }));
}

TEST_F(ExpectedSavingStudy, HoldsForBoundedErrors) {  // uniform
  expect_right(
      study([](NoiseSource& random, std::size_t, std::size_t) { return std::sqrt(12.0) * (random.uniform() - 0.5); }));
}

TEST_F(ExpectedSavingStudy, HoldsForNoiseThatGrowsTowardsLowClocks) {
  expect_right(study([](NoiseSource& random, std::size_t k, std::size_t n) {
    return std::sqrt(3.0) * static_cast<double>(k + 1) / static_cast<double>(n) * random.normal();
  }));
}

// Errors that neighbouring clocks share look like a curve. Part of them is seen; the documents say so.
TEST_F(ExpectedSavingStudy, SeesOnlyPartOfADrift) {
  double before = 0.0;
  const Study drift = study([&](NoiseSource& random, std::size_t, std::size_t) {
    return before = 0.7 * before + std::sqrt(1.0 - 0.49) * random.normal();
  });
  EXPECT_GT(drift.overstated, 0.1);
  EXPECT_LT(drift.left, 0.8 * drift.overstated);
}

}  // namespace
}  // namespace flyball
