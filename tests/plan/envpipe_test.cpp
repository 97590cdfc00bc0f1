#include "plan/envpipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "plan/reschedule.h"
#include "plan/stage_clock.h"
#include "plan/zeus.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using testing::dag_of;
using ::testing::ElementsAre;
using testing::find_operation;
using ::testing::HasSubstr;
using testing::modelled_profile;
using testing::operation;
using testing::order_of;
using testing::problem_of;
using testing::profile_of;

// Three clocks; at the lowest everything takes twice as long and least energy.
Profile three_clock_profile(int stages, double forward = 1.0, double backward = 2.0) {
  std::vector<OperationProfile> operations;
  for (int s = 0; s < stages; ++s) {
    operations.push_back(
        operation(s, "forward", {{300, forward, 400}, {200, 1.5 * forward, 350}, {100, 2 * forward, 330}}));
    operations.push_back(
        operation(s, "backward", {{300, backward, 800}, {200, 1.5 * backward, 700}, {100, 2 * backward, 660}}));
  }
  return profile_of(std::move(operations));
}

// EnvPipe figure 4: a valley stretch of 1.2 and backwards of twice a forward.
Profile figure_4_profile() {
  std::vector<OperationProfile> operations;
  for (int s = 0; s < 4; ++s) {
    operations.push_back(operation(s, "forward", {{300, 1.0, 300}, {240, 1.2, 270}}));
    operations.push_back(operation(s, "backward", {{300, 2.0, 600}, {240, 2.4, 540}}));
  }
  return profile_of(std::move(operations));
}

