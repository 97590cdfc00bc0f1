// How far apart a frontier's points lie: where nothing is said, and where a unit time is given.
#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/planner.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using testing::dag_of;
using testing::modelled_profile;

PlanProblem usual_problem(const ComputationDag& dag) {
  return make_problem(dag, {kDefaultBlockingPower}, std::nullopt, CostModel::kHull);
}

Frontier frontier_of(const PlanProblem& problem) { return make_planner("perseus")->plan(problem, {}).frontier; }

TEST(PointSpacing, IsAMillisecondOrHalfOfTheShortestComputation) {
  const ComputationDag usual = dag_of(modelled_profile({0.040, 0.044}), 2);
  EXPECT_EQ(usual_unit_time(usual), 1'000'000);
  EXPECT_EQ(usual_problem(usual).unit_time, 1'000'000);
  EXPECT_EQ(usual_unit_time(usual, 5'000'000), 5'000'000);
  const ComputationDag quick = dag_of(modelled_profile({0.040, 0.0006}), 2);
  EXPECT_EQ(usual_problem(quick).unit_time, 300'000);
  EXPECT_EQ(usual_unit_time(quick, 200'000), 200'000);
  EXPECT_THROW(static_cast<void>(make_problem(quick, {kDefaultBlockingPower}, 1'000'000, CostModel::kHull)),
               UsageError);
}

// At maximum clocks a forward of t seconds takes 300 t J, and a backward 600 t J: two microbatches of 0.1 s are 180 J,
// of which a 20,000th is 9 mJ.
TEST(PointSpacing, GrowsUntilEnergiesDifferByATwentyThousandth) {
  const ComputationDag dag = dag_of(modelled_profile({0.06, 0.04}), 2);
  EXPECT_NEAR(usual_problem(dag).energy_step.value(), 0.009, 1e-12);
  EXPECT_EQ(make_problem(dag, {kDefaultBlockingPower}, 1'000'000, CostModel::kHull).energy_step, Joules(0));
}

// A point that waits for a deadline takes its net energy and the blocking power until then. From one point to the next
// net energy falls by one step at most where the bound is followed; rounding puts points up to a few thousandths above
// the bound, so that single lookups differ by more, and the mean by less than two steps.
TEST(PointSpacing, CostsNextToNothingWhereAPlanIsLookedUp) {
  const ComputationDag dag = dag_of(modelled_profile({1.0, 1.1, 1.02, 1.07}), 16);
  const PlanProblem usual = usual_problem(dag);
  const PlanProblem exact = make_problem(dag, {kDefaultBlockingPower}, 1'000'000, CostModel::kHull);
  const Frontier few = frontier_of(usual);
  const Frontier many = frontier_of(exact);
  EXPECT_LT(2 * few.size(), many.size());
  const Nanoseconds t_min = many.points().front().time;
  const Nanoseconds t_star = many.points().back().time;
  constexpr int kLookups = 1000;
  double more = 0.0;
  for (int k = 0; k < kLookups; ++k) {
    const Nanoseconds deadline = t_min + (t_star - t_min) / kLookups * k;
    more += few.points()[few.lookup(deadline)].net_joules - many.points()[many.lookup(deadline)].net_joules;
  }
  EXPECT_LT(more / kLookups, 2.0 * usual.energy_step.value());
  EXPECT_EQ(few.points().front().time, t_min);
  EXPECT_EQ(few.points().back().time, t_star);
}

// Points that are a step of energy apart are as many as steps fit between the ends, and 500 where energy hardly
// changes.
TEST(PointSpacing, HasAsManyPointsHoweverLongAnIterationTakes) {
  for (const double seconds : {0.4, 40.0}) {
    const ComputationDag dag = dag_of(modelled_profile({seconds, 1.1 * seconds}), 8);
    const PlanProblem problem = usual_problem(dag);
    const Frontier frontier = frontier_of(problem);
    const double joules = frontier.points().front().net_joules - frontier.points().back().net_joules;
    EXPECT_LT(static_cast<double>(frontier.size()), joules / problem.energy_step.value() + 502.0);
    EXPECT_GT(frontier.size(), 500u);
  }
}

}  // namespace
}  // namespace flyball
