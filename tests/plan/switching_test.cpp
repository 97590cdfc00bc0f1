#include "plan/switching.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "base/index.h"
#include "pipeline/late_clocks.h"
#include "plan/envpipe.h"
#include "plan/stage_clock.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using testing::dag_of;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::find_operation;
using testing::modelled_profile;
using testing::operation;
using testing::problem_of;
using testing::profile_of;

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr Nanoseconds kMillisecond = 1'000'000;

// Three like operations on one stage: 1 s and 400 J at 300 MHz, 1.5 s and 350 J at 200 MHz.
ComputationDag three_operations() {
  const std::vector<OperationType> types = {
      {0, "forward", operation(0, "", {{300, 1.0, 400}, {200, 1.5, 350}}).options, true}};
  return {"test", 1, types, {{0, 0, 0}, {0, 1, 0}, {0, 2, 0}}, {{0, 1}, {1, 2}}};
}

// Fast, slow, fast takes 3.5 s. The stage is never blocked, so energy is that of the operations: 400 + 350 + 400 J and
// a little for 0.1 s at the wrong clock twice. Slowing the others down takes 4.5 s, speeding the middle one up 1200 J.
TEST(Switching, KeepsChangesThatPay) {
  const ComputationDag dag = three_operations();
  const PlanProblem problem = problem_of(dag);
  EXPECT_THAT(reduce_switches(problem, {0, 1, 0}, 35 * kSecond / 10, 100 * kMillisecond, 0), ElementsAre(0, 1, 0));
}

TEST(Switching, MergesWhereTheDeadlineAllows) {
  const ComputationDag dag = three_operations();
  const PlanProblem problem = problem_of(dag);
  EXPECT_THAT(reduce_switches(problem, {0, 1, 0}, 45 * kSecond / 10, 100 * kMillisecond, 0), Each(1));
  // A nanosecond less does not do.
  EXPECT_THAT(reduce_switches(problem, {0, 1, 0}, 45 * kSecond / 10 - 1, 100 * kMillisecond, 0), ElementsAre(0, 1, 0));
}

// The slow run lasts 1.45 s, the fast one from the third operation's start to the second of the next iteration.
TEST(Switching, DwellIsMeasuredAroundTheIterationsEnd) {
  const ComputationDag dag = three_operations();
  const PlanProblem problem = problem_of(dag);
  const ClockPlan plan = {0, 1, 0};
  EXPECT_EQ(shortest_dwell(problem, plan, 100 * kMillisecond), 1450 * kMillisecond);
  const Nanoseconds deadline = 35 * kSecond / 10;
  EXPECT_EQ(reduce_switches(problem, plan, deadline, 100 * kMillisecond, 1450 * kMillisecond), plan);
  // Only the fast clock keeps the deadline.
  EXPECT_THAT(reduce_switches(problem, plan, deadline, 100 * kMillisecond, 1451 * kMillisecond), Each(0));
  EXPECT_EQ(shortest_dwell(problem, {0, 0, 0}, 100 * kMillisecond), 3 * kSecond);
}

