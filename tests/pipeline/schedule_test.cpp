#include "pipeline/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "support/expect_error.h"
#include "support/small_pipelines.h"

namespace flyball {
namespace {

std::string stage_text(ScheduleKind kind, int stages, int microbatches, int stage, int chunks = 1) {
  return show(make_schedule(kind, stages, microbatches, chunks)[static_cast<std::size_t>(stage)]);
}

TEST(Schedule, NamesGoBothWays) {
  for (const std::string& name : schedule_names()) EXPECT_EQ(schedule_name(parse_schedule(name)), name);
  expect_usage_error([] { static_cast<void>(parse_schedule("1f2b")); }, "known are gpipe, 1f1b, interleaved-1f1b");
}

TEST(Schedule, GpipeRunsBackwardsInReverse) {
  for (const int stage : {0, 1, 2}) {
    EXPECT_EQ(stage_text(ScheduleKind::kGpipe, 3, 4, stage), "F0 F1 F2 F3 B3 B2 B1 B0");
  }
}

// By hand, from the loops of Megatron Core's forward_backward_pipelining_with_interleaving(): two stages, chunks and
// microbatches. Stage 0 runs all four forwards, then all backwards; what it gets back after its first one belongs to
// the second. Stage 1 runs two forwards, two pairs of a forward, which it does not send on, and a backward, and two
// backwards.
TEST(Schedule, WhatInterleavedStagesPostTogether) {
  const auto text = [](int stage) {
    std::string all;
    for (const Exchange& one : interleaved_exchanges(stage, 2, 2, 2)) {
      all += " " + std::to_string(one.position) + (one.send ? ">" : "") + (one.receive ? "<" : "") +
             (one.send_back ? "S" : "") + (one.receive_back ? "R" : "");
    }
    return all;
  };
  EXPECT_EQ(text(0), " 1> 2>< 3>< 4>R 5SR 6SR 7R 8");
  EXPECT_EQ(text(1), " 0< 1>< 2>< 4<S 6SR 7SR 8S");
}

// PipeDream-flush: stage s of p runs p - s - 1 forwards ahead, then forwards and backwards by turns.
TEST(Schedule, OneForwardOneBackward) {
  EXPECT_EQ(stage_text(ScheduleKind::k1f1b, 4, 6, 0), "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
  EXPECT_EQ(stage_text(ScheduleKind::k1f1b, 4, 6, 1), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
  EXPECT_EQ(stage_text(ScheduleKind::k1f1b, 4, 6, 2), "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5");
  EXPECT_EQ(stage_text(ScheduleKind::k1f1b, 4, 6, 3), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5");
}

TEST(Schedule, WarmUpEndsWithTheMicrobatches) {
  EXPECT_EQ(stage_text(ScheduleKind::k1f1b, 4, 2, 0), "F0 F1 B0 B1");
  EXPECT_EQ(stage_text(ScheduleKind::kZbH1, 4, 1, 3), "F0 I0 W0");
}

TEST(Schedule, EarlyRecomputationPrecedesEveryBackwardButTheLastStages) {
  EXPECT_EQ(stage_text(ScheduleKind::kEarlyRecompute1f1b, 3, 3, 0), "F0 F1 F2 R0 B0 R1 B1 R2 B2");
  EXPECT_EQ(stage_text(ScheduleKind::kEarlyRecompute1f1b, 3, 3, 2), "F0 B0 F1 B1 F2 B2");
}

// Stage s delays weight gradients by s microbatches: stage 0 none, stage 2 two.
TEST(Schedule, ZeroBubbleH1) {
  EXPECT_EQ(stage_text(ScheduleKind::kZbH1, 3, 4, 0), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  EXPECT_EQ(stage_text(ScheduleKind::kZbH1, 3, 4, 1), "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3");
  EXPECT_EQ(stage_text(ScheduleKind::kZbH1, 3, 4, 2), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
}

// Megatron-LM's interleaving (SC'21, section 2.2 and figure 4) of 4 stages, 2 chunks, 8 microbatches, by hand.
//
// Microbatches go in groups of 4 (the number of stages). A group passes chunk 0, then chunk 1; backwards the other way
// round. So the k-th forward of any stage, k = 0 .. 15, is
//   0/0 1/0 2/0 3/0  0/1 1/1 2/1 3/1  4/0 5/0 6/0 7/0  4/1 5/1 6/1 7/1      (microbatch/chunk)
// and the k-th backward
//   0/1 1/1 2/1 3/1  0/0 1/0 2/0 3/0  4/1 5/1 6/1 7/1  4/0 5/0 6/0 7/0.
// Stage s warms up with (p - s - 1) * 2 + (chunks - 1) * p = (3 - s) * 2 + 4 forwards: 10, 8, 6, 4 on stages 0 .. 3.
// Then one forward and one backward by turns while forwards last (6, 8, 10, 12 pairs), then the remaining backwards.
// Below, chunk 0 is not written.
TEST(Schedule, InterleavedIsMegatrons) {
  const auto stage = [](int s) { return stage_text(ScheduleKind::kInterleaved1f1b, 4, 8, s, 2); };
  EXPECT_EQ(stage(0),
            "F0 F1 F2 F3 F0/1 F1/1 F2/1 F3/1 F4 F5 "
            "F6 B0/1 F7 B1/1 F4/1 B2/1 F5/1 B3/1 F6/1 B0 F7/1 B1 "
            "B2 B3 B4/1 B5/1 B6/1 B7/1 B4 B5 B6 B7");
  EXPECT_EQ(stage(1),
            "F0 F1 F2 F3 F0/1 F1/1 F2/1 F3/1 "
            "F4 B0/1 F5 B1/1 F6 B2/1 F7 B3/1 F4/1 B0 F5/1 B1 F6/1 B2 F7/1 B3 "
            "B4/1 B5/1 B6/1 B7/1 B4 B5 B6 B7");
  EXPECT_EQ(stage(2),
            "F0 F1 F2 F3 F0/1 F1/1 "
            "F2/1 B0/1 F3/1 B1/1 F4 B2/1 F5 B3/1 F6 B0 F7 B1 F4/1 B2 F5/1 B3 F6/1 B4/1 F7/1 B5/1 "
            "B6/1 B7/1 B4 B5 B6 B7");
  EXPECT_EQ(stage(3),
            "F0 F1 F2 F3 "
            "F0/1 B0/1 F1/1 B1/1 F2/1 B2/1 F3/1 B3/1 F4 B0 F5 B1 F6 B2 F7 B3 F4/1 B4/1 F5/1 B5/1 F6/1 B6/1 F7/1 B7/1 "
            "B4 B5 B6 B7");
}

struct Shape {
  ScheduleKind kind;
  int stages;
  int microbatches;
  int chunks;
};

std::vector<Shape> all_small_shapes() {
  std::vector<Shape> shapes;
  for (const std::string& name : schedule_names()) {
    const ScheduleKind kind = parse_schedule(name);
    for (int stages = 1; stages <= 6; ++stages) {
      for (int microbatches = 1; microbatches <= 13; ++microbatches) {
        if (kind != ScheduleKind::kInterleaved1f1b) {
          shapes.push_back({kind, stages, microbatches, 1});
          continue;
        }
        if (microbatches % stages != 0) continue;
        for (const int chunks : {2, 3, 4}) shapes.push_back({kind, stages, microbatches, chunks});
      }
    }
  }
  return shapes;
}

TEST(Schedule, EveryStageRunsEveryInstructionOnce) {
  for (const Shape& shape : all_small_shapes()) {
    const auto streams = make_schedule(shape.kind, shape.stages, shape.microbatches, shape.chunks);
    ASSERT_EQ(streams.size(), static_cast<std::size_t>(shape.stages));
    for (std::size_t stage = 0; stage < streams.size(); ++stage) {
      std::map<std::tuple<InstructionKind, int, int>, int> count;
      for (const Instruction& each : streams[stage]) ++count[{each.kind, each.microbatch, each.chunk}];
      std::size_t kinds = 2;
      if (shape.kind == ScheduleKind::kZbH1) kinds = 3;
      if (shape.kind == ScheduleKind::kEarlyRecompute1f1b && stage + 1 < streams.size()) kinds = 3;
      EXPECT_EQ(count.size(), kinds * static_cast<std::size_t>(shape.microbatches * shape.chunks));
      for (const auto& [instruction, times] : count) EXPECT_EQ(times, 1);
      for (int m = 0; m < shape.microbatches; ++m) {
        for (int chunk = 0; chunk < shape.chunks; ++chunk) {
          EXPECT_EQ(count.count({InstructionKind::kForward, m, chunk}), 1u);
        }
      }
    }
  }
}

// Runs the streams as the stages would: each takes its next instruction as soon as what it needs from others has run.
// All must come to their end (no deadlock), and no stage may use an activation or gradient of its own before making it.
TEST(Schedule, NoneDeadlocks) {
  using enum InstructionKind;
  for (const Shape& shape : all_small_shapes()) {
    const auto streams = make_schedule(shape.kind, shape.stages, shape.microbatches, shape.chunks);
    const int last = shape.stages * shape.chunks - 1;
    std::map<std::tuple<InstructionKind, int, int>, bool> done;  // kind, virtual stage, microbatch
    const auto has = [&](InstructionKind kind, int virtual_stage, int m) {
      return done.count({kind, virtual_stage, m}) > 0;
    };
    std::vector<std::size_t> next(streams.size(), 0);
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t stage = 0; stage < streams.size(); ++stage) {
        if (next[stage] == streams[stage].size()) continue;
        const Instruction& each = streams[stage][next[stage]];
        const int v = each.chunk * shape.stages + static_cast<int>(stage);
        const InstructionKind gradient = shape.kind == ScheduleKind::kZbH1 ? kBackwardInput : kBackward;
        bool ready = true;
        if (each.kind == kForward) ready = v == 0 || has(kForward, v - 1, each.microbatch);
        if (each.kind == gradient) {
          ready = v == last || has(gradient, v + 1, each.microbatch);
          ASSERT_TRUE(has(kForward, v, each.microbatch));
        }
        if (each.kind == kRecompute) {
          ASSERT_TRUE(has(kForward, v, each.microbatch));
        }
        if (each.kind == kBackwardWeight) {
          ASSERT_TRUE(has(kBackwardInput, v, each.microbatch));
        }
        if (!ready) continue;
        done[{each.kind, v, each.microbatch}] = true;
        ++next[stage];
        moved = true;
      }
    }
    for (std::size_t stage = 0; stage < streams.size(); ++stage) {
      EXPECT_EQ(next[stage], streams[stage].size())
          << schedule_name(shape.kind) << " " << shape.stages << " x " << shape.microbatches << " x " << shape.chunks
          << " deadlocks on stage " << stage;
    }
  }
}

// Most activations that a stage holds at once, from a forward's start to the end of what needs it last.
int most_in_flight(const InstructionStream& stream, InstructionKind releases) {
  int held = 0;
  int most = 0;
  for (const Instruction& each : stream) {
    if (each.kind == InstructionKind::kForward) most = std::max(most, ++held);
    if (each.kind == releases) --held;
  }
  return most;
}

TEST(Schedule, ZeroBubbleH1HoldsNoMoreThan1f1bsFirstStage) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int microbatches = 1; microbatches <= 20; ++microbatches) {
      const auto plain = make_schedule(ScheduleKind::k1f1b, stages, microbatches, 1);
      const int limit = most_in_flight(plain[0], InstructionKind::kBackward);
      EXPECT_EQ(limit, std::min(stages, microbatches));
      for (const InstructionStream& stream : make_schedule(ScheduleKind::kZbH1, stages, microbatches, 1)) {
        EXPECT_LE(most_in_flight(stream, InstructionKind::kBackwardWeight), limit);
      }
    }
  }
}

TEST(Schedule, RefusesShapesThatDoNotWork) {
  const auto make = [](ScheduleKind kind, int stages, int microbatches, int chunks) {
    static_cast<void>(make_schedule(kind, stages, microbatches, chunks));
  };
  expect_usage_error([&] { make(ScheduleKind::k1f1b, 0, 4, 1); }, "at least one stage");
  expect_usage_error([&] { make(ScheduleKind::k1f1b, 4, 0, 1); }, "microbatches is 0");
  expect_usage_error([&] { make(ScheduleKind::k1f1b, 4, -3, 1); }, "microbatches is -3");
  expect_usage_error([&] { make(ScheduleKind::k1f1b, 4, 4, 2); }, "--schedule interleaved-1f1b");
  expect_usage_error([&] { make(ScheduleKind::kInterleaved1f1b, 4, 8, 1); }, "at least two chunks");
  expect_usage_error([&] { make(ScheduleKind::kInterleaved1f1b, 4, 8, 0); }, "at least two chunks");
  expect_usage_error([&] { make(ScheduleKind::kInterleaved1f1b, 4, 6, 2); }, "multiples of the 4 stages, not 6");
  expect_usage_error([&] { make(ScheduleKind::k1f1b, 4, 2'000'000'000, 1); }, "more than 2000000 operations");
  expect_usage_error([&] { make(ScheduleKind::k1f1b, 2'000'000'000, 4, 1); }, "more than 2000000 operations");
  expect_usage_error([&] { make(ScheduleKind::kInterleaved1f1b, 4, 8, 2'000'000'000); }, "more than 2000000");
}

}  // namespace
}  // namespace flyball
