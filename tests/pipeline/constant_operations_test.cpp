// Where loading, transfers and what comes once per iteration stand in the DAG, and how long they make it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pipeline/pipeline_spec.h"
#include "support/expect_error.h"
#include "support/small_pipelines.h"

namespace flyball {
namespace {

PipelineSpec spec_of(int microbatches) {
  PipelineSpec spec;
  spec.microbatches = microbatches;
  return spec;
}

// Forward 1 ms, backward 2 ms.
Profile profile_of(int stages) { return uniform_profile(stages, {{"forward", 1}, {"backward", 2}}); }

Timeline timeline_of(const ComputationDag& dag) { return emulate(dag, plan_durations(dag, same_clock_plan(dag, 0))); }

// Two stages, two microbatches, transfers of 1 ms.
//
// The receiver alone: stage 0 runs its forwards at once, each arrives a millisecond later.
//
// Both: the first transfer holds stage 0 from 1 to 2. Stage 0 has its second activation ready at 3, but stage 1
// computes until 5; then this activation and the first gradient cross together, from 5 to 6, and both stages go
// on. The last gradient waits for stage 0 (until 8), which waits for stage 1 (until 9).
TEST(Transfers, OccupyTheReceiverOrBoth) {
  PipelineSpec spec = spec_of(2);
  spec.p2p = ConstantOperation(Seconds(1e-3));
  const ComputationDag receiver = build_dag(spec, profile_of(2));
  EXPECT_EQ(show(receiver, timeline_of(receiver)),
            "01....aa.bb\n"
            "..0aa1bb...\n");
  spec.transfers_occupy_both = true;
  const ComputationDag both = build_dag(spec, profile_of(2));
  EXPECT_EQ(show(both, timeline_of(both)),
            "0.1...aa..bb\n"
            "..0aa.1bb...\n");
  EXPECT_EQ(both.size(), receiver.size());
}

// One microbatch on 3 stages: 3 forwards and 3 backwards are 9 ms, and it crosses each link there and back.
TEST(Transfers, TakeTheirLinksTime) {
  PipelineSpec spec = spec_of(1);
  for (const bool both : {false, true}) {
    spec.transfers_occupy_both = both;
    spec.p2p = ConstantOperation(milliseconds({1, 5}), {});
    EXPECT_EQ(timeline_of(build_dag(spec, profile_of(3))).makespan, (9 + 2 * (1 + 5)) * kMillisecond);
    spec.p2p = ConstantOperation(milliseconds({0, 5}), {});
    const ComputationDag dag = build_dag(spec, profile_of(3));
    EXPECT_EQ(timeline_of(dag).makespan, (9 + 2 * 5) * kMillisecond);
    EXPECT_EQ(dag.size(), 6 + 2);  // none on the first link
  }
}

// With no time stated the profile's rows count, here 3 ms.
TEST(Transfers, OfTheProfileOccupyBothWhereThatIsStated) {
  PipelineSpec spec = spec_of(1);
  spec.transfers_occupy_both = true;
  const Profile profile = uniform_profile(2, {{"forward", 1}, {"backward", 2}, {"p2p", 3}});
  const ComputationDag dag = build_dag(spec, profile);
  EXPECT_EQ(timeline_of(dag).makespan, (6 + 2 * 3) * kMillisecond);
}

// Forward 1 + 3 + 1 ms, backward 2 + 5 + 2 ms.
TEST(Transfers, BackMayHaveBeenMeasuredAnotherLength) {
  PipelineSpec spec = spec_of(1);
  const Profile profile = uniform_profile(2, {{"forward", 1}, {"backward", 2}, {"p2p", 3}, {"p2p_back", 5}});
  for (const bool both : {false, true}) {
    spec.transfers_occupy_both = both;
    EXPECT_EQ(timeline_of(build_dag(spec, profile)).makespan, 14 * kMillisecond);
  }
}

// Every schedule can be run in that order, and no faster than with transfers that the sender need not wait for.
TEST(Transfers, ThatOccupyBothDeadlockInNoSchedule) {
  for (const std::string& schedule : schedule_names()) {
    PipelineSpec spec;
    spec.schedule = parse_schedule(schedule);
    spec.p2p = ConstantOperation(Seconds(1e-3));
    for (const int stages : {1, 2, 3, 5}) {
      const Profile profile = uniform_profile(
          stages, {{"forward", 1}, {"backward", 2}, {"recompute", 1}, {"backward_input", 1}, {"backward_weight", 1}});
      for (const int microbatches : {1, 2, 3, 5, 8, 30}) {
        spec.microbatches = microbatches;
        const bool interleaved = spec.schedule == ScheduleKind::kInterleaved1f1b;
        spec.chunks = interleaved ? 3 : 1;
        if (interleaved && microbatches % stages != 0) continue;
        spec.transfers_occupy_both = false;
        const Nanoseconds receiver = timeline_of(build_dag(spec, profile)).makespan;
        spec.transfers_occupy_both = true;
        EXPECT_GE(timeline_of(build_dag(spec, profile)).makespan, receiver)
            << schedule << " of " << stages << " stages, " << microbatches << " microbatches";
      }
    }
  }
}

// Two chunks and four microbatches; transfers take no time. Behind its fourth forward stage 0 posts this one's output
// together with the receive of the first gradient: it begins its fifth forward at 6, when that gradient is there,
// though it needs it for the backward behind it only. Of each pair of a forward and a backward the stages send both
// outputs when the backward has ended. The pictures come from another program, which goes through Megatron Core's posts
// in turn.
TEST(Transfers, OfChunksAreExchangedForAForwardAndABackwardTogether) {
  PipelineSpec spec = spec_of(4);
  spec.schedule = ScheduleKind::kInterleaved1f1b;
  spec.chunks = 2;
  spec.transfers_occupy_both = true;
  const ComputationDag dag = build_dag(spec, profile_of(2));
  EXPECT_EQ(show(dag, timeline_of(dag)),
            "0101..2aa3bb2aa3bbcc.ddccdd\n"
            ".010aa1bb2aa3bb2cc3ddccdd..\n");
  // Handovers are where stages exchange: before all forwards but the first of stage 0 and the last four backwards, of
  // stage 1 before all forwards and the last two backwards; not between a forward and the backward of its pair.
  const Profile handed = uniform_profile(2, {{"forward", 1}, {"backward", 2}, {"receive", 1}, {"receive_back", 1}});
  EXPECT_EQ(build_dag(spec, handed).size(), 32 + (7 + 4) + (8 + 2));
}

// Waiting draws 50 and 80 W, so 0.05 and 0.08 J in the millisecond of a transfer. Of the 0.2 J that it is stated
// to take 0.15 and 0.12 lie above, on both GPUs: 0.27 J for each of the two transfers.
TEST(Transfers, ThatOccupyBothDrawOnBothGpus) {
  PipelineSpec spec = spec_of(1);
  spec.transfers_occupy_both = true;
  spec.blocking_power = {Watts(50), Watts(80)};
  const auto joules = [&] {
    const ComputationDag dag = build_dag(spec, profile_of(2));
    return energy_of(dag, same_clock_plan(dag, 0), timeline_of(dag).makespan, spec.blocking_power).total().value();
  };
  spec.p2p = ConstantOperation(Seconds(1e-3));
  const double waiting = joules();
  spec.p2p = ConstantOperation(Seconds(1e-3), Joules(0.2));
  EXPECT_NEAR(joules() - waiting, 0.54, 1e-12);
  // Less than waiting does on either GPU: waiting counts.
  spec.p2p = ConstantOperation(Seconds(1e-3), Joules(0.04));
  EXPECT_NEAR(joules(), waiting, 1e-12);
}

// Two stages, two microbatches. Stage 1 is handed what stage 0 has computed in 1 ms, once both are free, and stage 0
// the gradients in 2 ms; a handover is part of the receiver's order, and holds up nobody else. Stage 1: handed from
// 1 to 2, forward until 3, backward until 5, handed from 5 (the second activation is there since 2) to 6, forward
// until 7, backward until 9. Stage 0: handed the first gradient from 5 to 7, backward until 9, the second, which is
// there then, from 9 to 11, backward until 13.
TEST(Handovers, OccupyTheReceiver) {
  const Profile profile = uniform_profile(2, {{"forward", 1}, {"backward", 2}, {"receive", 1}, {"receive_back", 2}});
  const ComputationDag dag = build_dag(spec_of(2), profile);
  EXPECT_EQ(dag.size(), 8 + 4);
  const Timeline timeline = timeline_of(dag);
  EXPECT_EQ(timeline.makespan, 13 * kMillisecond);
}

// The same of chunks: no stage waits for another in a circle. One microbatch crosses to another stage three times in
// each direction between the four parts of the model: 4 x (1 + 2) ms of computing and 3 x (1 + 2) ms of handovers.
TEST(Handovers, AreBetweenChunksToo) {
  PipelineSpec spec = spec_of(2);
  spec.schedule = ScheduleKind::kInterleaved1f1b;
  spec.chunks = 2;
  const Profile profile = uniform_profile(2, {{"forward", 1}, {"backward", 2}, {"receive", 1}, {"receive_back", 2}});
  const ComputationDag dag = build_dag(spec, profile);
  EXPECT_EQ(dag.size(), 2 * (8 + 6));
  EXPECT_GE(timeline_of(dag).makespan, (4 * 3 + 3 * 3) * kMillisecond);
}

// Three stages, one microbatch, 9 ms of computing. Loading 2 ms before the first forward and 3 ms before the last,
// which begins when that stage's input is there; then stage 0, which ends last, synchronises for 4 ms.
TEST(ConstantOperations, MayDifferFromStageToStage) {
  PipelineSpec spec = spec_of(1);
  spec.data_load = ConstantOperation(milliseconds({2, 0, 3}), {});
  const ComputationDag loading = build_dag(spec, profile_of(3));
  EXPECT_EQ(show(loading, timeline_of(loading)),
            "DD0.........aa\n"
            "...0......aa..\n"
            "....DDD0aa....\n");
  spec.gradient_sync = ConstantOperation(milliseconds({4, 1, 0}), {Joules(7), Joules(5), Joules(3)});
  const ComputationDag dag = build_dag(spec, profile_of(3));
  EXPECT_EQ(timeline_of(dag).makespan, 18 * kMillisecond);
  EXPECT_EQ(dag.type_of(dag.stage_order(0).back()).options[0].energy, Joules(7));
  EXPECT_EQ(dag.type_of(dag.stage_order(1).back()).options[0].energy, Joules(5));
  EXPECT_EQ(dag.type_of(dag.stage_order(2).back()).instruction, "backward");
}

// Two stages that were measured to load for 2 ms: 2 + 1, then 2 + 1 + 2 at the last one, then 2.
TEST(ConstantOperations, LoadingThatWasMeasuredAtTheLastStageIsThere) {
  const PipelineSpec spec = spec_of(1);
  const Profile profile = uniform_profile(2, {{"forward", 1}, {"backward", 2}, {"data_load", 2}});
  EXPECT_EQ(timeline_of(build_dag(spec, profile)).makespan, 10 * kMillisecond);
}

// A stage waits at 100 W at 1000 MHz and at 50 W at 500. Reducing gradients takes 10 ms, and 1.1 J and 0.55 J at these
// clocks, 10 % above waiting: it is charged as that, by the clock before. Where it takes 2 J at either, it is charged
// with 2 J.
TEST(ConstantOperations, WhatDrawsAsWaitingDoesIsChargedByTheClock) {
  const auto joules_of = [](const std::string& sync, std::size_t option) {
    const Profile profile = profile_of_rows(
        "0,forward,1000,0.010,2.0\n0,forward,500,0.020,1.5\n0,backward,1000,0.020,4.0\n0,backward,500,0.040,3.0\n"
        "0,waiting,1000,1,100\n0,waiting,500,1,50\n" +
        sync);
    const PipelineSpec spec = spec_of(1);
    const ComputationDag dag = build_dag(spec, profile);
    const ClockPlan plan = same_clock_plan(dag, option);
    const Timeline timeline = emulate(dag, plan_durations(dag, plan));
    return energy_of(dag, plan, timeline.makespan, spec.blocking_powers(1, profile)).total().value();
  };
  const std::string waits = "0,gradient_sync,1000,0.010,1.1\n0,gradient_sync,500,0.010,0.55\n";
  EXPECT_NEAR(joules_of(waits, 0), 6.0 + 1.0, 1e-9);
  EXPECT_NEAR(joules_of(waits, 1), 4.5 + 0.5, 1e-9);
  const std::string works = "0,gradient_sync,1000,0.010,2\n0,gradient_sync,500,0.010,2\n";
  EXPECT_NEAR(joules_of(works, 0), 6.0 + 2.0, 1e-9);
  EXPECT_NEAR(joules_of(works, 1), 4.5 + 2.0, 1e-9);
}

TEST(ConstantOperations, MustFitTheStagesOrLinks) {
  PipelineSpec spec = spec_of(1);
  const auto build = [&] { static_cast<void>(build_dag(spec, profile_of(3))); };
  spec.p2p = ConstantOperation(milliseconds({1, 1, 1}), {});
  expect_usage_error(build, "[p2p] of the pipeline has 3 numbers for 2 links; give one, or one per link");
  spec.p2p.reset();
  spec.data_load = ConstantOperation(milliseconds({1, 1}), {});
  expect_usage_error(build, "[data_load] of the pipeline has 2 numbers for 3 stages");
  spec.data_load.reset();
  spec.optimizer_step = ConstantOperation(milliseconds({1}), {Joules(1), Joules(2)});
  expect_usage_error(build, "[optimizer_step] of the pipeline has 2 numbers for 3 stages");
}

}  // namespace
}  // namespace flyball
