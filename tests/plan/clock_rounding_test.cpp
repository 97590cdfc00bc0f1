#include "plan/clock_rounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "plan/gates.h"
#include "plan/path_search.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using testing::dag_of;
using testing::modelled_profile;
using testing::operation;
using testing::problem_of;
using testing::profile_of;

Profile noisy_profile(unsigned seed) {
  Profile profile = modelled_profile({0.040, 0.042, 0.044, 0.041});
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(1.0, 0.001);
  for (OperationProfile& op : profile.operations) {
    for (ClockOption& option : op.options) {
      option.time = option.time * noise(random);
      option.energy = option.energy * noise(random);
    }
  }
  return profile;
}

Nanoseconds makespan_of(const ComputationDag& dag, const ClockPlan& plan) {
  return emulate(dag, plan_durations(dag, plan)).makespan;
}

int node(const ComputationDag& dag, int stage, const char* instruction, int microbatch) {
  for (int i = 0; i < dag.size(); ++i) {
    if (dag.type_of(i).stage == stage && dag.type_of(i).instruction == instruction && dag[i].microbatch == microbatch) {
      return i;
    }
  }
  return -1;
}

// In the steady state of 1F1B, stage 0's forward and stage 1's backward end where stage 0's backward and stage 1's
// next forward start.
TEST(GateGraph, NeighbouringStagesMeetAtAGate) {
  const ComputationDag dag = dag_of(modelled_profile({0.040, 0.044}), 8);
  const GateGraph graph(dag);
  const Gate gate = graph.end_of(node(dag, 0, "forward", 4));
  EXPECT_EQ(gate, graph.end_of(node(dag, 1, "backward", 3)));
  EXPECT_EQ(graph.ending(gate).size(), 2u);
  EXPECT_EQ(graph.starting(gate).size(), 2u);
  for (const int i : {node(dag, 0, "backward", 3), node(dag, 1, "forward", 4)}) {
    ASSERT_EQ(graph.before(i).size(), 1u);
    EXPECT_EQ(graph.before(i)[0], gate);
  }
}

TEST(GateGraph, EveryOperationEndsBeforeItsSuccessorsStart) {
  for (const ScheduleKind schedule : {ScheduleKind::k1f1b, ScheduleKind::kGpipe}) {
    const ComputationDag dag = dag_of(modelled_profile({0.040, 0.044, 0.041}), 6, schedule);
    const GateGraph graph(dag);
    std::size_t ending = 0;
    for (Gate gate = 0; gate < static_cast<Gate>(graph.size()); ++gate) ending += graph.ending(gate).size();
    EXPECT_EQ(ending, static_cast<std::size_t>(dag.size()));
    for (int i = 0; i < dag.size(); ++i) {
      EXPECT_EQ(graph.end_of(i) == GateGraph::kEnd, dag.successors(i).empty());
      for (const std::int32_t s : dag.successors(i)) {
        const auto before = graph.before(s);
        EXPECT_NE(std::find(before.begin(), before.end(), graph.end_of(i)), before.end());
      }
    }
  }
}

// Two operations in a row with 5 ms to share. Slowing the first by its one step makes the second too slow for its own,
// and the other way round is cheaper: the path search must move the gate between them against the first one's will.
TEST(PathSearch, FindsTheOptimumOfAChain) {
  const Profile profile = profile_of({operation(0, "forward", {{1400, 0.010, 3.00}, {1200, 0.015, 2.70}}),
                                      operation(0, "backward", {{1400, 0.020, 6.10}, {1200, 0.025, 5.30}})});
  const ComputationDag dag = dag_of(profile, 1);
  const PlanProblem problem = problem_of(dag);
  const std::vector<ClockChoices> choices = clock_choices(problem);
  const GateGraph graph(dag);
  PathSearch search(dag, graph, choices);
  const Nanoseconds deadline = 35'000'000;
  GateSchedule schedule{std::vector<Nanoseconds>(graph.size(), deadline), {1, 0}};
  schedule.passes[static_cast<std::size_t>(graph.end_of(0))] = 15'000'000;
  search.improve(dag.stage_order(0), schedule);
  EXPECT_EQ(schedule.level, (std::vector<Level>{0, 1}));
  EXPECT_EQ(schedule.end(graph, 0), 10'000'000);
}

