#include "report/in_flight_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "plan/stage_orders.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

RealisedPlan at_maximum(const PlanProblem& problem, const ComputationDag& dag) {
  return realise_plan("all-maximum clocks", dag, max_clock_plan(problem), problem.blocking);
}

// In seconds.
std::vector<std::pair<double, int>> held(const ComputationDag& dag, int stage) {
  const PlanProblem problem = testing::problem_of(dag);
  const RealisedPlan plan = at_maximum(problem, dag);
  std::vector<std::pair<double, int>> result;
  for (const auto& [time, microbatches] : held_over_time(dag, emulate(dag, plan.durations), stage)) {
    result.emplace_back(to_seconds(time).value(), microbatches);
  }
  return result;
}

// Forwards of 1 s, backwards of 2 s. Stage 1 runs F0 from 1 to 2 s, B0 until 4, F1 until 5, B1 until 7; stage 0 runs F0
// and F1 from 0 to 2 s, B0 from 4 to 6 and B1 from 7 to 9.
TEST(InFlightPicture, HoldsFromForwardToBackward) {
  const ComputationDag dag = testing::dag_of(testing::modelled_profile({1.0, 1.0}), 2);
  EXPECT_THAT(held(dag, 0), ElementsAre(Pair(0, 1), Pair(1, 2), Pair(6, 1), Pair(9, 0)));
  EXPECT_THAT(held(dag, 1), ElementsAre(Pair(1, 1), Pair(4, 1), Pair(7, 0)));
}

// ZB-H1 with parts of 1 s. Stage 1 runs F0 I0 F1 I1 W0 W1 from 1 to 7 s without a pause; stage 0 runs F0 and F1 from 0
// to 2 s, and I0 W0 I1 W1 from 3 to 7 s, for which it gets the second gradient at 5 s.
TEST(InFlightPicture, HoldsUntilTheWeightGradientEnds) {
  const ComputationDag dag = testing::split_dag_of(testing::modelled_profile({1.0, 1.0}), 2);
  EXPECT_THAT(held(dag, 0), ElementsAre(Pair(0, 1), Pair(1, 2), Pair(5, 1), Pair(7, 0)));
  EXPECT_THAT(held(dag, 1), ElementsAre(Pair(1, 1), Pair(3, 2), Pair(6, 1), Pair(7, 0)));
}

TEST(InFlightPicture, IsDrawnWhereOrdersAreToBeCompared) {
  const Profile profile = testing::modelled_profile({1.0, 1.0});
  const ComputationDag dag = testing::dag_of(profile, 3);
  const PlanProblem problem = testing::problem_of(dag);
  ReportInput input;
  input.problem = &problem;
  input.baseline = input.chosen = at_maximum(problem, dag);
  EXPECT_FALSE(has_in_flight_picture(input));
  const ComputationDag deeper = reorder(dag, Orders{in_turn(3, 3), in_turn(3, 1)});
  input.chosen = at_maximum(problem, deeper);
  EXPECT_TRUE(has_in_flight_picture(input));
  EXPECT_THAT(in_flight_picture(input).standalone(), HasSubstr(">backward<"));
  const ComputationDag split = testing::split_dag_of(profile, 3);
  const PlanProblem of_split = testing::problem_of(split);
  input.problem = &of_split;
  input.baseline = input.chosen = at_maximum(of_split, split);
  EXPECT_TRUE(has_in_flight_picture(input));
  EXPECT_THAT(in_flight_picture(input).standalone(), HasSubstr(">gradient of the weights<"));
}

}  // namespace
}  // namespace flyball
