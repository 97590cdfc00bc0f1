#include "plan/executed_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/index.h"
#include "plan/envpipe.h"
#include "plan/stage_clock.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using testing::dag_of;
using ::testing::Eq;
using testing::modelled_profile;
using testing::operation;
using testing::problem_of;
using testing::profile_of;

// What the stages measure of an executed step, each on a clock that is ahead by so much.
std::vector<std::vector<MeasuredTimes>> measured(const ComputationDag& dag, const ExecutedStep& step,
                                                 const std::vector<Nanoseconds>& ahead) {
  std::vector<std::vector<MeasuredTimes>> stages(at(dag.stages()));
  for (int stage = 0; stage < dag.stages(); ++stage) {
    for (const int i : measured_operations(dag, stage)) {
      stages[at(stage)].push_back({step.start[at(i)] + ahead[at(stage)], step.finish[at(i)] + ahead[at(stage)]});
    }
  }
  return stages;
}

// As soon as possible, but a message between stages takes `latency`, down the pipeline, or `back`, up.
ExecutedStep with_latency(const ComputationDag& dag, const ClockPlan& plan, Nanoseconds down, Nanoseconds up) {
  const std::vector<Nanoseconds> durations = plan_durations(dag, plan);
  ExecutedStep step{std::vector<Nanoseconds>(durations.size()), std::vector<Nanoseconds>(durations.size())};
  for (int i = 0; i < dag.size(); ++i) {
    Nanoseconds start = 0;
    for (const int p : dag.predecessors(i)) {
      const int stages = dag.type_of(i).stage - dag.type_of(p).stage;
      const Nanoseconds latency = stages > 0 ? down : stages < 0 ? up : 0;
      start = std::max(start, step.finish[at(p)] + latency);
    }
    step.start[at(i)] = start;
    step.finish[at(i)] = start + durations[at(i)];
  }
  return step;
}