TEST(PathSearch, KeepsScheduleSoundAndNeverCostsMore) {
  const ComputationDag dag = dag_of(noisy_profile(3), 12);
  const PlanProblem problem = problem_of(dag);
  const std::vector<ClockChoices> choices = clock_choices(problem);
  const GateGraph graph(dag);
  PathSearch search(dag, graph, choices);
  // All gates where the fastest operations put them, 3 % later.
  GateSchedule schedule{std::vector<Nanoseconds>(graph.size(), 0), std::vector<Level>(choices.size())};
  schedule.level.assign(static_cast<std::size_t>(dag.size()), 0);
  for (int i = 0; i < dag.size(); ++i) {
    Nanoseconds& passes = schedule.passes[static_cast<std::size_t>(graph.end_of(i))];
    const Nanoseconds fastest = choices[static_cast<std::size_t>(dag[i].type)].time.front();
    passes = std::max(passes, schedule.start(graph, i) + fastest * 103 / 100);
  }
  const auto net = [&] {
    double sum = 0.0;
    for (int i = 0; i < dag.size(); ++i) {
      const ClockChoices& type = choices[static_cast<std::size_t>(dag[i].type)];
      const auto level = static_cast<std::size_t>(schedule.level[static_cast<std::size_t>(i)]);
      EXPECT_LE(type.time[level], schedule.end(graph, i) - schedule.start(graph, i));
      sum += type.net[level];
    }
    return sum;
  };
  const Nanoseconds deadline = schedule.passes[GateGraph::kEnd];
  double before = net();
  const double at_first = before;
  for (int sweep = 0; sweep < 3; ++sweep) {
    for (int stage = 0; stage < dag.stages(); ++stage) {
      search.improve(dag.stage_order(stage), schedule);
      const double after = net();
      EXPECT_LE(after, before + 1e-9);
      before = after;
    }
  }
  EXPECT_LT(before, at_first);
  EXPECT_EQ(schedule.passes[GateGraph::kEnd], deadline);
}

// Point after point over the whole frontier: within the deadline, and no worse than rounding without path searches.
TEST(ClockRounder, FollowsTheRelaxationWithinTheDeadline) {
  const ComputationDag dag = dag_of(noisy_profile(8), 16);
  const PlanProblem problem = problem_of(dag);
  const RoundingTables tables(problem);
  ClockRounder following(problem);
  ClockRounder anew(problem);
  double followed = 0.0;
  double rounded = 0.0;
  double floored = 0.0;
  int points = 0;
  const auto status = solve_relaxation(dag, problem.hulls(), [&](const FrontierStretch& stretch) {
                        const Nanoseconds deadline = stretch.t_low;
                        points++ % 16 == 0 ? following.round(relaxed_times(tables, stretch, deadline), deadline)
                                           : following.follow(relaxed_times(tables, stretch, deadline), deadline);
                        EXPECT_LE(following.makespan(), deadline);
                        EXPECT_EQ(following.makespan(), makespan_of(dag, following.plan()));
                        followed += following.net_joules();
                        anew.floor(relaxed_times(tables, stretch, deadline), deadline);
                        EXPECT_LE(anew.makespan(), deadline);
                        floored += anew.net_joules();
                        anew.round(relaxed_times(tables, stretch, deadline), deadline);
                        EXPECT_LE(anew.makespan(), deadline);
                        rounded += anew.net_joules();
                        return true;
                      }).status;
  EXPECT_EQ(status, RelaxationStatus::kOptimal);
  EXPECT_GT(points, 50);
  EXPECT_LT(rounded, floored);
  EXPECT_LT(followed, floored);
}

TEST(ClockRounder, PolishKeepsTheDeadlineAndNeverCostsMore) {
  const ComputationDag dag = dag_of(noisy_profile(8), 12);
  const PlanProblem problem = problem_of(dag);
  const RoundingTables tables(problem);
  ClockRounder rounder(problem);
  int points = 0;
  double less = 0.0;
  static_cast<void>(solve_relaxation(dag, problem.hulls(), [&](const FrontierStretch& stretch) {
    if (points++ % 40 != 0) return true;
    rounder.floor(relaxed_times(tables, stretch, stretch.t_low), stretch.t_low);
    const double before = rounder.net_joules();
    rounder.polish(stretch.t_low);
    EXPECT_LE(rounder.makespan(), stretch.t_low);
    const double polished = rounder.net_joules();
    EXPECT_LE(polished, before + 1e-9);
    // Disturbances follow what the same seed finds without them, and end where it is enough.
    rounder.floor(relaxed_times(tables, stretch, stretch.t_low), stretch.t_low);
    rounder.polish(stretch.t_low, {.disturbances = 10});
    EXPECT_LE(rounder.makespan(), stretch.t_low);
    EXPECT_EQ(rounder.makespan(), makespan_of(dag, rounder.plan()));
    EXPECT_LE(rounder.net_joules(), polished);
    less += polished - rounder.net_joules();
    rounder.floor(relaxed_times(tables, stretch, stretch.t_low), stretch.t_low);
    rounder.polish(stretch.t_low, {.disturbances = 10, .enough = before});
    EXPECT_EQ(rounder.net_joules(), before);
    return true;
  }));
  EXPECT_GT(points, 40);
  EXPECT_GT(less, 0.0);
}

// What rounding_value leaves out must not make the rest tell the times of a trial that was not kept.
TEST(ClockRounder, PolishWithoutRandomPathsKnowsItsMakespan) {
  const ComputationDag dag = dag_of(noisy_profile(8), 12);
  const PlanProblem problem = problem_of(dag);
  const RoundingTables tables(problem);
  ClockRounder rounder(problem, {.random_paths = false});
  int points = 0;
  static_cast<void>(solve_relaxation(dag, problem.hulls(), [&](const FrontierStretch& stretch) {
    if (points++ % 40 != 0) return true;
    rounder.floor(relaxed_times(tables, stretch, stretch.t_low), stretch.t_low);
    rounder.polish(stretch.t_low);
    EXPECT_EQ(rounder.makespan(), makespan_of(dag, rounder.plan()));
    return true;
  }));
  EXPECT_GT(points, 40);
}

}  // namespace
}  // namespace flyball