TEST(Reschedule, Recognises1f1b) {
  const Profile profile = three_clock_profile(4);
  EXPECT_THAT(in_flight_of_1f1b(dag_of(profile, 8)).value(), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(in_flight_of_1f1b(dag_of(profile, 2)).value(), ElementsAre(2, 2, 2, 1));
  EXPECT_FALSE(in_flight_of_1f1b(dag_of(profile, 8, ScheduleKind::kGpipe)).has_value());
  // One microbatch leaves nothing to order: every schedule is the same.
  EXPECT_TRUE(in_flight_of_1f1b(dag_of(profile, 1, ScheduleKind::kGpipe)).has_value());
}

// The bubble before the first backward of stage s is (S - 1 - s) backwards: 6, 4, 2, 0 s. Stretched forwards of 1.2 s
// fit 5, 3, 1 and 0 times, of which stage 0 has only 4 left. On the second stage that moves up the fourth to sixth
// forward, as in EnvPipe figure 4(b).
TEST(Reschedule, FillsTheBubbleBeforeTheFirstBackward) {
  const Profile profile = figure_4_profile();
  const ComputationDag dag = dag_of(profile, 8);
  const PlanProblem problem = problem_of(dag);
  const std::vector<int> in_flight = rescheduled_in_flight(problem);
  EXPECT_THAT(in_flight, ElementsAre(8, 6, 3, 1));

  const ComputationDag moved = reschedule(dag, in_flight);
  EXPECT_EQ(order_of(moved, 0), "F0 F1 F2 F3 F4 F5 F6 F7 B0 B1 B2 B3 B4 B5 B6 B7");
  EXPECT_EQ(order_of(moved, 1), "F0 F1 F2 F3 F4 F5 B0 F6 B1 F7 B2 B3 B4 B5 B6 B7");
  EXPECT_EQ(order_of(moved, 2), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7");
  EXPECT_EQ(order_of(moved, 3), order_of(dag, 3));
  EXPECT_EQ(moved.edge_count(), dag.edge_count());
  // (S - 1 + M) * (F + B) in either order.
  const ClockPlan fastest(at(dag.size()), 0);
  EXPECT_EQ(replay(dag, problem.blocking, fastest).time, 33'000'000'000);
  EXPECT_EQ(replay(moved, problem.blocking, fastest).time, 33'000'000'000);
}

// The pipeline above, whose transfers occupy both stages: no more forwards are moved up than before, and an iteration
// becomes no longer, although its messages wait for their receivers.
TEST(Reschedule, MovesNoSlowForwardsUpWhereTransfersOccupyBothStages) {
  PipelineSpec spec;
  spec.microbatches = 8;
  spec.p2p = ConstantOperation(Seconds(0.01));
  spec.transfers_occupy_both = true;
  const ComputationDag dag = build_dag(spec, figure_4_profile());
  const PlanProblem problem = problem_of(dag);
  const std::vector<int> in_flight = rescheduled_in_flight(problem);
  const std::vector<int> before = rescheduled_in_flight(problem_of(dag_of(figure_4_profile(), 8)));
  for (std::size_t s = 0; s < in_flight.size(); ++s) {
    EXPECT_LE(in_flight[s], before[s]);
    EXPECT_GE(in_flight[s], 4 - static_cast<int>(s));
  }
  const std::shared_ptr<const ComputationDag> moved = make_envpipe(EnvPipePolicy::kBalanced)->plan(problem, {}).dag;
  const ClockPlan fastest(at(dag.size()), 0);
  const Nanoseconds at_maximum = replay(dag, problem.blocking, fastest).time;
  EXPECT_LE(replay(moved ? *moved : dag, problem.blocking, fastest).time, at_maximum);
  EXPECT_THROW(check_memory_limit(dag, std::vector<int>{3, 3, 2, 1}), UsageError);
}

TEST(Reschedule, OriginalIndexLeadsBack) {
  const Profile profile = figure_4_profile();
  const ComputationDag dag = dag_of(profile, 8);
  const ComputationDag moved = reschedule(dag, std::vector<int>{8, 6, 3, 1});
  for (int i = 0; i < moved.size(); ++i) {
    const Computation& original = dag[moved.original_index(i)];
    EXPECT_EQ(original.type, moved[i].type);
    EXPECT_EQ(original.microbatch, moved[i].microbatch);
  }
}

// Room for 5 on every stage: stage 0 takes one more than 1F1B's 4. Stage 1 has room for two more and bubble for three,
// but with 5 in flight on both, stage 0 would wait for every microbatch to come back; the repair leaves it one.
TEST(Reschedule, KeepsTheMemoryLimitAndTheFallAlongTheStages) {
  const Profile profile = figure_4_profile();
  const ComputationDag dag = dag_of(profile, 8);
  const PlanProblem problem = problem_of(dag);
  EXPECT_THAT(rescheduled_in_flight(problem, std::vector<int>{5, 5, 5, 5}), ElementsAre(5, 4, 3, 1));
  // No room beyond what 1F1B holds.
  EXPECT_THAT(rescheduled_in_flight(problem, std::vector<int>{4, 3, 2, 1}), ElementsAre(4, 3, 2, 1));
  EXPECT_THROW(static_cast<void>(rescheduled_in_flight(problem, std::vector<int>{5})), UsageError);
}

std::string refusal(const ComputationDag& dag, std::vector<int> memory_limit) {
  try {
    static_cast<void>(make_problem(dag, {Watts(75)}, 1'000'000, CostModel::kHull, 0.0, std::move(memory_limit)));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Reschedule, RefusesMemoryThat1f1bDoesNotFit) {
  const Profile profile = figure_4_profile();
  const ComputationDag dag = dag_of(profile, 8);
  EXPECT_EQ(refusal(dag, {4, 3, 2, 1}), "");
  EXPECT_EQ(
      refusal(dag, {4, 3, 1, 1}),
      "the memory limit of stage 2 is 1, but 1f1b holds 2 microbatches' activations there; raise the limit to 2 or "
      "above, or leave it out");
  EXPECT_THAT(refusal(dag, {3}), HasSubstr("stage 0 is 3, but 1f1b holds 4"));  // one limit is for all stages
  EXPECT_THAT(refusal(dag, {4, 3}), HasSubstr("2 memory limits for 4 stages"));
  EXPECT_THAT(refusal(dag, {4, 3, 2, 0}), HasSubstr("stage 3 is 0; it counts microbatches, give 1 or above"));
  // Two microbatches are all there is to hold.
  EXPECT_EQ(refusal(dag_of(profile, 2), {2, 2, 2, 1}), "");
  // GPipe holds all eight everywhere; its order is kept and its memory not examined.
  EXPECT_EQ(refusal(dag_of(profile, 8, ScheduleKind::kGpipe), {1}), "");
  EXPECT_THROW(static_cast<void>(rescheduled_in_flight(problem_of(dag), std::vector<int>{4, 3, 1, 1})), UsageError);
}

TEST(Reschedule, NeverSlowerThan1f1bAtMaximumClocks) {
  const std::vector<std::vector<double>> shapes = {
      {1, 1, 1, 1}, {2, 1, 1, 1}, {1, 1, 1, 2}, {1, 3, 1, 2}, {3, 2, 1, 1}, {1, 2}, {0.7, 0.9, 1.4, 0.8, 1.1, 1.0}};
  for (const auto& shape : shapes) {
    for (const int microbatches : {1, 2, 3, 5, 16}) {
      const Profile profile = modelled_profile(shape);
      const ComputationDag dag = dag_of(profile, microbatches);
      const PlanProblem problem = problem_of(dag);
      const std::vector<int> in_flight = rescheduled_in_flight(problem);
      const ComputationDag moved = reschedule(dag, in_flight);  // throws on a deadlock
      const ClockPlan fastest(at(dag.size()), 0);
      EXPECT_LE(replay(moved, problem.blocking, fastest).time, replay(dag, problem.blocking, fastest).time);
      for (std::size_t s = 0; s + 1 < in_flight.size(); ++s) EXPECT_GE(in_flight[s], in_flight[s + 1]);
    }
  }
}

TEST(Reschedule, MovesDataLoadingWithItsForwardAndLeavesTheTail) {
  const Profile profile = figure_4_profile();
  PipelineSpec spec;
  spec.microbatches = 8;
  spec.p2p = ConstantOperation{Seconds(0.01), Joules(0)};
  spec.data_load = ConstantOperation{Seconds(0.02), Joules(1)};
  spec.gradient_sync = ConstantOperation{Seconds(0.5), Joules(40)};
  const ComputationDag dag = build_dag(spec, profile);
  const PlanProblem problem = problem_of(dag);
  const std::vector<int> in_flight = rescheduled_in_flight(problem);
  ASSERT_GT(in_flight[0], 4);
  const ComputationDag moved = reschedule(dag, in_flight);
  const auto order = moved.stage_order(0);
  for (std::size_t k = 0; k < order.size(); ++k) {
    const bool loads = moved.type_of(order[k]).instruction == kDataLoadName;
    if (loads) {
      EXPECT_EQ(moved[order[k + 1]].microbatch, moved[order[k]].microbatch);
    }
    EXPECT_EQ(moved.type_of(order[k]).instruction == kGradientSyncName, k + 1 == order.size());
  }
}

// Figure 6: F0 down, the whole last stage, the last backward up.
TEST(Envelope, IsTheOutermostPath) {
  const Profile profile = three_clock_profile(3);
  const ComputationDag dag = dag_of(profile, 4);
  const std::vector<bool> outer = envelope(dag);
  for (int i = 0; i < dag.size(); ++i) {
    const bool first = dag.type_of(i).instruction == "forward" && dag[i].microbatch == 0;
    const bool last = dag.type_of(i).instruction == "backward" && dag[i].microbatch == 3;
    EXPECT_EQ(outer[at(i)], first || last || dag.type_of(i).stage == 2) << dag.label(i);
  }
}

std::vector<std::string> labels(const ComputationDag& dag, const std::vector<int>& path) {
  std::vector<std::string> names;
  for (const int i : path) names.push_back(dag.label(i));
  return names;
}

// At maximum clocks:     stage 0  F0 F1 .. .. B0 B0 .  B1 B1      (1 s per column)
//                        stage 1  .  F0 B0 B0 F1 B1 B1
TEST(CriticalPath, IsTheEnvelopeAtMaximumClocks) {
  const Profile profile = three_clock_profile(2);
  const ComputationDag dag = dag_of(profile, 2);
  const ExecutedStep step = emulate_step(dag, ClockPlan(at(dag.size()), 0));
  EXPECT_THAT(labels(dag, find_critical_path(dag, step)),
              ElementsAre("F0 stage 0", "F0 stage 1", "B0 stage 1", "F1 stage 1", "B1 stage 1", "B1 stage 0"));
}

// With B0 of stage 0 twice as long, 4 s .. 8 s, B1 has no slack after it but one second after stage 1's B1.
TEST(CriticalPath, FollowsTheStageWhereSlackIsLess) {
  const Profile profile = three_clock_profile(2);
  const ComputationDag dag = dag_of(profile, 2);
  ClockPlan plan(at(dag.size()), 0);
  plan[at(find_operation(dag, 0, "backward", 0))] = 2;
  EXPECT_THAT(labels(dag, find_critical_path(dag, emulate_step(dag, plan))),
              ElementsAre("F0 stage 0", "F0 stage 1", "B0 stage 1", "B0 stage 0", "B1 stage 0"));
}

TEST(CriticalPath, WorksOnMeasuredTimesWithJitter) {
  const Profile profile = three_clock_profile(2);
  const ComputationDag dag = dag_of(profile, 2);
  ExecutedStep step = emulate_step(dag, ClockPlan(at(dag.size()), 0));
  for (std::size_t i = 0; i < step.start.size(); ++i) step.start[i] += 20'000'000 + 1'000'000 * static_cast<int>(i);
  EXPECT_THAT(labels(dag, find_critical_path(dag, step)),
              ElementsAre("F0 stage 0", "F0 stage 1", "B0 stage 1", "F1 stage 1", "B1 stage 1", "B1 stage 0"));
}

// Inside the envelope are only F1 and B0 of stage 0. At the valley (100 MHz) B0 takes 4 s .. 8 s, so that the iteration
// takes 10 s instead of 9; one step up it ends at 7 s, just in time for B1. F1 has until 4 s. The greedy policy does
// not look for that step.
TEST(EnvPipe, StopsAtTheClockThatFitsTheBubble) {
  const Profile profile = three_clock_profile(2);
  const ComputationDag dag = dag_of(profile, 2);
  const PlanProblem problem = problem_of(dag);
  for (const EnvPipePolicy policy : {EnvPipePolicy::kBalanced, EnvPipePolicy::kGreedy}) {
    const PlannerResult result = make_envpipe(policy)->plan(problem, nullptr);
    ASSERT_EQ(result.frontier.size(), 1u);
    EXPECT_EQ(result.dag, nullptr);  // no forward to move
    EXPECT_EQ(result.frontier.points()[0].time, 9'000'000'000);
    EXPECT_EQ(result.stats.steps, 2);
    ClockPlan expected(at(dag.size()), 0);
    expected[at(find_operation(dag, 0, "forward", 1))] = 2;
    const bool greedy = policy == EnvPipePolicy::kGreedy;
    expected[at(find_operation(dag, 0, "backward", 0))] = greedy ? 0 : 1;
    EXPECT_EQ(result.frontier.plan(0), expected);
    // 4 * (400 + 800) J less 70 J for F1 and 100 J for B0, net of 75 W over 4 * (1 + 2) s and one second more for each.
    EXPECT_NEAR(result.frontier.points()[0].net_joules,
                greedy ? 4 * 1200 - 70 - 75.0 * 13 : 4 * 1200 - 70 - 100 - 75.0 * 14, 1e-9);
  }
  const PlannerResult unchecked = make_envpipe(EnvPipePolicy::kNoReconfigure)->plan(problem, nullptr);
  EXPECT_EQ(unchecked.frontier.points()[0].time, 10'000'000'000);
  EXPECT_EQ(unchecked.stats.steps, 0);
}

// Stage 0 is three times as heavy, so that the critical path runs along it: F0 F1 B0 F2 B1 B2 (B0 waits 3 s for
// stage 1's F0 and B0, less than F1 takes).
TEST(EnvPipe, PoliciesDifferInWhatTheyRaiseFirst) {
  Profile profile = three_clock_profile(2);
  for (OperationProfile& op : profile.operations) {
    if (op.stage == 0) {
      for (ClockOption& option : op.options) option.time = 3.0 * option.time;
    }
  }
  const ComputationDag dag = dag_of(profile, 3);
  const PlanProblem problem = problem_of(dag);
  const auto op = [&](const char* instruction, int m) { return at(find_operation(dag, 0, instruction, m)); };
  ClockPlan plan(at(dag.size()), 0);
  plan[op("forward", 1)] = plan[op("forward", 2)] = plan[op("backward", 1)] = 2;
  plan[op("backward", 0)] = 1;
  const Progress stop = [](double) { return false; };

  const Reconfigured balanced = reconfigure(problem, EnvPipePolicy::kBalanced, plan, emulate_step, stop);
  ClockPlan expected = plan;
  expected[op("forward", 1)] = expected[op("forward", 2)] = expected[op("backward", 1)] = 1;
  EXPECT_EQ(balanced.plan, expected);
  EXPECT_EQ(balanced.status, ReconfigureStatus::kCancelled);

  const Reconfigured greedy = reconfigure(problem, EnvPipePolicy::kGreedy, plan, emulate_step, stop);
  expected = plan;
  expected[op("backward", 1)] = 0;
  EXPECT_EQ(greedy.plan, expected);
}

// The heavy first stage never leaves the critical path to the envelope: it ends when that path has no clock left.
TEST(EnvPipe, EndsWhereTheLastStageIsNotTheHeaviest) {
  const Profile profile = modelled_profile({0.03, 0.01, 0.01});
  const ComputationDag dag = dag_of(profile, 6);
  const PlanProblem problem = problem_of(dag);
  const ClockPlan fastest(at(dag.size()), 0);
  const Reconfigured outcome =
      reconfigure(problem, EnvPipePolicy::kBalanced, plan_of_types(dag, valley_options(dag)), emulate_step, nullptr);
  EXPECT_EQ(outcome.status, ReconfigureStatus::kMaximumClocks);
  EXPECT_EQ(replay(dag, problem.blocking, outcome.plan).time, replay(dag, problem.blocking, fastest).time);
}

struct Workload {
  const char* name;
  std::vector<double> forward_seconds;
  int microbatches;
};

const std::vector<Workload>& balanced_workloads() {
  static const std::vector<Workload> workloads = {
      {"4 stages", {0.020, 0.020, 0.020, 0.020}, 16},
      {"4 stages, head", {0.020, 0.020, 0.020, 0.022}, 16},
      {"4 stages, long", {0.020, 0.021, 0.020, 0.021}, 64},
      {"8 stages", {0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.011}, 24},
  };
  return workloads;
}

// EnvPipe figures 10 and 11, and the 20 - 25 % of section 4.2.
TEST(EnvPipe, KeepsTheSpeedThatUniformLoses) {
  for (const Workload& workload : balanced_workloads()) {
    SCOPED_TRACE(workload.name);
    const Profile profile = modelled_profile(workload.forward_seconds);
    const ComputationDag dag = dag_of(profile, workload.microbatches);
    const PlanProblem problem = problem_of(dag);
    const FrontierPoint base = replay(dag, problem.blocking, ClockPlan(at(dag.size()), 0));
    const auto point = [&](const std::unique_ptr<Planner>& planner) {
      return planner->plan(problem, nullptr).frontier.points()[0];
    };
    const FrontierPoint uniform = point(make_uniform());
    const FrontierPoint unchecked = point(make_envpipe(EnvPipePolicy::kNoReconfigure));
    const FrontierPoint greedy = point(make_envpipe(EnvPipePolicy::kGreedy));
    const FrontierPoint balanced = point(make_envpipe(EnvPipePolicy::kBalanced));
    const auto slowdown = [&](const FrontierPoint& p) {
      return static_cast<double>(p.time) / static_cast<double>(base.time) - 1.0;
    };
    EXPECT_GT(slowdown(uniform), 0.20);
    EXPECT_LT(slowdown(uniform), 0.25);
    EXPECT_GT(slowdown(unchecked), 0.01);
    EXPECT_LT(slowdown(greedy), 0.01);
    EXPECT_LT(slowdown(balanced), 0.01);
    EXPECT_LT(balanced.net_joules, base.net_joules);
    EXPECT_LE(balanced.net_joules, greedy.net_joules);
  }
}

TEST(EnvPipe, PlansAreForTheRescheduledDag) {
  const Profile profile = figure_4_profile();
  const ComputationDag dag = dag_of(profile, 8);
  const PlanProblem problem = problem_of(dag);
  const PlannerResult result = make_envpipe(EnvPipePolicy::kBalanced)->plan(problem, nullptr);
  ASSERT_NE(result.dag, nullptr);
  EXPECT_EQ(&result.dag_of(problem), result.dag.get());
  const FrontierPoint again = replay(*result.dag, problem.blocking, result.frontier.plan(0));
  EXPECT_EQ(again.time, result.frontier.points()[0].time);
  EXPECT_EQ(again.net_joules, result.frontier.points()[0].net_joules);

  EnvPipeOptions in_order;
  in_order.reschedule = false;
  EXPECT_EQ(make_envpipe(in_order)->plan(problem, nullptr).dag, nullptr);
}

TEST(EnvPipe, KeepsTheProblemsMemoryLimit) {
  const Profile profile = figure_4_profile();
  const ComputationDag dag = dag_of(profile, 8);
  const auto held = [&](std::vector<int> memory_limit, EnvPipeOptions options = {}) {
    const PlanProblem problem =
        make_problem(dag, {Watts(75)}, 1'000'000, CostModel::kHull, 0.0, std::move(memory_limit));
    const PlannerResult result = make_envpipe(std::move(options))->plan(problem, nullptr);
    return result.dag ? order_of(*result.dag, 0) : "";
  };
  EXPECT_EQ(held({4, 3, 2, 1}), "");  // 1F1B's own order
  EXPECT_EQ(held({5}), "F0 F1 F2 F3 F4 B0 F5 B1 F6 B2 F7 B3 B4 B5 B6 B7");
  EXPECT_EQ(held({}), "F0 F1 F2 F3 F4 F5 F6 F7 B0 B1 B2 B3 B4 B5 B6 B7");
  // The planner's own limit comes first.
  EnvPipeOptions roomier;
  roomier.memory_limit = {5, 5, 5, 5};
  EXPECT_EQ(held({4, 3, 2, 1}, roomier), held({5}));
}

// Only 1F1B is reordered; every schedule keeps its speed and saves energy.
TEST(EnvPipe, PlansEverySchedule) {
  const std::vector<double> seconds = {0.020, 0.022, 0.020, 0.021};
  Profile profile = modelled_profile(seconds);
  for (int s = 0; s < 4; ++s) {
    for (const char* instruction : {"recompute", "backward_input", "backward_weight"}) {
      profile.operations.push_back(testing::modelled_operation(s, instruction, seconds[at(s)]));
    }
  }
  for (const std::string& name : schedule_names()) {
    SCOPED_TRACE(name);
    PipelineSpec spec;
    spec.schedule = parse_schedule(name);
    spec.microbatches = 8;
    spec.chunks = spec.schedule == ScheduleKind::kInterleaved1f1b ? 2 : 1;
    const ComputationDag dag = build_dag(spec, profile);
    const PlanProblem problem = problem_of(dag);
    const FrontierPoint base = replay(dag, problem.blocking, ClockPlan(at(dag.size()), 0));
    const PlannerResult result = make_envpipe(EnvPipePolicy::kBalanced)->plan(problem, nullptr);
    EXPECT_EQ(result.dag != nullptr, spec.schedule == ScheduleKind::k1f1b);
    EXPECT_LE(result.frontier.points()[0].time, base.time);
    EXPECT_LT(result.frontier.points()[0].net_joules, base.net_joules);
  }
}

// A pipeline with transfers, data loading, gradient synchronisation and an optimizer step, on unequal stages.
TEST(EnvPipe, SeesConstantTimeOperations) {
  const Profile profile = modelled_profile({0.020, 0.024, 0.018, 0.021});
  PipelineSpec spec;
  spec.microbatches = 12;
  spec.p2p = ConstantOperation{Seconds(0.002), Joules(0)};
  spec.data_load = ConstantOperation{Seconds(0.004), Joules(0.4)};
  spec.gradient_sync = ConstantOperation{Seconds(0.050), Joules(5)};
  spec.optimizer_step = ConstantOperation{Seconds(0.010), Joules(1)};
  const ComputationDag dag = build_dag(spec, profile);
  const PlanProblem problem = problem_of(dag);
  const FrontierPoint base = replay(dag, problem.blocking, ClockPlan(at(dag.size()), 0));
  for (const EnvPipePolicy policy : {EnvPipePolicy::kBalanced, EnvPipePolicy::kGreedy}) {
    const PlannerResult result = make_envpipe(policy)->plan(problem, nullptr);
    EXPECT_LE(result.frontier.points()[0].time, base.time);
    EXPECT_LT(result.frontier.points()[0].net_joules, base.net_joules);
  }
}

// The workloads of EnvPipe table 1 (16 microbatches): what section 4.2 and figures 10 to 12 say of them.
TEST(EnvPipe, HoldsOnTheShippedProfiles) {
  const std::filesystem::path folder = std::filesystem::path(FLYBALL_SOURCE_DIR) / "examples" / "profiles";
  const std::vector<std::string> names = {
      "bert-336m-v100",        "gpt-125m-v100",         "megatron-125m-v100",
      "resnet-152-v100",       "bert-3.9b-rtx3090",     "gpt-350m-rtx3090",
      "megatron-350m-rtx3090", "megatron-760m-rtx3090", "bert-1.3b-envpipe-rtx3090"};
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const Profile profile = read_profile_file(folder / (name + "-4stage.csv"));
    const ComputationDag dag = dag_of(profile, 16);
    const PlanProblem problem = problem_of(dag);
    const auto energy = [&](const FrontierPoint& p) {
      return p.net_joules + (problem.total_blocking() * to_seconds(p.time)).value();
    };
    const auto point = [&](const std::unique_ptr<Planner>& planner) {
      return planner->plan(problem, nullptr).frontier.points()[0];
    };
    const FrontierPoint base = point(make_max());
    const auto slowdown = [&](const FrontierPoint& p) {
      return static_cast<double>(p.time) / static_cast<double>(base.time) - 1.0;
    };
    const FrontierPoint uniform = point(make_uniform());
    const FrontierPoint unchecked = point(make_envpipe(EnvPipePolicy::kNoReconfigure));
    const FrontierPoint balanced = point(make_envpipe(EnvPipePolicy::kBalanced));
    const FrontierPoint greedy = point(make_envpipe(EnvPipePolicy::kGreedy));
    EXPECT_GT(slowdown(uniform), 0.19);
    EXPECT_LT(slowdown(uniform), 0.26);
    EXPECT_LT(slowdown(balanced), 0.01);
    EXPECT_LT(slowdown(greedy), 0.01);
    EXPECT_GE(slowdown(unchecked), slowdown(balanced));
    EXPECT_LE(energy(balanced), energy(greedy));
    // Figure 10: 8.1 % to 25.2 %.
    EXPECT_LT(energy(balanced), 0.919 * energy(base));
    EXPECT_GT(energy(balanced), 0.748 * energy(base));
  }
}

TEST(EnvPipe, ASlowExecutorOnlyCostsSteps) {
  // Real steps jitter: finish times up to 2 % late, by a fixed pattern. The planner must still end, near the baseline.
  const Profile profile = modelled_profile({0.020, 0.020, 0.020, 0.020});
  const ComputationDag dag = dag_of(profile, 16);
  const PlanProblem problem = problem_of(dag);
  std::uint32_t state = 1;
  const StepExecutor jittery = [&](const ComputationDag& d, const ClockPlan& plan) {
    std::vector<Nanoseconds> durations = plan_durations(d, plan);
    for (Nanoseconds& duration : durations) {
      state = state * 1664525u + 1013904223u;
      duration += duration * static_cast<Nanoseconds>(state >> 24) / 12'800;
    }
    const Timeline timeline = emulate(d, durations);
    return ExecutedStep{timeline.start, timeline.finish};
  };
  const PlannerResult result = make_envpipe(EnvPipeOptions{}, jittery)->plan(problem, nullptr);
  const FrontierPoint base = replay(dag, problem.blocking, ClockPlan(at(dag.size()), 0));
  EXPECT_LT(static_cast<double>(result.frontier.points()[0].time), 1.03 * static_cast<double>(base.time));
  EXPECT_LT(result.frontier.points()[0].net_joules, base.net_joules);
}

}  // namespace
}  // namespace flyball