TEST(ExecutedStep, StagesWithClocksOfTheirOwnAreJoined) {
  const Profile profile = modelled_profile({0.030, 0.034, 0.031, 0.036});
  const ComputationDag dag = dag_of(profile, 8);
  const ClockPlan plan = plan_of_types(dag, valley_options(dag));
  const ExecutedStep emulated = emulate_step(dag, plan);
  const ExecutedStep joined = join_stages(dag, measured(dag, emulated, {0, 5'000'000'000, -3'000'000'000'000, 17}));
  EXPECT_THAT(joined.start, Eq(emulated.start));
  EXPECT_THAT(joined.finish, Eq(emulated.finish));
  // Messages that take as long both ways change nothing about it.
  const ExecutedStep delayed = with_latency(dag, plan, 400'000, 400'000);
  EXPECT_THAT(join_stages(dag, measured(dag, delayed, {0, -7, 1'000'000'000, 9})).start, Eq(delayed.start));
}

// 0.6 ms down, 0.2 ms up: the clock of every further stage is taken to be half the difference, 0.2 ms, later than it
// is. Waits for messages, some milliseconds, still tell which way the critical path goes.
TEST(ExecutedStep, UnequalLatenciesShiftByHalfTheirDifference) {
  const Profile profile = modelled_profile({0.030, 0.034, 0.031, 0.036});
  const ComputationDag dag = dag_of(profile, 8);
  const ClockPlan plan = plan_of_types(dag, valley_options(dag));
  const ExecutedStep delayed = with_latency(dag, plan, 600'000, 200'000);
  const ExecutedStep joined = join_stages(dag, measured(dag, delayed, {0, 0, 0, 0}));
  for (int i = 0; i < dag.size(); ++i) {
    EXPECT_EQ(joined.start[at(i)], delayed.start[at(i)] - Nanoseconds{200'000} * dag.type_of(i).stage);
  }
  EXPECT_THAT(find_critical_path(dag, joined), Eq(find_critical_path(dag, delayed)));
}

// The last stage sends its first chunk's activations to the first one, which has other work until it needs them: the
// shortest delay of this link is no transfer, and tells nothing of the clocks.
TEST(ExecutedStep, StagesOfAnInterleavedScheduleAreJoinedByLinksThatAreWaitedFor) {
  PipelineSpec spec;
  spec.schedule = ScheduleKind::kInterleaved1f1b;
  spec.microbatches = 8;
  spec.chunks = 2;
  const ComputationDag dag = build_dag(spec, modelled_profile({0.030, 0.030, 0.036, 0.032}));
  const ClockPlan plan = plan_of_types(dag, valley_options(dag));
  const ExecutedStep delayed = with_latency(dag, plan, 1'500'000, 1'500'000);
  EXPECT_THAT(join_stages(dag, measured(dag, delayed, {0, -7, 1'000'000'000, 9})).start, Eq(delayed.start));
}

// Transfers and the optimizer are in the DAG, but nobody measures them.
TEST(ExecutedStep, WhatIsNotMeasuredFollowsAtOnce) {
  std::vector<OperationProfile> operations;
  for (int stage = 0; stage < 2; ++stage) {
    operations.push_back(operation(stage, "forward", {{300, 0.010, 5}, {200, 0.015, 4}}));
    operations.push_back(operation(stage, "backward", {{300, 0.020, 10}, {200, 0.030, 8}}));
    operations.push_back(operation(stage, "p2p", {{300, 0.001, 0.1}}));
    operations.push_back(operation(stage, "optimizer_step", {{300, 0.004, 1}}));
  }
  const Profile profile = profile_of(std::move(operations));
  const ComputationDag dag = dag_of(profile, 4);
  const ExecutedStep emulated = emulate_step(dag, ClockPlan(at(dag.size()), 0));
  const auto stages = measured(dag, emulated, {0, 1'000'000});
  EXPECT_EQ(stages[0].size(), 8u);
  const ExecutedStep joined = join_stages(dag, stages);
  for (int i = 0; i < dag.size(); ++i) {
    if (dag.type_of(i).options.size() > 1) EXPECT_EQ(joined.start[at(i)], emulated.start[at(i)]);
    for (const int p : dag.predecessors(i)) EXPECT_GE(joined.start[at(i)], joined.finish[at(p)]);
  }
}

// The planner's own result, whether its steps are emulated or measured by stages with clocks of their own.
TEST(Reconfiguration, LearnsTheSameFromMeasuredSteps) {
  const Profile profile = modelled_profile({0.030, 0.034, 0.031, 0.036});
  const ComputationDag dag = dag_of(profile, 8);
  const PlanProblem problem = problem_of(dag);
  const auto planner = make_envpipe(EnvPipeOptions{EnvPipePolicy::kNoReconfigure, false, {}});
  const ClockPlan first = planner->plan(problem, {}).frontier.plan(0);
  Reconfiguration reconfiguration(problem, EnvPipePolicy::kBalanced, first);
  EXPECT_EQ(reconfiguration.progress(), 0.0);
  while (reconfiguration.status() == ReconfigureStatus::kRunning) {
    const ExecutedStep step = emulate_step(dag, reconfiguration.plan());
    const double progress = reconfiguration.progress();
    reconfiguration.learn(join_stages(dag, measured(dag, step, {0, 123'456'789, -987'654'321, 5})));
    EXPECT_GE(reconfiguration.progress(), progress);
  }
  const Reconfigured emulated = reconfigure(problem, EnvPipePolicy::kBalanced, first, emulate_step, {});
  EXPECT_GT(emulated.steps, 3);
  EXPECT_EQ(reconfiguration.steps(), emulated.steps);
  EXPECT_EQ(reconfiguration.status(), emulated.status);
  EXPECT_THAT(reconfiguration.plan(), Eq(emulated.plan));
  EXPECT_NE(emulated.plan, first);
  // Nothing is learnt once it is over.
  EXPECT_EQ(reconfiguration.learn(emulate_step(dag, first)), emulated.status);
  EXPECT_EQ(reconfiguration.steps(), emulated.steps);
}

}  // namespace
}  // namespace flyball