// Two stages, two microbatches; stage 0 runs F0 at 300, F1 at 100, B0 at 200 and B1 at 300 MHz, which fits its bubbles:
// B0 runs from 4 to 7 s, B1 until 9 s. With changes that take 0.5 s, B0 runs an eighth of its work at 100 MHz and ends
// 0.125 s late, B1 a sixth at 200 MHz and ends 0.167 s later still.
//   - F1 to 200 MHz: net of 75 W 57.5 J for 0.125 s. B0 to 300 MHz: 175 J for 0.167 s. The first is cheaper per second.
//   - B1 still ends 0.167 s late: B0 to 300 MHz; it now has a second to bear the change that it asks for.
//   - That is enough for a change from 100 MHz, too, by which B0 ends at 6.25 s: F1 goes back.
TEST(Switching, ChangesEarlierToKeepTheDeadline) {
  std::vector<OperationProfile> operations;
  for (int s = 0; s < 2; ++s) {
    operations.push_back(operation(s, "forward", {{300, 1.0, 400}, {200, 1.5, 350}, {100, 2.0, 330}}));
    operations.push_back(operation(s, "backward", {{300, 2.0, 800}, {200, 3.0, 700}, {100, 4.0, 660}}));
  }
  const Profile profile = profile_of(operations);
  const ComputationDag dag = dag_of(profile, 2);
  const PlanProblem problem = problem_of(dag);
  const std::size_t f1 = at(find_operation(dag, 0, "forward", 1));
  const std::size_t b0 = at(find_operation(dag, 0, "backward", 0));
  ClockPlan plan(at(dag.size()), 0);
  plan[f1] = 2;
  plan[b0] = 1;
  ASSERT_EQ(replay(dag, problem.blocking, plan).time, 9 * kSecond);
  ASSERT_EQ(emulate_switching(dag, plan, problem.blocking, kSecond / 2).makespan, 9'291'666'667);
  ASSERT_EQ(count_switches(dag, plan), 3);

  const ClockPlan reduced = reduce_switches(problem, plan, 9 * kSecond, kSecond / 2, 0);
  ClockPlan expected(at(dag.size()), 0);
  expected[f1] = 2;
  EXPECT_EQ(reduced, expected);
  EXPECT_EQ(emulate_switching(dag, reduced, problem.blocking, kSecond / 2).makespan, 9 * kSecond);
  EXPECT_EQ(count_switches(dag, reduced), 2);

  // Where there is time, the late B1 does not matter.
  const ClockPlan relaxed = reduce_switches(problem, plan, 9'300'000'000, kSecond / 2, 0);
  EXPECT_LE(emulate_switching(dag, relaxed, problem.blocking, kSecond / 2).energy.total(),
            emulate_switching(dag, plan, problem.blocking, kSecond / 2).energy.total());
}

TEST(Switching, LeavesAloneWhatSharesNoClock) {
  const std::vector<OperationType> types = {
      {0, "forward", operation(0, "", {{300, 1.0, 400}, {200, 1.5, 350}}).options, true},
      {0, "backward", operation(0, "", {{310, 2.0, 800}, {210, 3.0, 700}}).options, true}};
  const ComputationDag dag("test", 1, types, {{0, 0, 0}, {1, 0, 0}}, {{0, 1}});
  const PlanProblem problem = problem_of(dag);
  EXPECT_THAT(reduce_switches(problem, {0, 1}, kSecond, 100 * kMillisecond, 100 * kSecond), ElementsAre(0, 1));
}

TEST(Switching, NothingToDoWithoutChoices) {
  const std::vector<OperationType> types = {{0, "forward", operation(0, "", {{300, 1.0, 400}}).options, true}};
  const ComputationDag dag("test", 1, types, {{0, 0, 0}, {0, 1, 0}}, {{0, 1}});
  const PlanProblem problem = problem_of(dag);
  EXPECT_THAT(reduce_switches(problem, {0, 0}, kSecond, kSecond, kSecond), Each(0));
  EXPECT_EQ(shortest_dwell(problem, {0, 0}, kSecond), 2 * kSecond);
}

struct Shape {
  std::vector<double> forward_seconds;
  int microbatches;
  bool transfers;
};

// Random plans, good and bad, under random latencies and dwell times: the guarantees of the header.
TEST(Switching, KeepsItsGuaranteesOnRandomPlans) {
  std::mt19937 random(11);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  const std::vector<Shape> shapes = {{{0.02, 0.02}, 4, false}, {{0.03, 0.02, 0.025}, 6, true}, {{0.05}, 5, false}};
  for (int round = 0; round < 60; ++round) {
    const Shape& shape = shapes[below(3)];
    const Profile profile = modelled_profile(shape.forward_seconds);
    PipelineSpec spec;
    spec.microbatches = shape.microbatches;
    if (shape.transfers) spec.p2p = ConstantOperation{Seconds(0.001), Joules(0)};
    const ComputationDag dag = build_dag(spec, profile);
    const PlanProblem problem = problem_of(dag);
    // The modelled options save net energy down to the lowest clock.
    const std::uint32_t options = 4 + below(20);
    const bool sticky = below(2) == 0;
    ClockPlan plan;
    for (int i = 0; i < dag.size(); ++i) {
      if (dag.type_of(i).options.size() == 1) {
        plan.push_back(0);
      } else if (sticky && i > 0 && below(3) > 0 && plan.back() < dag.type_of(i).options.size()) {
        plan.push_back(plan.back());
      } else {
        plan.push_back(static_cast<std::uint16_t>(below(options)));
      }
    }
    // Operations take 20 to 200 ms.
    const Nanoseconds latency = below(3) == 0 ? 0 : 1 + below(below(3) == 0 ? 300 : 30) * kMillisecond;
    const Nanoseconds min_dwell = below(2) == 0 ? 0 : below(200) * kMillisecond;
    const Nanoseconds planned = replay(dag, problem.blocking, plan).time;
    const Nanoseconds deadline = planned * (95 + below(15)) / 100;
    SCOPED_TRACE(::testing::Message() << "round " << round);

    const ClockPlan reduced = reduce_switches(problem, plan, deadline, latency, min_dwell);
    const SwitchedRun before = emulate_switching(dag, plan, problem.blocking, latency);
    const SwitchedRun after = emulate_switching(dag, reduced, problem.blocking, latency);
    EXPECT_LE(count_switches(dag, reduced), count_switches(dag, plan));
    EXPECT_LE(after.longest, std::max(deadline, planned));
    EXPECT_GE(shortest_dwell(problem, reduced, latency), std::min(min_dwell, after.makespan));
    if (min_dwell == 0 && before.longest <= std::max(deadline, planned)) {
      EXPECT_LE(after.energy.total(), before.energy.total());
    }
    EXPECT_EQ(reduce_switches(problem, plan, deadline, latency, min_dwell), reduced);
  }
}

// A plan that ends no later than the baseline keeps that when its changes are charged.
TEST(Switching, EnvPipeKeepsItsSpeedWithSlowClockChanges) {
  const Profile profile = modelled_profile({0.020, 0.022, 0.020, 0.023});
  const ComputationDag dag = dag_of(profile, 16);
  PlanProblem problem = problem_of(dag);
  const PlannerResult result = make_envpipe(EnvPipePolicy::kBalanced)->plan(problem, nullptr);
  problem.dag = &result.dag_of(problem);
  const ClockPlan plan = result.frontier.plan(0);
  const Nanoseconds time = result.frontier.points()[0].time;
  const SwitchedRun charged = emulate_switching(*problem.dag, plan, problem.blocking, 10 * kMillisecond);
  ASSERT_GT(charged.makespan, time);
  const ClockPlan reduced = reduce_switches(problem, plan, time, 10 * kMillisecond, 50 * kMillisecond);
  const SwitchedRun after = emulate_switching(*problem.dag, reduced, problem.blocking, 10 * kMillisecond);
  EXPECT_LE(after.makespan, time);
  EXPECT_LT(count_switches(*problem.dag, reduced), count_switches(*problem.dag, plan));
  const ClockPlan fastest(plan.size(), 0);
  EXPECT_LT(
      after.energy.total(),
      energy_of(*problem.dag, fastest, replay(*problem.dag, problem.blocking, fastest).time, problem.blocking).total());
}

}  // namespace
}  // namespace flyball
