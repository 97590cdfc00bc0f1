#include "plan/switching.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/index.h"
#include "pipeline/late_clocks.h"
#include "plan/envpipe.h"
#include "plan/perseus.h"
#include "plan/stage_clock.h"
#include "plan/summary.h"
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

// The front for one deadline, of one plan.
std::vector<SwitchingPlan> front_of(const PlanProblem& problem, const ClockPlan& plan, const SwitchingTerms& terms) {
  return switching_fronts(problem, {{plan}}, terms).front();
}

// The plan of least energy that has no more changes than `plan`.
ClockPlan reduce_switches(const PlanProblem& problem, const ClockPlan& plan, Nanoseconds deadline, Nanoseconds latency,
                          Nanoseconds min_dwell) {
  const std::vector<SwitchingPlan> front = front_of(problem, plan, {deadline, latency, min_dwell});
  ClockPlan least = front.front().plan;
  for (const SwitchingPlan& one : front) {
    if (one.switches <= count_switches(*problem.dag, plan)) least = one.plan;
  }
  return least;
}

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

// The middle operation at 200 MHz: with a latency of 0.1 s it runs a tenth of its work at 300 MHz, then 0.9 * 1.5 s;
// the last one runs a fifteenth of its work at 200 MHz in 0.1 s, then 14/15 s. That is 1 + 1.45 + 1.0333 = 3.4833 s and
// 400 + (40 + 315) + (350 / 15 + 400 * 14 / 15) = 1151.67 J. Where changes may also take hold at once, it is 3.5 s.
TEST(Switching, ADeadlineIsKeptWithTheShortestLatencyToo) {
  const ComputationDag dag = three_operations();
  const PlanProblem problem = problem_of(dag);
  SwitchingTerms terms{3490 * kMillisecond, 100 * kMillisecond, 0};
  const auto front = [&] { return switching_fronts(problem, {{{0, 0, 0}, {0, 1, 0}}}, terms).front(); };
  const std::vector<SwitchingPlan> steady = front();
  ASSERT_EQ(steady.size(), 2u);
  EXPECT_EQ(steady[1].longest, 3'483'333'333);
  EXPECT_NEAR(steady[1].energy.value(), 1151.667, 1e-3);
  terms.spread = 100 * kMillisecond;
  EXPECT_EQ(front().size(), 1u);
  terms.deadline = 3500 * kMillisecond;
  const std::vector<SwitchingPlan> uncertain = front();
  ASSERT_EQ(uncertain.size(), 2u);
  EXPECT_EQ(uncertain[1].longest, 3500 * kMillisecond) << "the longer of both";
  EXPECT_NEAR(uncertain[1].energy.value(), 1151.667, 1e-3) << "with the longest latency";
}

// In 3 s only the highest clock ends; in 4.5 s the lowest does, without a change, for 3 * 350 J. In a little less, two
// of the three operations can be slow, as in the plan that a planner has found for that.
TEST(Switching, LaterDeadlinesHaveFrontsOfTheirOwn) {
  const ComputationDag dag = three_operations();
  const PlanProblem problem = problem_of(dag);
  const SwitchingTerms terms{3 * kSecond, 0, 0, 0, 0, {4499 * kMillisecond, 4500 * kMillisecond}};
  const auto fronts = switching_fronts(problem, {{{0, 0, 0}}, {{0, 1, 1}}, {}}, terms);
  ASSERT_EQ(fronts.size(), 3u);
  ASSERT_EQ(fronts[0].size(), 1u);
  EXPECT_THAT(fronts[0][0].plan, Each(0));
  ASSERT_EQ(fronts[2].size(), 1u);
  EXPECT_THAT(fronts[2][0].plan, Each(1));
  EXPECT_EQ(fronts[2][0].energy, Joules(1050));
  for (const SwitchingPlan& one : fronts[1]) EXPECT_LE(one.longest, 4499 * kMillisecond);
  EXPECT_EQ(fronts[1].front().switches, 0);
  EXPECT_EQ(fronts[1].back().energy, Joules(400 + 2 * 350));
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

// Stage 1 sets the pace, at one clock: its forwards take 2 s, its backwards 4 s. Stage 0, at 300 MHz, runs F0 0-1 s, F1
// 1-2, B0 7-9, F2 9-10, B1 13-15, F3 15-16, B2 19-21 and B3 25-27 s, of which stage 1 waits for F0 alone, and nobody
// but the iteration's end for B3.
class SlackInTheMiddle : public ::testing::Test {
 protected:
  static Profile profile() {
    return profile_of({operation(0, "forward", {{300, 1.0, 400}, {200, 1.5, 350}}),
                       operation(0, "backward", {{300, 2.0, 800}, {200, 3.0, 700}}),
                       operation(1, "forward", {{300, 2.0, 800}}), operation(1, "backward", {{300, 4.0, 1600}})});
  }
  static std::string clocks_of(const ComputationDag& dag, const ClockPlan& plan) {
    std::string clocks;
    for (const int i : dag.stage_order(0)) clocks += plan[at(i)] == 0 ? 'H' : 'L';
    return clocks;
  }

  const ComputationDag dag_ = dag_of(profile(), 4);
  const PlanProblem problem_ = problem_of(dag_);
  const ClockPlan high_ = ClockPlan(at(dag_.size()), 0);
};

// All but F0 and B3 could be slow. With changes that take 0.1 s, B3 asks in time if it finds the clock of B2. At 75 W
// of waiting, a slow forward saves 50 + 37.5 J, a slow backward 100 + 75 J: F1, F2, F3, B0 and B1 612.5 J. A tenth of
// F1 still runs at the high clock (8.75 J less), a thirtieth of B2 at the low one (5.833 J more).
TEST_F(SlackInTheMiddle, TakesTwoChanges) {
  const std::vector<SwitchingPlan> front = front_of(problem_, high_, {27 * kSecond, 100 * kMillisecond, 0});
  ASSERT_EQ(front.size(), 2u);
  EXPECT_EQ(front[0].switches, 0);
  EXPECT_EQ(front[0].plan, high_);
  EXPECT_EQ(front[1].switches, 2);
  EXPECT_EQ(clocks_of(dag_, front[1].plan), "HLLLLLHH");
  EXPECT_EQ(front[1].longest, 27 * kSecond);
  EXPECT_NEAR((front[0].energy - front[1].energy).value(), 609.583, 0.001);
  EXPECT_EQ(few_changes(problem_, front), 1u);
}

// One stage; a forward of 1 s and 400 J or 1.5 s and 420 J, a backward of 1 s and 100 J. Without a straggler fast is
// better. One of 3 s leaves 1 s of waiting at 75 W to the fast plan, 0.5 s to the slow one: 575 J against 557.5 J.
TEST(Switching, ChargesTheWaitForAStraggler) {
  const Profile profile = profile_of(
      {operation(0, "forward", {{300, 1.0, 400}, {200, 1.5, 420}}), operation(0, "backward", {{300, 1.0, 100}})});
  const ComputationDag dag = dag_of(profile, 1);
  const PlanProblem problem = problem_of(dag);
  ClockPlan plan(2, 0);
  for (int i = 0; i < 2; ++i) plan[at(i)] = dag.type_of(i).options.size() > 1 ? 1 : 0;
  const auto best = [&](Nanoseconds waits_until) {
    return front_of(problem, plan, {3 * kSecond, 10 * kMillisecond, 0, waits_until}).back();
  };
  EXPECT_NEAR(best(0).energy.value(), 500, 1e-9);
  EXPECT_NEAR(best(3 * kSecond).energy.value(), 557.5, 1e-9);
  EXPECT_EQ(best(3 * kSecond).plan, plan);
}

// Two runs, of which the other one's middle operation lasts longer than the dwell time: the run cannot grow over all.
TEST(Switching, ARunDoesNotGrowIntoBothEndsOfTheOther) {
  std::vector<double> forward(8, 0.010);
  const ComputationDag dag = dag_of(modelled_profile(forward), 2);
  const PlanProblem problem = problem_of(dag);
  ClockPlan plan(at(dag.size()), 0);
  plan[at(dag.stage_order(0).back())] = 1;
  const Nanoseconds time = replay(dag, problem.blocking, plan).time;
  for (Nanoseconds dwell = 10 * kMillisecond; dwell < time; dwell += 10 * kMillisecond) {
    for (const SwitchingPlan& one : front_of(problem, plan, {2 * time, 0, dwell})) {
      const SwitchedRun run = emulate_switching(dag, one.plan, problem.blocking, 0);
      EXPECT_NEAR(run.energy.total().value(), one.energy.value(), 1e-9) << dwell;
      EXPECT_EQ(shortest_dwell(problem, one.plan, 0), one.dwell) << dwell;
    }
  }
}

TEST_F(SlackInTheMiddle, TellsWhatHasOneClock) {
  EXPECT_EQ(one_clock_per(dag_, high_), OneClockPer::kStage);
  ClockPlan plan = high_;
  const auto slow = [&](const std::string& instruction, int count) {
    for (const int i : dag_.stage_order(0)) {
      if (dag_.type_of(i).instruction == instruction && count-- > 0) plan[at(i)] = 1;
    }
  };
  slow("forward", 4);
  EXPECT_EQ(one_clock_per(dag_, plan), OneClockPer::kInstruction);
  slow("backward", 3);
  EXPECT_EQ(one_clock_per(dag_, plan), OneClockPer::kComputation);
  slow("backward", 4);
  EXPECT_EQ(one_clock_per(dag_, plan), OneClockPer::kStage);
}

// 0.3 % of the energy at maximum clocks: of 4 forwards of 400 J and 4 backwards of 800 J on stage 0, of 4 of 800 J and
// 4 of 1600 J on stage 1, and of 15 and 3 s of waiting at 75 W: 15750 J, of which 47.25 J.
TEST_F(SlackInTheMiddle, ChangesMustBeWorthTheirRisk) {
  const auto with = [](int switches, double joules) {
    return SwitchingPlan{{}, switches, 27 * kSecond, Joules(joules), kSecond};
  };
  EXPECT_EQ(few_changes(problem_, {with(0, 1048.0), with(2, 1047.2), with(9, 1000.0)}), 1u);
  EXPECT_EQ(few_changes(problem_, {with(0, 1047.2), with(2, 1040.0), with(9, 1000.0)}), 0u);
}

// F0 and B3 at the low clock take 1.5 s longer; then no change is worth anything.
TEST_F(SlackInTheMiddle, TakesNoneWhereThereIsTime) {
  const std::vector<SwitchingPlan> front = front_of(problem_, high_, {28'500'000'000, 100 * kMillisecond, 0});
  ASSERT_EQ(front.size(), 1u);
  EXPECT_EQ(front[0].switches, 0);
  EXPECT_EQ(clocks_of(dag_, front[0].plan), "LLLLLLLL");
}

// What is possible with a longer dwell time is possible with a shorter one.
TEST(Switching, ALongerDwellTimeIsNeverCheaper) {
  const ComputationDag dag = dag_of(modelled_profile({0.020, 0.022, 0.020, 0.023}), 16);
  const PlanProblem problem = problem_of(dag);
  const Nanoseconds time = replay(dag, problem.blocking, max_clock_plan(problem)).time;
  const ClockPlan plan = [&] {
    const Frontier frontier = make_perseus()->plan(problem, nullptr).frontier;
    return frontier.plan(frontier.lookup(time));
  }();
  Joules last;
  for (const int dwell : {0, 10, 20, 50, 100, 200, 500}) {
    const std::vector<SwitchingPlan> front = front_of(problem, plan, {time, 7 * kMillisecond, dwell * kMillisecond});
    EXPECT_LE(front.back().longest, time) << dwell;
    EXPECT_GE(front.back().dwell, std::min(dwell * kMillisecond, front.back().longest)) << dwell;
    EXPECT_GE(front.back().energy, last) << dwell;
    last = front.back().energy;
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
