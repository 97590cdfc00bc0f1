#include "plan/perseus.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>

#include "base/error.h"
#include "plan/clock_rounding.h"
#include "plan/relaxation.h"
#include "support/exhaustive.h"
#include "support/figures.h"
#include "support/pipelines.h"
#include "support/shared_data.h"

namespace flyball {
namespace {

using testing::dag_of;
using testing::discrete_optimum;
using testing::modelled_profile;
using testing::operation;
using testing::problem_of;
using testing::profile_of;

PlannerResult plan(const PlanProblem& problem) { return make_perseus()->plan(problem, {}); }

// What the header promises of every frontier, whatever the pipeline.
void expect_sound(const PlanProblem& problem, const Frontier& frontier) {
  const ComputationDag& dag = *problem.dag;
  ASSERT_FALSE(frontier.empty());
  std::vector<Nanoseconds> finish(static_cast<std::size_t>(dag.size()));
  for (std::size_t p = 0; p < frontier.size(); ++p) {
    const FrontierPoint& point = frontier.points()[p];
    const ClockPlan clocks = frontier.plan(p);
    EXPECT_EQ(point.time, makespan(dag, plan_durations(dag, clocks), finish));
    const EnergyBreakdown energy = energy_of(dag, clocks, point.time, problem.blocking);
    EXPECT_NEAR(frontier.energy(p).value(), energy.total().value(), 1e-7 * energy.total().value());
    EXPECT_GE(point.net_joules, point.net_lower_bound);
    if (p == 0) continue;
    EXPECT_GT(point.time, frontier.points()[p - 1].time);
    EXPECT_LT(point.net_joules, frontier.points()[p - 1].net_joules);
    EXPECT_LE(point.net_lower_bound, frontier.points()[p - 1].net_lower_bound);
  }
}

Profile noisy_profile(int stages, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(1.0, 0.001);
  std::vector<double> forward;
  for (int s = 0; s < stages; ++s) forward.push_back(0.040 + 0.002 * (s % 3));
  Profile profile = modelled_profile(forward);
  for (OperationProfile& op : profile.operations) {
    for (ClockOption& option : op.options) {
      option.time = option.time * noise(random);
      option.energy = option.energy * noise(random);
    }
  }
  return profile;
}

TEST(Perseus, EveryScheduleIsSound) {
  const Profile profile = noisy_profile(4, 5);
  for (const ScheduleKind schedule : {ScheduleKind::k1f1b, ScheduleKind::kGpipe}) {
    const ComputationDag dag = dag_of(profile, 12, schedule);
    const PlanProblem problem = problem_of(dag);
    expect_sound(problem, plan(problem).frontier);
  }
  PipelineSpec interleaved;
  interleaved.schedule = ScheduleKind::kInterleaved1f1b;
  interleaved.microbatches = 8;
  interleaved.chunks = 2;
  interleaved.p2p = ConstantOperation{Seconds(0.002), Joules(0.0)};
  interleaved.gradient_sync = ConstantOperation{Seconds(0.050), Joules(9.0)};
  const ComputationDag dag = build_dag(interleaved, profile);
  const PlanProblem problem = problem_of(dag);
  expect_sound(problem, plan(problem).frontier);
}

// Waiting takes 75 W at the lowest clock and 30 W more at the highest. What the frontier says is what its plans take,
// also where planning was stopped, and bounds charge 75 W.
TEST(Perseus, ChargesWaitingAtTheClockThatIsKept) {
  ComputationDag dag = dag_of(modelled_profile({0.040, 0.044, 0.041}), 8);
  const Frontier constant = plan(problem_of(dag)).frontier;
  for (std::size_t t = 0; t < dag.types().size(); ++t) {
    const std::vector<ClockOption>& options = dag.types()[t].options;
    std::vector<Watts> above;
    for (const ClockOption& option : options) {
      above.push_back(
          30.0 *
          ((option.frequency - options.back().frequency) / (options.front().frequency - options.back().frequency)) *
          Watts(1));
    }
    dag.set_waiting_above(t, above);
  }
  const PlanProblem problem = problem_of(dag);
  const Frontier whole = plan(problem).frontier;
  expect_sound(problem, whole);
  EXPECT_EQ(whole.lower_bound(0), constant.lower_bound(0));
  EXPECT_GT(whole.energy(0), constant.energy(0));
  int left = 3;
  Frontier stopped = make_perseus()->plan(problem, [&](double) { return left-- > 0; }).frontier;
  close_cancelled_frontier(problem, stopped);
  expect_sound(problem, stopped);
}

// One stage, one forward of 1 s and 400 J, 1.2 s and 300 J, or 1.5 s and 250 J, one backward of 1 s and 100 J: the
// frontier is 2.5 s at 350 J, 2.2 s at 400 J, 2.0 s at 500 J. Its prices are 50 J / 0.3 s and 100 J / 0.2 s, and
// progress is told at the end of each stretch: stopped at the first, it has come to 2.2 s, and what it has found is the
// whole frontier's.
TEST(Perseus, HasTheSlowEndOfTheFrontierWhereItIsStopped) {
  const Profile profile =
      profile_of({operation(0, "forward", {{300, 1.0, 400.0}, {200, 1.2, 300.0}, {100, 1.5, 250.0}}),
                  operation(0, "backward", {{300, 1.0, 100.0}})});
  const ComputationDag dag = dag_of(profile, 1);
  const PlanProblem problem = make_problem(dag, {Watts(0)}, 100 * kMillisecond, CostModel::kHull);
  const Frontier whole = plan(problem).frontier;
  ASSERT_EQ(whole.size(), 3u);
  Frontier stopped = make_perseus()->plan(problem, [](double) { return false; }).frontier;
  ASSERT_EQ(stopped.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(stopped.points()[i].time, std::vector({2200 * kMillisecond, 2500 * kMillisecond})[i]);
    EXPECT_DOUBLE_EQ(stopped.points()[i].net_joules, std::vector({400.0, 350.0})[i]);
    EXPECT_EQ(stopped.plan(i), whole.plan(i + 1));
    EXPECT_DOUBLE_EQ(stopped.points()[i].net_lower_bound, whole.points()[i + 1].net_lower_bound);
  }
  close_cancelled_frontier(problem, stopped);
  ASSERT_EQ(stopped.size(), 3u);
  EXPECT_EQ(stopped.points()[0].time, 2000 * kMillisecond);
  EXPECT_DOUBLE_EQ(stopped.points()[0].net_joules, 500.0);
  expect_sound(problem, stopped);
}

// Wherever it is stopped, also before its first point: as fast as any plan at one end, sound in all, and no cheaper
// than the whole frontier's bound.
TEST(Perseus, IsSoundWhereverItIsStopped) {
  const ComputationDag dag = dag_of(modelled_profile({0.040, 0.044, 0.041}), 8);
  PlanProblem problem = problem_of(dag);
  std::vector<Nanoseconds> finish(static_cast<std::size_t>(dag.size()));
  const Nanoseconds t_min = makespan(dag, plan_durations(dag, fastest_plan(problem)), finish);
  problem.focus = {t_min};
  const Frontier whole = plan(problem).frontier;
  for (int reports = 0; reports < 40; reports += testing::tries(1, 7)) {
    int left = reports;
    Frontier stopped = make_perseus()->plan(problem, [&](double) { return left-- > 0; }).frontier;
    close_cancelled_frontier(problem, stopped);
    expect_sound(problem, stopped);
    EXPECT_EQ(stopped.points().front().time, t_min);
    EXPECT_EQ(stopped.points().back().time, whole.points().back().time);
    for (const FrontierPoint& point : stopped.points()) {
      EXPECT_GE(point.net_joules, whole.points()[whole.lookup(point.time)].net_lower_bound * (1.0 - 1e-9));
    }
  }
  Frontier nothing(problem.total_blocking());
  close_cancelled_frontier(problem, nothing);
  EXPECT_EQ(nothing.points().front().time, t_min);
}

// From T_min, where the rounding may lose most, to T*, where it loses nothing.
TEST(Perseus, SpansTminToTstarWithinTwoTenthsOfAPercent) {
  const Profile profile = modelled_profile({0.040, 0.044, 0.041, 0.043});
  const ComputationDag dag = dag_of(profile, 32);
  const PlanProblem problem = problem_of(dag);
  const PlannerResult result = plan(problem);
  const Frontier& frontier = result.frontier;
  expect_sound(problem, frontier);
  std::vector<Nanoseconds> finish(static_cast<std::size_t>(dag.size()));
  EXPECT_EQ(frontier.points().front().time, makespan(dag, plan_durations(dag, max_clock_plan(problem)), finish));
  const FrontierPoint& slowest = frontier.points().back();
  EXPECT_NEAR(slowest.net_joules, slowest.net_lower_bound, 1e-9 * std::abs(slowest.net_joules));
  EXPECT_LT(frontier.energy(0) / frontier.lower_bound(0), 1.0015);
  for (std::size_t p = 0; p < frontier.size(); ++p) {
    EXPECT_LT(frontier.energy(p) / frontier.lower_bound(p), 1.004) << frontier.time(p).value() << " s";
    // A unit of time apart, unless the point between was dominated.
    if (p > 0) {
      EXPECT_LT((frontier.points()[p].time - frontier.points()[p - 1].time), 10 * problem.unit_time);
    }
  }
  EXPECT_EQ(result.stats.nodes, dag.size());
  EXPECT_GT(result.stats.steps, 0);
}

// Two stages, two microbatches, four options: 4^8 = 65,536 plans.
TEST(Perseus, AgainstEveryDiscretePlan) {
  const Profile profile = profile_of({
      operation(0, "forward", {{1400, 0.0100, 3.00}, {1200, 0.0112, 2.80}, {1000, 0.0131, 2.66}, {800, 0.0159, 2.70}}),
      operation(0, "backward", {{1400, 0.0200, 6.10}, {1200, 0.0226, 5.71}, {1000, 0.0261, 5.40}, {800, 0.0322, 5.52}}),
      operation(1, "forward", {{1400, 0.0113, 3.40}, {1200, 0.0128, 3.15}, {1000, 0.0149, 2.98}, {800, 0.0182, 3.05}}),
      operation(1, "backward", {{1400, 0.0228, 6.90}, {1200, 0.0257, 6.44}, {1000, 0.0300, 6.10}, {800, 0.0365, 6.20}}),
  });
  const ComputationDag dag = dag_of(profile, 2);
  const PlanProblem problem = problem_of(dag);
  const Frontier frontier = plan(problem).frontier;
  expect_sound(problem, frontier);
  const BoundCurve bound = solve_relaxation(dag, problem.hulls(), [](const FrontierStretch&) { return true; }).bound;
  // Eight operations with steps of 10 % of an operation: far coarser than a real pipeline, so far larger gaps.
  double ours = 0.0;
  double best = 0.0;
  for (int k = 0; k <= 10; ++k) {
    const Nanoseconds deadline = bound.t_min() + (bound.t_star() - bound.t_min()) * k / 10;
    const double optimum = discrete_optimum(problem, deadline);
    const double blocking = (problem.total_blocking() * to_seconds(deadline)).value();
    const double realised = frontier.points()[frontier.lookup(deadline)].net_joules;
    EXPECT_LE(bound.at(deadline), optimum) << "a bound above a real plan is none";
    EXPECT_GE(realised, optimum - 1e-9);
    EXPECT_LT((realised + blocking) / (optimum + blocking), 1.02);
    ours += realised + blocking;
    best += optimum + blocking;
  }
  EXPECT_LT(ours / best, 1.005);
  EXPECT_NEAR(frontier.points().front().net_joules, discrete_optimum(problem, bound.t_min()), 1e-9);
  EXPECT_NEAR(frontier.points().back().net_joules, discrete_optimum(problem, bound.t_star()), 1e-9);
}

TEST(Perseus, ExponentialModelSteersButTheHullBounds) {
  const Profile profile = noisy_profile(3, 9);
  const ComputationDag dag = dag_of(profile, 8);
  PlanProblem problem = problem_of(dag);
  const Frontier hull = plan(problem).frontier;
  problem.cost_model = CostModel::kExponential;
  const Frontier exponential = plan(problem).frontier;
  expect_sound(problem, exponential);
  const double at_t_min = exponential.points().front().net_lower_bound;
  EXPECT_NEAR(at_t_min, hull.points().front().net_lower_bound, 1e-6 * std::abs(at_t_min));
  EXPECT_LT(exponential.energy(0) / exponential.lower_bound(0), 1.03);
}

void expect_same(const Frontier& a, const Frontier& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t p = 0; p < a.size(); ++p) {
    EXPECT_EQ(a.points()[p].time, b.points()[p].time);
    EXPECT_EQ(a.plan(p), b.plan(p));
  }
}

TEST(Perseus, SameInputSamePlans) {
  const Profile profile = noisy_profile(4, 2);
  const ComputationDag dag = dag_of(profile, 10);
  const PlanProblem problem = problem_of(dag);
  expect_same(plan(problem).frontier, plan(problem).frontier);
}

TEST(Perseus, SamePlansWithAnyNumberOfThreads) {
  const Profile profile = noisy_profile(4, 2);
  const ComputationDag dag = dag_of(profile, 48);
  PlanProblem problem = problem_of(dag);
  problem.threads = 1;
  const Frontier alone = plan(problem).frontier;
  // Enough work that threads are started, and more groups of points than threads.
  ASSERT_GT(alone.size() * static_cast<std::size_t>(dag.size()), 300'000u);
  for (const unsigned threads : {2u, 5u}) {
    problem.threads = threads;
    expect_same(plan(problem).frontier, alone);
  }
}

// HiGHS bounds what any plan of measured clocks takes on stages that Perseus's authors measured (make discrete-bound,
// 12 microbatches, as fast as all-maximum clocks, 20 minutes each): 11,092.7 J for GPT-3 175B and 6,370.6 J for Bloom
// 176B. Both are too far from the relaxed bound for the first searches to be the last.
TEST(Perseus, IsNearTheBestPlanOfMeasuredClocks) {
  const auto data = testing::shared_data();
  if (!data) GTEST_SKIP() << testing::kNoSharedData;
  double above = 0.0;
  for (const auto& [file, best] : {std::pair{"gpt3-175b+a40_bf16.csv", 11092.7}, {"bloom+a100_sxm_bf16.csv", 6370.6}}) {
    const Profile profile = read_profile_file(*data / "perseus-sosp24" / "emulation" / file);
    const ComputationDag dag = dag_of(profile, 12);
    PlanProblem problem = make_problem(dag, {kDefaultBlockingPower}, std::nullopt, CostModel::kHull);
    const Nanoseconds time = emulate(dag, plan_durations(dag, max_clock_plan(problem))).makespan;
    problem.focus = {time};
    problem.threads = 2;
    const Frontier frontier = plan(problem).frontier;
    problem.threads = 1;
    expect_same(plan(problem).frontier, frontier);
    const FrontierPoint& point = frontier.points()[frontier.lookup(time)];
    const double joules = point.net_joules + (problem.total_blocking() * to_seconds(time)).value();
    EXPECT_GT(joules, best);
    EXPECT_LT(joules, 1.002 * best);
    above += joules / best - 1.0;
  }
  EXPECT_LT(above / 2, 0.001);
}

TEST(Perseus, WorksHarderOnItsFocus) {
  const Profile profile = noisy_profile(4, 4);
  const ComputationDag dag = dag_of(profile, 16);
  PlanProblem problem = problem_of(dag);
  const Frontier plain = plan(problem).frontier;
  const Nanoseconds wanted = plain.points().front().time * 11 / 10;
  problem.focus = {wanted};
  const Frontier focused = plan(problem).frontier;
  expect_sound(problem, focused);
  EXPECT_LE(focused.points()[focused.lookup(wanted)].net_joules, plain.points()[plain.lookup(wanted)].net_joules);
}

TEST(Perseus, OneOptionEachIsOnePoint) {
  const Profile profile =
      profile_of({operation(0, "forward", {{1400, 0.010, 3.0}}), operation(0, "backward", {{1400, 0.020, 6.0}})});
  const ComputationDag dag = dag_of(profile, 3);
  const Frontier frontier = plan(problem_of(dag)).frontier;
  ASSERT_EQ(frontier.size(), 1u);
  EXPECT_EQ(frontier.points()[0].time, 90 * kMillisecond);
  EXPECT_NEAR(frontier.energy(0).value(), 27.0, 1e-9);
}

// All options draw just the blocking power: no clock saves anything, whatever rounding makes of the differences.
TEST(Perseus, GpuThatDrawsNoMoreThanBlockedIsOnePoint) {
  const Profile profile = profile_of({
      operation(0, "forward", {{1000, 0.011, 0.825}, {900, 0.013, 0.975}, {800, 0.017, 1.275}, {700, 0.023, 1.725}}),
      operation(0, "backward", {{1000, 0.021, 1.575}, {900, 0.029, 2.175}, {800, 0.031, 2.325}}),
  });
  const ComputationDag dag = dag_of(profile, 4);
  const Frontier frontier = plan(problem_of(dag)).frontier;
  ASSERT_GE(frontier.size(), 1u);
  EXPECT_EQ(frontier.points().front().time, 128 * kMillisecond);
  EXPECT_NEAR(frontier.energy(0).value(), 75 * 4 * 0.032, 1e-9);
}

// Two operations side by side, one without a choice: no price is ever visited, yet all flow up to 120 J/s is free.
TEST(Perseus, BoundHoldsWhereNothingCanBeShortened) {
  const Profile profile = profile_of({operation(0, "forward", {{1000, 0.5, 200.0}, {900, 1.0, 140.0}}),
                                      operation(1, "forward", {{1000, 1.0, 200.0}})});
  const ComputationDag dag(
      "two operations", 2,
      {{0, "forward", profile.operations[0].options, true}, {1, "forward", profile.operations[1].options, true}},
      {{0, 0, 0}, {1, 0, 0}}, {});
  const PlanProblem problem = problem_of(dag);
  const Frontier frontier = plan(problem).frontier;
  expect_sound(problem, frontier);
  ASSERT_EQ(frontier.size(), 1u);
  EXPECT_NEAR(frontier.energy(0).value(), 340.0, 1e-6);
  EXPECT_NEAR(frontier.lower_bound(0).value(), 340.0, 1e-6);
}

TEST(Perseus, NoiseRuleLeavesTheBoundABound) {
  const Profile profile = noisy_profile(3, 6);
  const ComputationDag dag = dag_of(profile, 6);
  const std::vector<Watts> blocking{kDefaultBlockingPower};
  const PlanProblem strict = make_problem(dag, blocking, kMillisecond, CostModel::kHull);
  const PlanProblem lenient = make_problem(dag, blocking, kMillisecond, CostModel::kHull, 0.02);
  ASSERT_LT(lenient.choices[0].pareto.size(), strict.choices[0].pareto.size());
  const Frontier all = plan(strict).frontier;
  const Frontier kept = plan(lenient).frontier;
  expect_sound(lenient, kept);
  for (std::size_t p = 0; p < kept.size(); p += 10) {
    const FrontierPoint& point = kept.points()[p];
    EXPECT_LE(point.net_lower_bound, all.points()[all.lookup(point.time)].net_joules + 1e-9);
  }
}

TEST(Perseus, RefusesMorePointsThanAnyoneMeant) {
  const Profile profile = modelled_profile({0.040});
  const ComputationDag dag = dag_of(profile, 200);
  const PlanProblem problem = make_problem(dag, {Watts(75)}, 100, CostModel::kHull);
  EXPECT_THROW(static_cast<void>(plan(problem)), UsageError);
}

TEST(PlanProblem, RefusesClocksThatDifferByNothingButJoules) {
  const Profile profile = profile_of({operation(0, "forward", {{1400, 0.010, 30.0}, {1300, 0.010000001, 3.0}}),
                                      operation(0, "backward", {{1400, 0.020, 6.0}})});
  const ComputationDag dag = dag_of(profile, 1);
  EXPECT_THROW(static_cast<void>(make_problem(dag, {Watts(75)}, kMillisecond, CostModel::kHull)), InputError);
}

TEST(Perseus, CancelsBetweenStretches) {
  const Profile profile = modelled_profile({0.040, 0.044});
  const ComputationDag dag = dag_of(profile, 16);
  double seen = 0.0;
  const PlannerResult result = make_perseus()->plan(problem_of(dag), [&](double share) {
    EXPECT_GE(share, seen);
    EXPECT_LE(share, 1.0);
    seen = share;
    return share < 0.3;
  });
  EXPECT_GE(seen, 0.3);
  const Frontier whole = plan(problem_of(dag)).frontier;
  EXPECT_LT(result.frontier.size(), whole.size());
  EXPECT_GT(result.frontier.points().front().time, whole.points().front().time);
}

// Transfers delay, but nobody computes meanwhile: their energy counts whole, and the stage is charged as blocked.
TEST(Perseus, TransfersAreNotNetted) {
  const Profile profile = modelled_profile({0.040, 0.044});
  PipelineSpec spec;
  spec.microbatches = 4;
  spec.p2p = ConstantOperation{Seconds(0.003), Joules(0.5)};
  const ComputationDag dag = build_dag(spec, profile);
  const PlanProblem problem = problem_of(dag);
  expect_sound(problem, plan(problem).frontier);
}

TEST(PlanProblem, RefusesUnitTimesThatSeeNothing) {
  const Profile profile = modelled_profile({0.040});
  const ComputationDag dag = dag_of(profile, 2);
  const std::vector<Watts> blocking{Watts(75)};
  EXPECT_THROW(static_cast<void>(make_problem(dag, blocking, 0, CostModel::kHull)), UsageError);
  EXPECT_THROW(static_cast<void>(make_problem(dag, blocking, 41 * kMillisecond, CostModel::kHull)), UsageError);
  EXPECT_NO_THROW(static_cast<void>(make_problem(dag, blocking, 40 * kMillisecond, CostModel::kHull)));
}

TEST(PlanProblem, KnowsItsPlanners) {
  for (const std::string& name : planner_names()) EXPECT_EQ(make_planner(name)->name(), name);
  EXPECT_THROW(static_cast<void>(make_planner("magic")), UsageError);
}

}  // namespace
}  // namespace flyball
