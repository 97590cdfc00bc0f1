#include "plan/power_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/index.h"
#include "plan/ramp_bound.h"
#include "support/pipelines.h"
#include "support/small_pipelines.h"

namespace flyball {
namespace {

using testing::dag_of;
using ::testing::ElementsAre;
using testing::operation;
using testing::problem_of;
using testing::profile_of;

std::vector<double> clocks_left(const PlanProblem& problem, std::size_t type) {
  std::vector<double> clocks;
  for (const std::uint16_t option : problem.choices[type].pareto) {
    clocks.push_back(problem.dag->types()[type].options[option].frequency.value());
  }
  return clocks;
}

// Forwards draw 300, 250 and 200 W, backwards 280, 240 and 220 W: half of the stage's range is up to 250 W, and none of
// it is only what draws 200 W, or the least of its type.
TEST(CappedProblem, LeavesOutWhatDrawsMost) {
  const Profile profile =
      profile_of({operation(0, "forward", {{1410, 1.0, 300}, {1200, 1.1, 275}, {1005, 1.25, 250}}),
                  operation(0, "backward", {{1410, 2.0, 560}, {1200, 2.2, 528}, {1005, 2.35, 517}})});
  const ComputationDag dag = dag_of(profile, 2);
  const PlanProblem problem = problem_of(dag);
  const std::size_t forward = dag.types()[0].instruction == "forward" ? 0 : 1;
  EXPECT_THAT(clocks_left(capped_problem(problem, 1.0), forward), ElementsAre(1410, 1200, 1005));
  EXPECT_THAT(clocks_left(capped_problem(problem, 0.5), forward), ElementsAre(1200, 1005));
  EXPECT_THAT(clocks_left(capped_problem(problem, 0.5), 1 - forward), ElementsAre(1200, 1005));
  EXPECT_THAT(clocks_left(capped_problem(problem, 0.0), forward), ElementsAre(1005));
  EXPECT_THAT(clocks_left(capped_problem(problem, 0.0), 1 - forward), ElementsAre(1005));
}

// What the stages draw together in the middle between any two moments at which something begins or ends, looked up
// operation by operation.
Watts slow_peak(const ComputationDag& dag, const ClockPlan& plan, std::span<const Watts> blocking) {
  const Timeline timeline = emulate(dag, plan_durations(dag, plan));
  std::set<Nanoseconds> moments(timeline.start.begin(), timeline.start.end());
  moments.insert(timeline.finish.begin(), timeline.finish.end());
  Watts peak;
  for (auto moment = moments.begin(); std::next(moment) != moments.end(); ++moment) {
    const Nanoseconds middle = (*moment + *std::next(moment)) / 2;
    std::vector<Watts> draws(blocking.begin(), blocking.end());
    for (int i = 0; i < dag.size(); ++i) {
      if (middle < timeline.start[at(i)] || middle >= timeline.finish[at(i)]) continue;
      const ClockOption& option = dag.type_of(i).options[plan[at(i)]];
      draws[at(dag.type_of(i).stage)] = option.energy / option.time;
    }
    Watts sum;
    for (const Watts draw : draws) sum += draw;
    peak = std::max(peak, sum);
  }
  return peak;
}

// The fastest of all plans, one by one, that stays at or below a peak.
Nanoseconds fastest_of_all(const PlanProblem& problem, Watts most) {
  const ComputationDag& dag = *problem.dag;
  ClockPlan plan = same_clock_plan(dag, 0);
  Nanoseconds best = std::numeric_limits<Nanoseconds>::max();
  while (true) {
    if (slow_peak(dag, plan, problem.blocking) <= most) {
      best = std::min(best, emulate(dag, plan_durations(dag, plan)).makespan);
    }
    int i = 0;
    while (i < dag.size() && ++plan[at(i)] == dag.type_of(i).options.size()) plan[at(i++)] = 0;
    if (i == dag.size()) return best;
  }
}

// Two stages, two microbatches, three clocks: 6,561 plans each.
TEST(FastestWithin, IsInsideAndNoFasterThanTheFastestOfAllPlansWhichIsNoFasterThanTheBound) {
  std::mt19937 random(11);
  int found = 0;
  double excess = 0.0;
  for (int round = 0; round < 8; ++round) {
    const ComputationDag dag = dag_of(random_profile(random, 2, {"forward", "backward"}, 3), 2);
    const PlanProblem problem = problem_of(dag);
    const auto planner = make_planner("perseus");
    std::vector<PlannerResult> results;
    results.push_back(planner->plan(problem, {}));
    for (const double share : kCapShares) results.push_back(planner->plan(capped_problem(problem, share), {}));
    const RelaxationResult relaxed =
        solve_relaxation(dag, problem.hulls(), [](const FrontierStretch&) { return true; });
    const Watts highest = slow_peak(dag, max_clock_plan(problem), problem.blocking);
    const Watts least = least_power(problem, results, Seconds(1), 1).peak;
    for (const double part : {0.25, 0.5, 0.75}) {
      JobPowerLimits limits;
      limits.peak = least + part * (highest - least);
      const auto within = fastest_within(problem, results, limits, 1);
      ASSERT_TRUE(within);
      const Frontier& frontier = results[within->result].frontier;
      const Watts peak = slow_peak(dag, frontier.plan(within->point), problem.blocking);
      EXPECT_LE(peak.value(), limits.peak->value() * (1.0 + 1e-9));
      const Nanoseconds best = fastest_of_all(problem, *limits.peak * (1.0 + 1e-9));
      const Nanoseconds time = frontier.points()[within->point].time;
      EXPECT_GE(time, best);
      const auto bound = least_time_below(relaxed.bound, problem.total_blocking(), *limits.peak);
      if (bound) EXPECT_LE(bound->value(), to_seconds(best).value() * (1.0 + 1e-9));
      excess += static_cast<double>(time) / static_cast<double>(best) - 1.0;
      ++found;
    }
  }
  // Two microbatches leave few plans to choose from; large pipelines are judged by the bound.
  EXPECT_LT(excess / found, 0.15);
}

TEST(FastestWithin, LooksAtRampsToo) {
  const ComputationDag dag = dag_of(testing::modelled_profile({0.1, 0.11}), 4);
  const PlanProblem problem = problem_of(dag);
  const auto planner = make_planner("perseus");
  std::vector<PlannerResult> results;
  results.push_back(planner->plan(problem, {}));
  for (const double share : kCapShares) results.push_back(planner->plan(capped_problem(problem, share), {}));
  JobPowerLimits limits;
  limits.ramp_window = Seconds(0.2);
  const auto curve_of = [&](const PointWithin& place) {
    return power_curve(dag, results[place.result].frontier.plan(place.point), problem.blocking);
  };
  const double free_ramp = ramp_of(curve_of({0, 0}), limits.ramp_window);
  limits.ramp_w_per_s = 0.8 * free_ramp;
  const auto within = fastest_within(problem, results, limits, 1);
  ASSERT_TRUE(within);
  EXPECT_LE(ramp_of(curve_of(*within), limits.ramp_window), *limits.ramp_w_per_s);
  // Twice as many GPUs change twice as fast.
  limits.ramp_w_per_s = 1.6 * free_ramp;
  EXPECT_TRUE(fastest_within(problem, results, limits, 2));
  limits.ramp_w_per_s = 1.0;
  EXPECT_FALSE(fastest_within(problem, results, limits, 1));
}

// One computation of 1 s at 300 J or 2 s at 300 J, hull between them, at 100 W of blocking: net energies 200 and 100 J,
// 300 - 100 T. 250 W allow bound(T) <= 150 T from T = 1.2 s on: 180 = 180.
TEST(LeastTimeBelow, IsWhereTheBoundMeetsThePower) {
  const BoundCurve bound({{1'000'000'000, 300.0, 100e-9}}, 2'000'000'000);
  EXPECT_NEAR(least_time_below(bound, Watts(100), Watts(250))->value(), 1.2, 1e-8);
  EXPECT_NEAR(least_time_below(bound, Watts(100), Watts(1000))->value(), 1.0, 1e-9);
  // Beyond T* the energy stays: 100 J in 40 W beside the wait take 2.5 s.
  EXPECT_NEAR(least_time_below(bound, Watts(100), Watts(140))->value(), 2.5, 1e-9);
  EXPECT_FALSE(least_time_below(bound, Watts(100), Watts(100)));
}

// A forward and a backward of 2 s at 300 W or 4 s at 150 W, then a step of 2 s in which the GPU draws the 100 W of
// waiting: 6, 8 or 10 s. The window of a second before the iteration begins draws 100 W. With 40 W/s, the k windows
// after it draw 100 k + 20 k (k + 1) J at most, and so do those before it.
//   k = 2, both sides, 320 J each: of the 4 s of work, T - 5 s fit between them, and 9 - T s have to be done in the 3 s
//   of them without the step. Work W in time L takes 300 W - 100 L J above waiting: 400 + 300 (9 - T) - 300 <= 640, so
//   that T is 7.2 s or more.
//   k = 3, which 7.2 s have room for, 540 J each: 11 - T s in 5 s, 600 + 300 (11 - T) - 500 <= 1080, so that T is
//   7 11/15 s or more. Four windows on each side would need 9 s.
TEST(LeastTimeWithinRamp, ByHand) {
  const Profile profile = profile_of({operation(0, "forward", {{1400, 2.0, 600}, {700, 4.0, 600}}),
                                      operation(0, "backward", {{1400, 2.0, 600}, {700, 4.0, 600}}),
                                      operation(0, "optimizer_step", {{1400, 2.0, 200}})});
  const ComputationDag dag = dag_of(profile, 1);
  const std::vector<Watts> blocking = {Watts(100)};
  EXPECT_NEAR(least_time_within_ramp(dag, blocking, 40, Seconds(1)).value(), 7.0 + 11.0 / 15.0, 1e-5);
  EXPECT_NEAR(least_time_within_ramp(dag, blocking, 200, Seconds(1)).value(), 6.0, 1e-9) << "300 W are in reach";
  EXPECT_NEAR(least_time_within_ramp(dag, blocking, 40, Seconds(3)).value(), 6.0, 1e-9) << "no room for windows";
}

// All plans, 6,561 of two stages with three clocks and 4,096 of three with two: none is inside and faster than is said.
TEST(LeastTimeWithinRamp, NoPlanOfAllIsFaster) {
  std::mt19937 random(5);
  int beyond_fastest = 0;
  for (int round = 0; round < 6; ++round) {
    const int stages = round < 3 ? 2 : 3;
    const Profile profile = random_profile(random, stages, {"forward", "backward"}, stages == 2 ? 3 : 2);
    const ComputationDag dag = dag_of(profile, 2);
    const PlanProblem problem = problem_of(dag);
    const Nanoseconds fastest = emulate(dag, plan_durations(dag, max_clock_plan(problem))).makespan;
    for (const double share : {0.02, 0.05, 0.1, 0.2}) {
      const Seconds window = share * to_seconds(fastest);
      std::vector<std::pair<double, double>> plans;  // ramp and time
      ClockPlan plan = same_clock_plan(dag, 0);
      for (int i = 0; i < dag.size();) {
        const PowerCurve curve = power_curve(dag, plan, problem.blocking);
        plans.emplace_back(ramp_of(curve, window), to_seconds(curve.period).value());
        i = 0;
        while (i < dag.size() && ++plan[at(i)] == dag.type_of(i).options.size()) plan[at(i++)] = 0;
      }
      std::sort(plans.begin(), plans.end());
      // At each limit that is just kept by one more plan.
      double best = std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < plans.size(); ++k) {
        if (plans[k].second >= best) continue;
        best = plans[k].second;
        const double bound = least_time_within_ramp(dag, problem.blocking, plans[k].first, window).value();
        EXPECT_LE(bound, best * (1.0 + 1e-9)) << "round " << round << ", share " << share;
        beyond_fastest += bound > 1.001 * to_seconds(fastest).value() ? 1 : 0;
      }
    }
  }
  EXPECT_GT(beyond_fastest, 0);
}

}  // namespace
}  // namespace flyball
