#include "pipeline/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/index.h"
#include "pipeline/late_clocks.h"
#include "support/small_pipelines.h"

namespace flyball {
namespace {

Timeline at_max_clocks(const ComputationDag& dag) { return emulate(dag, plan_durations(dag, same_clock_plan(dag, 0))); }

Nanoseconds max_clock_time(ScheduleKind kind, int stages, int microbatches, const std::vector<Timed>& operations,
                           int chunks = 1) {
  return at_max_clocks(scheduled_dag(kind, uniform_profile(stages, operations), microbatches, chunks)).makespan;
}

// Digits are forwards (1 ms), letters backwards (2 ms).
TEST(Timeline, DrawsGpipe) {
  const ComputationDag dag =
      scheduled_dag(ScheduleKind::kGpipe, uniform_profile(2, {{"forward", 1}, {"backward", 2}}), 2);
  EXPECT_EQ(show(dag, at_max_clocks(dag)),
            "01...bbaa\n"
            ".01bbaa..\n");
}

TEST(Timeline, Draws1f1b) {
  const ComputationDag dag =
      scheduled_dag(ScheduleKind::k1f1b, uniform_profile(2, {{"forward", 1}, {"backward", 2}}), 3);
  EXPECT_EQ(show(dag, at_max_clocks(dag)),
            "01..aa2bb.cc\n"
            ".0aa1bb2cc..\n");
}

TEST(Timeline, SlackOfOneOperation) {
  // In the picture above F1 of stage 0 ends at 2 and must end by 4, when F1 of stage 1 begins; B1 of stage 0 ends at 9
  // and must end by 10, when B2 begins. F2 of stage 0 ends just when F2 of stage 1 begins: all others are critical.
  const ComputationDag dag =
      scheduled_dag(ScheduleKind::k1f1b, uniform_profile(2, {{"forward", 1}, {"backward", 2}}), 3);
  const Timeline timeline = at_max_clocks(dag);
  for (int i = 0; i < dag.size(); ++i) {
    const auto node = static_cast<std::size_t>(i);
    const std::string label = dag.label(i);
    const Nanoseconds slack = label == "F1 stage 0" ? 2 * kMillisecond : label == "B1 stage 0" ? kMillisecond : 0;
    EXPECT_EQ(timeline.latest_start[node] - timeline.start[node], slack) << label;
    EXPECT_EQ(timeline.critical(i), slack == 0) << label;
  }
}

TEST(Timeline, IterationTimesArePublishedFormulas) {
  // p stages, m microbatches, all stages alike: the bubble of GPipe and 1F1B is (p - 1)(f + b).
  for (int p = 1; p <= 6; ++p) {
    for (int m = p; m <= 12; ++m) {
      const Nanoseconds expected = 3 * kMillisecond * (m + p - 1);
      EXPECT_EQ(max_clock_time(ScheduleKind::kGpipe, p, m, {{"forward", 1}, {"backward", 2}}), expected);
      EXPECT_EQ(max_clock_time(ScheduleKind::k1f1b, p, m, {{"forward", 1}, {"backward", 2}}), expected);
      // ZB-H1's is (p - 1)(f + b - w) with b the activations' and w the weights' gradient (ICLR'24, table 1).
      EXPECT_EQ(
          max_clock_time(ScheduleKind::kZbH1, p, m, {{"forward", 1}, {"backward_input", 1}, {"backward_weight", 1}}),
          (m * 3 + (p - 1)) * kMillisecond);
    }
  }
  // Interleaving v chunks divides the bubble by v (SC'21, section 2.2.2): f and b are a chunk's here.
  for (const int p : {2, 4}) {
    for (const int v : {2, 3}) {
      EXPECT_EQ(max_clock_time(ScheduleKind::kInterleaved1f1b, p, 2 * p, {{"forward", 1}, {"backward", 2}}, v),
                (2 * p * v * 3 + (p - 1) * 3) * kMillisecond);
    }
  }
}

TEST(Timeline, EarlyRecomputationHidesInBubbles) {
  // Recomputing inside the backward (2 + 1 ms) against before the gradient comes.
  const std::vector<Timed> hoisted = {{"forward", 1}, {"recompute", 1}, {"backward", 2}};
  for (int p = 2; p <= 5; ++p) {
    const Nanoseconds late = max_clock_time(ScheduleKind::k1f1b, p, 8, {{"forward", 1}, {"backward", 3}});
    EXPECT_LT(max_clock_time(ScheduleKind::kEarlyRecompute1f1b, p, 8, hoisted), late);
  }
}

std::vector<ComputationDag> random_dags(std::mt19937& random, int rounds) {
  std::vector<ComputationDag> dags;
  const std::vector<std::string> names = schedule_names();
  for (int round = 0; round < rounds; ++round) {
    const ScheduleKind kind = parse_schedule(names[static_cast<std::size_t>(round) % names.size()]);
    const int stages = 1 + static_cast<int>(random() % 5);
    const bool interleaved = kind == ScheduleKind::kInterleaved1f1b;
    const int microbatches =
        interleaved ? stages * (1 + static_cast<int>(random() % 3)) : 1 + static_cast<int>(random() % 8);
    const Profile profile =
        random_profile(random, stages, {"forward", "backward", "recompute", "backward_input", "backward_weight"},
                       1 + static_cast<int>(random() % 6));
    PipelineSpec spec;
    spec.schedule = kind;
    spec.microbatches = microbatches;
    spec.chunks = interleaved ? 2 : 1;
    if (round % 2 == 0) spec.p2p = ConstantOperation{Seconds(0.0005), {}};
    if (round % 3 == 0) spec.data_load = ConstantOperation{Seconds(0.001), Joules(0.1)};
    if (round % 5 == 0) spec.gradient_sync = ConstantOperation{Seconds(0.01), {}};
    if (round % 7 == 0) spec.optimizer_step = ConstantOperation{Seconds(0.02), Joules(3)};
    dags.push_back(build_dag(spec, profile));
  }
  return dags;
}

ClockPlan random_plan(std::mt19937& random, const ComputationDag& dag) {
  ClockPlan plan;
  for (int i = 0; i < dag.size(); ++i)
    plan.push_back(static_cast<std::uint16_t>(random() % dag.type_of(i).options.size()));
  return plan;
}

TEST(Timeline, AgreesWithTheSlowReference) {
  std::mt19937 random(11);
  for (const ComputationDag& dag : random_dags(random, 100)) {
    const std::vector<Nanoseconds> durations = plan_durations(dag, random_plan(random, dag));
    const Timeline timeline = emulate(dag, durations);
    EXPECT_EQ(timeline.makespan, slow_makespan(dag, durations));
    std::vector<Nanoseconds> scratch(durations.size());
    EXPECT_EQ(makespan(dag, durations, scratch), timeline.makespan);

    for (int i = 0; i < dag.size(); ++i) {
      const auto node = static_cast<std::size_t>(i);
      EXPECT_EQ(timeline.finish[node], timeline.start[node] + durations[node]);
      EXPECT_GE(timeline.latest_start[node], timeline.start[node]);
      for (const int s : dag.successors(i)) {
        EXPECT_LE(timeline.finish[node], timeline.start[static_cast<std::size_t>(s)]);
        EXPECT_LE(timeline.latest_start[node] + durations[node], timeline.latest_start[static_cast<std::size_t>(s)]);
      }
      // All of its slack may be used, and not a nanosecond more.
      std::vector<Nanoseconds> longer = durations;
      longer[node] += timeline.latest_start[node] - timeline.start[node];
      EXPECT_EQ(makespan(dag, longer, scratch), timeline.makespan);
      ++longer[node];
      EXPECT_EQ(makespan(dag, longer, scratch), timeline.makespan + 1);
    }
  }
}

TEST(Timeline, CriticalPathIsAPathAsLongAsTheIteration) {
  std::mt19937 random(12);
  for (const ComputationDag& dag : random_dags(random, 60)) {
    const std::vector<Nanoseconds> durations = plan_durations(dag, random_plan(random, dag));
    const Timeline timeline = emulate(dag, durations);
    const std::vector<int> path = critical_path(dag, timeline);
    Nanoseconds length = 0;
    for (std::size_t k = 0; k < path.size(); ++k) {
      EXPECT_TRUE(timeline.critical(path[k]));
      length += durations[static_cast<std::size_t>(path[k])];
      if (k == 0) continue;
      const auto before = dag.predecessors(path[k]);
      EXPECT_NE(std::find(before.begin(), before.end(), path[k - 1]), before.end());
    }
    EXPECT_EQ(length, timeline.makespan);
  }
}

TEST(Timeline, CriticalPathStaysOnItsStageWhereItCan) {
  // 01..aa2bb.cc   One stage with p = 1 has one path; with two alike stages the path that ends in stage 0's B2 comes
  // .0aa1bb2cc..   from stage 1's B2 and stays there until its F0.
  const ComputationDag dag =
      scheduled_dag(ScheduleKind::k1f1b, uniform_profile(2, {{"forward", 1}, {"backward", 2}}), 3);
  std::string text;
  for (const int i : critical_path(dag, at_max_clocks(dag))) text += dag.label(i) + ", ";
  EXPECT_EQ(text, "F0 stage 0, F0 stage 1, B0 stage 1, F1 stage 1, B1 stage 1, F2 stage 1, B2 stage 1, B2 stage 0, ");
}

// Perseus eq. 3 on the 1F1B picture above. 12 ms on 2 stages are 24 ms; operations take 2 * 3 * (1 + 2) = 18 ms and, at
// one joule per millisecond, 18 J. 6 ms of bubbles at 75 W are 0.45 J. A straggler of 20 ms makes both stages wait 8
// ms: 16 ms at 75 W are 1.2 J.
TEST(Energy, IsComputationBlockingAndStragglerWait) {
  const ComputationDag dag =
      scheduled_dag(ScheduleKind::k1f1b, uniform_profile(2, {{"forward", 1}, {"backward", 2}}), 3);
  const std::vector<Watts> blocking(2, Watts(75));
  const ClockPlan plan = same_clock_plan(dag, 0);
  const EnergyBreakdown alone = energy_of(dag, plan, 12 * kMillisecond, blocking);
  EXPECT_DOUBLE_EQ(alone.computation.value(), 18.0);
  EXPECT_NEAR(alone.blocking.value(), 0.45, 1e-12);
  EXPECT_EQ(alone.straggler_wait, Joules(0));
  const EnergyBreakdown waiting = energy_of(dag, plan, 12 * kMillisecond, blocking, 20 * kMillisecond);
  EXPECT_EQ(waiting.blocking, alone.blocking);
  EXPECT_NEAR(waiting.straggler_wait.value(), 1.2, 1e-12);
  EXPECT_NEAR(waiting.total().value(), 18.0 + 0.45 + 1.2, 1e-12);
  // A straggler that is faster than the pipeline is none.
  EXPECT_EQ(energy_of(dag, plan, 12 * kMillisecond, blocking, 11 * kMillisecond).straggler_wait, Joules(0));
}

// The same picture, "01..aa2bb.cc" over ".0aa1bb2cc..". Stage 0 waits 2 ms after a forward and 1 ms after a backward;
// stage 1 waits 1 ms after the last backward of the iteration before, and 2 ms after its own. At 10 and 20 W above 75 W
// that is 0.02 + 0.02 J and 0.02 + 0.04 J. The 8 ms for a straggler follow a backward on both: 0.32 J.
TEST(Energy, WaitingTakesMoreAtAHigherClock) {
  ComputationDag dag = scheduled_dag(ScheduleKind::k1f1b, uniform_profile(2, {{"forward", 1}, {"backward", 2}}), 3);
  const std::vector<Watts> blocking(2, Watts(75));
  const ClockPlan plan = same_clock_plan(dag, 0);
  for (std::size_t t = 0; t < dag.types().size(); ++t) {
    const bool forward = dag.types()[t].instruction == "forward";
    dag.set_waiting_above(t, std::vector<Watts>(dag.types()[t].options.size(), Watts(forward ? 10 : 20)));
  }
  const EnergyBreakdown energy = energy_of(dag, plan, 12 * kMillisecond, blocking, 20 * kMillisecond);
  EXPECT_DOUBLE_EQ(energy.computation.value(), 18.0);
  EXPECT_NEAR(energy.blocking.value(), 0.45 + 0.04 + 0.06, 1e-12);
  EXPECT_NEAR(energy.straggler_wait.value(), 1.2 + 0.32, 1e-12);
  const SwitchedRun at_once = emulate_switching(dag, plan, blocking, 0);
  EXPECT_NEAR(at_once.energy.total().value(), 18.0 + 0.55, 1e-12);
  EXPECT_NEAR(at_once.straggler_power.value(), 150 + 40, 1e-12);
}

// As above, with a change that takes hold while its stage waits: stage 0 asks at F1, at 1 ms, for a clock at which
// waiting takes nothing more; with 1.5 ms of latency it holds from 2.5 ms on, and of the wait from 2 to 4 ms 0.5 ms are
// at 10 W. B0 asks for the old clock again, the wait from 9 to 10 ms is at it. Stage 1 waits for 3 ms at 10 W. 5 + 10 +
// 30 mJ. An engine that asks as soon as the stage is free waits at the next clock: stage 0 for 2 ms and for 1 ms at
// 10 W, stage 1 for 3 ms as before, 20 + 10 + 30 mJ.
TEST(Energy, WaitingIsAtTheClockThatHoldsByThen) {
  const Profile profile = profile_of_rows(
      "0,forward,300,0.001,1\n0,forward,200,0.001,1\n0,backward,300,0.002,2\n0,backward,200,0.002,2\n"
      "1,forward,300,0.001,1\n1,forward,200,0.001,1\n1,backward,300,0.002,2\n1,backward,200,0.002,2\n"
      "0,waiting,300,1,85\n0,waiting,200,1,75\n1,waiting,300,1,85\n1,waiting,200,1,75\n");
  ComputationDag dag = scheduled_dag(ScheduleKind::k1f1b, profile, 3);
  dag.set_clocks_asked(ClocksAsked::kAtBegin);
  const std::vector<Watts> blocking(2, Watts(75));
  ClockPlan plan = same_clock_plan(dag, 0);
  plan[at(dag.stage_order(0)[1])] = 1;
  EXPECT_EQ(dag.label(dag.stage_order(0)[1]), "F1 stage 0");
  const SwitchedRun late = emulate_switching(dag, plan, blocking, 1'500'000);
  EXPECT_NEAR(late.energy.total().value(), 18.0 + 0.45 + 0.045, 1e-12);
  const SwitchedRun at_once = emulate_switching(dag, plan, blocking, 0);
  EXPECT_NEAR(at_once.energy.total().value(), 18.0 + 0.45 + 0.040, 1e-12);
  EXPECT_NEAR(energy_of(dag, plan, 12 * kMillisecond, blocking).total().value(), 18.0 + 0.45 + 0.040, 1e-12);
  dag.set_clocks_asked(ClocksAsked::kWhenFree);
  EXPECT_NEAR(energy_of(dag, plan, 12 * kMillisecond, blocking).total().value(), 18.0 + 0.45 + 0.060, 1e-12);
  const SwitchedRun when_free = emulate_switching(dag, plan, blocking, 0, ClocksAsked::kWhenFree);
  EXPECT_NEAR(when_free.energy.total().value(), 18.0 + 0.45 + 0.060, 1e-12);
}

// Loading of 1 ms before the only forward of 1 ms, 85 W of waiting at 300 MHz and 75 W at 200 MHz: it draws what
// waiting does at the clock of the backward before it, 0.085 or 0.075 J, unless its energy is stated.
TEST(Energy, LoadingDrawsWhatWaitingDoes) {
  const Profile profile = profile_of_rows(
      "0,forward,300,0.001,1\n0,forward,200,0.001,1\n0,backward,300,0.002,2\n0,backward,200,0.002,2\n"
      "0,waiting,300,1,85\n0,waiting,200,1,75\n");
  PipelineSpec spec;
  spec.microbatches = 1;
  const auto joules = [&](std::size_t option) {
    const ComputationDag dag = build_dag(spec, profile);
    const std::vector<Watts> blocking = spec.blocking_powers(1, profile);
    const ClockPlan plan = same_clock_plan(dag, option);
    const double at_once = emulate_switching(dag, plan, blocking, 0).energy.total().value();
    EXPECT_NEAR(energy_of(dag, plan, 4 * kMillisecond, blocking).total().value(), at_once, 1e-12);
    return at_once;
  };
  spec.data_load = ConstantOperation{Seconds(0.001)};
  EXPECT_NEAR(joules(0), 3.085, 1e-12);
  EXPECT_NEAR(joules(1), 3.075, 1e-12);
  spec.data_load = ConstantOperation{Seconds(0.001), Joules(0.5)};
  EXPECT_NEAR(joules(0), 3.5, 1e-12);
}

// Stages of different boards: stage 0 idles 3 ms of 12 (12 - 9) and so does stage 1; 3 ms * 100 W + 3 ms * 20 W.
TEST(Energy, EveryStageHasItsOwnBlockingPower) {
  const ComputationDag dag =
      scheduled_dag(ScheduleKind::k1f1b, uniform_profile(2, {{"forward", 1}, {"backward", 2}}), 3);
  const std::vector<Watts> blocking = {Watts(100), Watts(20)};
  EXPECT_NEAR(energy_of(dag, same_clock_plan(dag, 0), 12 * kMillisecond, blocking).blocking.value(), 0.36, 1e-12);
}

// One microbatch over two stages with transfers of 1 ms:  F . . . . . B B    (. blocked, the transfer is in it)
//                                                         . . F B B . . .
// 8 ms on 2 stages less 6 ms of computing leave 10 ms at 100 W: 1 J, and 6 J of computing. The transfers add no busy
// time, and no energy unless it is stated: 0.25 J each of two, the GPU's whole draw in a millisecond. In that the 0.1 J
// of waiting are contained: of the 10 ms 8 remain. Where a transfer is stated to draw less than waiting does, waiting
// counts.
TEST(Energy, TransfersAreChargedAsBlocking) {
  const Profile profile = uniform_profile(2, {{"forward", 1}, {"backward", 2}});
  PipelineSpec spec;
  spec.microbatches = 1;
  spec.p2p = ConstantOperation{Seconds(1e-3), {}};
  const std::vector<Watts> blocking(2, Watts(100));
  const ComputationDag dag = build_dag(spec, profile);
  const Timeline timeline = at_max_clocks(dag);
  EXPECT_EQ(show(dag, timeline),
            "0.....aa\n"
            "..0aa...\n");
  const EnergyBreakdown energy = energy_of(dag, same_clock_plan(dag, 0), timeline.makespan, blocking);
  EXPECT_NEAR(energy.computation.value(), 6.0, 1e-12);
  EXPECT_NEAR(energy.blocking.value(), 1.0, 1e-12);

  spec.p2p->energy = {Joules(0.25)};
  const ComputationDag dear = build_dag(spec, profile);
  const EnergyBreakdown measured = energy_of(dear, same_clock_plan(dear, 0), timeline.makespan, blocking);
  EXPECT_NEAR(measured.computation.value(), 6.5, 1e-12);
  EXPECT_NEAR(measured.blocking.value(), 0.8, 1e-12);
  EXPECT_NEAR(emulate_switching(dear, same_clock_plan(dear, 0), blocking, kMillisecond).energy.total().value(), 7.3,
              1e-12);

  spec.p2p->energy = {Joules(0.06)};
  const ComputationDag cheap = build_dag(spec, profile);
  EXPECT_NEAR(energy_of(cheap, same_clock_plan(cheap, 0), timeline.makespan, blocking).total().value(), 7.0, 1e-12);
}

TEST(Energy, IsConserved) {
  // Charging every stage for the whole iteration at its blocking power, plus each operation's draw above it, must give
  // the same total.
  std::mt19937 random(13);
  for (const ComputationDag& dag : random_dags(random, 60)) {
    const ClockPlan plan = random_plan(random, dag);
    const std::vector<Watts> blocking(static_cast<std::size_t>(dag.stages()), Watts(70));
    const Nanoseconds time = emulate(dag, plan_durations(dag, plan)).makespan;
    double expected = 70.0 * dag.stages() * to_seconds(time + 5 * kMillisecond).value();
    for (int i = 0; i < dag.size(); ++i) {
      const ClockOption& option = dag.type_of(i).options[plan[static_cast<std::size_t>(i)]];
      expected += option.energy.value();
      const double watts = dag.type_of(i).occupies_stage ? 70.0 : std::min(70.0, (option.energy / option.time).value());
      expected -= watts * to_seconds(to_nanoseconds(option.time)).value();
    }
    EXPECT_NEAR(energy_of(dag, plan, time, blocking, time + 5 * kMillisecond).total().value(), expected,
                1e-9 * expected);
  }
}

// One stage, one microbatch, forward then backward:
//            1000 MHz       500 MHz
//   forward  10 ms, 10 J    20 ms,  6 J
//   backward 20 ms, 20 J    40 ms, 12 J
class Switching : public testing::Test {
 protected:
  static constexpr std::uint16_t kFast = 0;
  static constexpr std::uint16_t kSlow = 1;
  const ComputationDag dag_ = scheduled_dag(ScheduleKind::k1f1b,
                                            profile_of_rows("0,forward,1000,0.010,10\n0,forward,500,0.020,6\n"
                                                            "0,backward,1000,0.020,20\n0,backward,500,0.040,12\n"),
                                            1);
  const std::vector<Watts> blocking_ = {Watts(100)};
};

TEST_F(Switching, TheStepIntoTheNextIterationCounts) {
  EXPECT_EQ(count_switches(dag_, {kFast, kFast}), 0);
  EXPECT_EQ(count_switches(dag_, {kSlow, kSlow}), 0);
  EXPECT_EQ(count_switches(dag_, {kFast, kSlow}), 2);
}

// The forward begins at the backward's 500 MHz. In 5 ms of its 20 ms there it does a quarter of its work, 1.5 J; the
// rest takes three quarters of 10 ms and 10 J: 12.5 ms, 9 J. The backward begins at 1000 MHz: 5 of 20 ms and 5 J for a
// quarter, 30 ms and 9 J for the rest: 35 ms, 14 J. No bubbles, hence no blocking.
TEST_F(Switching, WorkBeforeTheChangeRunsAtTheOldClock) {
  const SwitchedRun run = emulate_switching(dag_, {kFast, kSlow}, blocking_, 5 * kMillisecond);
  EXPECT_EQ(run.durations, (std::vector<Nanoseconds>{12'500'000, 35'000'000}));
  EXPECT_EQ(run.makespan, 47'500'000);
  EXPECT_NEAR(run.energy.computation.value(), 23.0, 1e-12);
  EXPECT_NEAR(run.energy.blocking.value(), 0.0, 1e-12);
}

// Changes that take 100 ms, from 500 MHz on:
//   1. The forward asks for 1000 MHz, which holds 100 ms later; it and the backward run at 500 MHz: 60 ms, 18 J.
//   2. The forward runs at 500 MHz, and half of the backward until 40 ms (20 ms, 6 J); then 1000 MHz holds. The
//      backward has asked for 500 MHz meanwhile, which the driver begins now. The other half takes 10 ms and 10 J: 50
//      ms, 22 J.
//   3. to 5. Everything runs at 1000 MHz, 30 ms and 30 J each; at the end of the fifth, 90 ms later, 500 MHz holds.
// Five iterations in 200 ms with 130 J.
TEST_F(Switching, AChangeMayOutlastTheIteration) {
  const SwitchedRun run = emulate_switching(dag_, {kFast, kSlow}, blocking_, 100 * kMillisecond);
  EXPECT_EQ(run.makespan, 40 * kMillisecond);
  EXPECT_NEAR(run.energy.computation.value(), 26.0, 1e-12);
  EXPECT_EQ(run.longest, 60 * kMillisecond);
  EXPECT_EQ(run.durations, (std::vector<Nanoseconds>{20 * kMillisecond, 40 * kMillisecond}));
}

// Eight like operations on one stage, 3 ms and 1.2 J at 1000 MHz, 6 ms and 0.9 J at 500 MHz; the first four are asked
// to run at 500 MHz. Free changes: 4 * 6 + 4 * 3 = 36 ms.
//
// 10 ms: 500 MHz holds after a third of the fourth, which then takes 1 + 4 ms; the fifth asks for 1000 MHz at 14 ms,
// which holds at 24 ms, after 4 of the sixth's 6 ms: 3+3+3+5+6+5+3+3 ms, and 2/3 + 1 + 2/3 of the work at 500 MHz.
//
// 25 ms: the changes take hold in the next iteration, so that two take turns:
//   - 500 MHz held; after 1 ms the 1000 MHz of before hold, and the 500 MHz asked for at 0 ms are begun, to hold at
//     26 ms: 1 + 2.5 ms and 7 * 3 ms are 24.5 ms with a sixth of an operation at 500 MHz.
//   - 1000 MHz hold until 1.5 ms, then 500 MHz; the fifth asks for 1000 MHz at 22.5 ms, which holds at 47.5 ms:
//     1.5 + 3 ms and 7 * 6 ms are 46.5 ms with 7.5 operations at 500 MHz, and 1 ms is left.
//
// 100 ms, from 1000 MHz on: four iterations of 24 ms; the first one's change holds 4 ms into the fifth, which takes
// 3 + 1 + 4 + 6 * 6 = 44 ms and asks for 1000 MHz at 20 ms; the sixth takes 48 ms; the seventh has its 1000 MHz after
// 28 ms, in the middle of its fifth operation: 5 * 6 - 1 + 3 * 3 = 38 ms. Then it begins anew. Seven iterations in 226
// ms with 2/3 + 6, 8 and 4 2/3 operations at 500 MHz.
TEST(SwitchingOfShortOperations, ALatencyOutlastsOperations) {
  const std::vector<ClockOption> options = {{Megahertz(1000), Seconds(0.003), Joules(1.2)},
                                            {Megahertz(500), Seconds(0.006), Joules(0.9)}};
  std::vector<Computation> computations;
  std::vector<ComputationDag::Edge> edges;
  for (std::int32_t i = 0; i < 8; ++i) {
    computations.push_back({0, i, 0});
    if (i > 0) edges.push_back({i - 1, i});
  }
  const ComputationDag dag("test", 1, {{0, "forward", options, true}}, computations, edges);
  const ClockPlan plan = {1, 1, 1, 1, 0, 0, 0, 0};
  const std::vector<Watts> blocking = {Watts(100)};
  const auto run = [&](Nanoseconds latency) { return emulate_switching(dag, plan, blocking, latency); };
  EXPECT_EQ(run(0).makespan, 36 * kMillisecond);
  EXPECT_EQ(run(10 * kMillisecond).durations,
            (std::vector<Nanoseconds>{3 * kMillisecond, 3 * kMillisecond, 3 * kMillisecond, 5 * kMillisecond,
                                      6 * kMillisecond, 5 * kMillisecond, 3 * kMillisecond, 3 * kMillisecond}));
  EXPECT_EQ(run(10 * kMillisecond).makespan, 31 * kMillisecond);
  EXPECT_NEAR(run(10 * kMillisecond).energy.total().value(), 8 * 1.2 - (2.0 / 3 + 1 + 2.0 / 3) * 0.3, 1e-9);
  EXPECT_EQ(run(25 * kMillisecond).makespan, 35'500'000);
  EXPECT_EQ(run(25 * kMillisecond).longest, 46'500'000);
  EXPECT_NEAR(run(25 * kMillisecond).energy.total().value(), 8 * 1.2 - (1.0 / 6 + 7.5) / 2 * 0.3, 1e-9);
  EXPECT_EQ(run(100 * kMillisecond).makespan, 32'285'714);  // 226 / 7
  EXPECT_NEAR(run(100 * kMillisecond).energy.total().value(), 8 * 1.2 - (2.0 / 3 + 6 + 8 + 4 + 2.0 / 3) / 7 * 0.3,
              1e-9);
}

ComputationDag one_microbatch_of_two_stages() {
  return scheduled_dag(
      ScheduleKind::k1f1b,
      profile_of_rows(
          "0,forward,1000,0.010,10\n0,forward,500,0.020,6\n0,backward,1000,0.005,8\n0,backward,500,0.010,6\n"
          "1,forward,1000,0.010,10\n1,backward,1000,0.002,10\n"),
      1);
}

// Stage 0 is asked to run its forward at 500 MHz (10 ms, 10 J at 1000 MHz, 20 ms, 6 J at 500) and its backward at 1000
// MHz (5 ms, 8 J; 10 ms, 6 J at 500); in between it waits 12 ms for stage 1. Changes take 18 ms. The backward of the
// iteration before has asked for 1000 MHz 10 ms before the end: they hold after 8 ms, two fifths of the forward, whose
// other three fifths take 6 ms and 6 J. Then the driver begins the forward's 500 MHz, which hold from 26 ms on, when
// the backward begins: it asks for 1000 MHz, too late, runs for 10 ms and leaves 8 ms to go. 36 ms: 2.4 + 6 + 6 + 20 J
// of computing, and 36 ms at 100 W of waiting on both stages.
TEST(SwitchingOfShortOperations, AChangeTakesHoldWhileTheStageWaits) {
  const ComputationDag dag = one_microbatch_of_two_stages();
  ClockPlan plan = same_clock_plan(dag, 0);
  plan[0] = 1;  // stage 0's forward, which nothing precedes
  const SwitchedRun run = emulate_switching(dag, plan, std::vector<Watts>(2, Watts(100)), 18 * kMillisecond);
  EXPECT_EQ(run.durations,
            (std::vector<Nanoseconds>{14 * kMillisecond, 10 * kMillisecond, 2 * kMillisecond, 10 * kMillisecond}));
  EXPECT_EQ(run.makespan, 36 * kMillisecond);
  EXPECT_NEAR(run.energy.computation.value(), 34.4, 1e-9);
  EXPECT_NEAR(run.energy.blocking.value(), 3.6, 1e-9);
}

// The same pipeline with changes of 8 ms. The forward does four fifths of its work in 8 ms at 1000 MHz and one fifth in
// 4 ms at 500, 8 + 1.2 J, and ends at 12 ms; stage 1 answers at 24 ms. If the backward asks for its 1000 MHz when the
// forward ends, they hold at 20 ms: it takes 5 ms and 8 J. If it asks when it begins, it does four fifths in 8 ms at
// 500 MHz and one fifth in 1 ms.
TEST(SwitchingOfShortOperations, AWaitHidesAChangeThatIsAskedForAtItsBegin) {
  const ComputationDag dag = one_microbatch_of_two_stages();
  ClockPlan plan = same_clock_plan(dag, 0);
  plan[0] = 1;
  const std::vector<Watts> blocking(2, Watts(100));
  const SwitchedRun early = emulate_switching(dag, plan, blocking, 8 * kMillisecond, ClocksAsked::kWhenFree);
  EXPECT_EQ(early.durations,
            (std::vector<Nanoseconds>{12 * kMillisecond, 10 * kMillisecond, 2 * kMillisecond, 5 * kMillisecond}));
  EXPECT_EQ(early.makespan, 29 * kMillisecond);
  EXPECT_NEAR(early.energy.computation.value(), 8 + 1.2 + 10 + 10 + 8, 1e-9);
  EXPECT_NEAR(early.energy.blocking.value(), 2.9, 1e-9);
  const SwitchedRun late = emulate_switching(dag, plan, blocking, 8 * kMillisecond, ClocksAsked::kAtBegin);
  EXPECT_EQ(late.durations[3], 9 * kMillisecond);
  EXPECT_EQ(late.makespan, 33 * kMillisecond);
}

// With changes of 5 ms, from 500 MHz on. The forward's 1000 MHz hold at 5 ms, a quarter of its work done, 1.5 J. Four
// fifths of a change before the 10 ms that it takes by itself, at 6 ms, the backward's 500 MHz are asked for. They hold
// at 11 ms, another 6 of 10 ms of its work done, 6 J; the last 0.15 take 3 ms and 0.9 J. The backward has its clock.
TEST_F(Switching, AClockThatIsAskedForAheadHoldsWhenItsComputationBegins) {
  const SwitchedRun run = emulate_switching(dag_, {kFast, kSlow}, blocking_, 5 * kMillisecond, ClocksAsked::kAhead);
  EXPECT_EQ(run.durations, (std::vector<Nanoseconds>{14 * kMillisecond, 40 * kMillisecond}));
  EXPECT_NEAR(run.energy.computation.value(), 8.4 + 12.0, 1e-9);
}

// From 1000 MHz on: the forward does half of its work in the 5 ms until its 500 MHz hold, and ends at 15 ms, when the
// backward's clock was to be asked for, a change before the usual end at 20 ms. It is asked for now, and does not hold
// for the first 5 ms of the backward, an eighth of its work.
TEST_F(Switching, AComputationThatEndsEarlyHasTheNextClockAskedForAtOnce) {
  const SwitchedRun run = emulate_switching(dag_, {kSlow, kFast}, blocking_, 5 * kMillisecond, ClocksAsked::kAhead);
  EXPECT_EQ(run.durations, (std::vector<Nanoseconds>{15 * kMillisecond, 22'500'000}));
  EXPECT_NEAR(run.energy.computation.value(), 5.0 + 3.0 + 1.5 + 17.5, 1e-9);
}

TEST_F(Switching, NoLatencyOrNoChangeIsThePlanItself) {
  for (const ClockPlan& plan : {ClockPlan{kFast, kSlow}, ClockPlan{kSlow, kSlow}}) {
    const Nanoseconds latency = plan[0] == plan[1] ? 5 * kMillisecond : 0;
    const SwitchedRun run = emulate_switching(dag_, plan, blocking_, latency);
    EXPECT_EQ(run.durations, plan_durations(dag_, plan));
    const EnergyBreakdown energy = energy_of(dag_, plan, run.makespan, blocking_);
    EXPECT_DOUBLE_EQ(run.energy.total().value(), energy.total().value());
  }
}

// Of two ranks of a stage the slower counts, since both have to be at the clock before they go on together.
TEST(SwitchingBetweenProfiles, AProfileMaySayWhatAChangeTakes) {
  const std::string computations = "0,forward,1410,1,100,0\n0,forward,1410,1,100,1\n1,forward,1410,1,100,2\n";
  const std::string header = "stage,instruction,frequency,time,energy,rank\n";
  EXPECT_FALSE(measured_latency(read_profile("p.csv", header + computations)));
  const auto range = measured_latency(read_profile(
      "p.csv",
      header + computations + "0,clock_change,0,0.004,1,0\n0,clock_change,0,0.008,1,1\n1,clock_change,0,0.006,1,2\n"));
  ASSERT_TRUE(range);
  EXPECT_EQ(range->shortest, Seconds(0.006));
  EXPECT_EQ(range->longest, Seconds(0.008));
}

// A clock that an operation was not measured at: the nearest measured one stands in. The forward knows 1000 and 500 MHz
// and begins at the backward's 900 MHz, which is nearer to 1000: nothing changes for it. The backward, told 900, begins
// at the forward's 1000 MHz, of which it knows only 900: nothing changes either. Still both changes are made.
TEST(SwitchingBetweenProfiles, TheNearestMeasuredClockStandsIn) {
  const ComputationDag dag = scheduled_dag(ScheduleKind::k1f1b,
                                           profile_of_rows("0,forward,1000,0.010,10\n0,forward,500,0.020,6\n"
                                                           "0,backward,900,0.020,20\n0,backward,400,0.040,12\n"),
                                           1);
  const ClockPlan plan = {0, 0};
  const std::vector<Watts> blocking = {Watts(100)};
  EXPECT_EQ(count_switches(dag, plan), 2);
  EXPECT_EQ(emulate_switching(dag, plan, blocking, 5 * kMillisecond).makespan, 30 * kMillisecond);
}

TEST(SwitchingBetweenProfiles, OperationsWithoutAChoiceKeepTheClock) {
  // data_load has one clock and stands between the backward of one iteration and the forward of the next.
  const ComputationDag dag =
      scheduled_dag(ScheduleKind::k1f1b,
                    profile_of_rows("0,data_load,1400,0.001,0.1\n0,forward,1000,0.010,10\n0,forward,500,0.020,6\n"
                                    "0,backward,1000,0.020,20\n0,backward,500,0.040,12\n"),
                    2);
  EXPECT_EQ(dag.size(), 6);
  EXPECT_EQ(count_switches(dag, same_clock_plan(dag, 0)), 0);
  EXPECT_EQ(count_switches(dag, same_clock_plan(dag, 1)), 0);
}

}  // namespace
}  // namespace flyball
