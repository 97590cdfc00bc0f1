// Each schedule is a function of the stage that writes its stream: warm-up, steady part, drain. Sizes are checked by
// division first, since products may overflow.
#include "pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace flyball {
namespace {

constexpr std::array<std::pair<ScheduleKind, std::string_view>, 5> kScheduleNames = {{
    {ScheduleKind::kGpipe, "gpipe"},
    {ScheduleKind::k1f1b, "1f1b"},
    {ScheduleKind::kInterleaved1f1b, "interleaved-1f1b"},
    {ScheduleKind::kEarlyRecompute1f1b, "early-recompute-1f1b"},
    {ScheduleKind::kZbH1, "zb-h1"},
}};

using enum InstructionKind;

InstructionStream gpipe(int microbatches) {
  InstructionStream stream;
  for (int m = 0; m < microbatches; ++m) stream.push_back({kForward, m, 0});
  for (int m = microbatches - 1; m >= 0; --m) stream.push_back({kBackward, m, 0});
  return stream;
}

InstructionStream one_f_one_b(int stage, int stages, int microbatches, bool recompute) {
  InstructionStream stream;
  const int warmup = std::min(stages - stage - 1, microbatches);
  for (int m = 0; m < warmup; ++m) stream.push_back({kForward, m, 0});
  for (int m = 0; m < microbatches; ++m) {
    if (m + warmup < microbatches) stream.push_back({kForward, m + warmup, 0});
    // The last stage still holds the activations: its forward has only just ended.
    if (recompute && stage != stages - 1) stream.push_back({kRecompute, m, 0});
    stream.push_back({kBackward, m, 0});
  }
  return stream;
}

// Weight gradients trail the activation gradients by as many microbatches as a stage is short of the first stage's
// number in flight, so that every stage holds as many activations as 1F1B's first stage does.
InstructionStream zb_h1(int stage, int stages, int microbatches) {
  InstructionStream stream;
  const int warmup = std::min(stages - stage - 1, microbatches);
  for (int m = 0; m < warmup; ++m) stream.push_back({kForward, m, 0});
  for (int m = 0; m < microbatches; ++m) {
    if (m + warmup < microbatches) stream.push_back({kForward, m + warmup, 0});
    stream.push_back({kBackwardInput, m, 0});
    if (m >= stage) stream.push_back({kBackwardWeight, m - stage, 0});
  }
  for (int m = std::max(0, microbatches - stage); m < microbatches; ++m) stream.push_back({kBackwardWeight, m, 0});
  return stream;
}

int interleaved_warmup(int stage, int stages, int microbatches, int chunks) {
  return std::min((stages - stage - 1) * 2 + (chunks - 1) * stages, microbatches * chunks);
}

// Microbatches travel in groups of `stages`: a group passes chunk 0, then chunk 1, ..., then the next group starts.
InstructionStream interleaved(int stage, int stages, int microbatches, int chunks) {
  const int total = microbatches * chunks;
  const int group = stages * chunks;
  const auto forward = [&](int k) {
    return Instruction{kForward, k / group * stages + k % stages, k % group / stages};
  };
  const auto backward = [&](int k) {
    return Instruction{kBackward, k / group * stages + k % stages, chunks - 1 - k % group / stages};
  };
  const int warmup = interleaved_warmup(stage, stages, microbatches, chunks);
  InstructionStream stream;
  for (int k = 0; k < warmup; ++k) stream.push_back(forward(k));
  for (int k = 0; k < total; ++k) {
    if (k + warmup < total) stream.push_back(forward(k + warmup));
    stream.push_back(backward(k));
  }
  return stream;
}

void check_shape(ScheduleKind kind, int stages, int microbatches, int chunks) {
  if (stages < 1) throw UsageError("a pipeline needs at least one stage");
  if (microbatches < 1) {
    throw UsageError(fmt::format("microbatches is {}, it must be at least 1 (--microbatches)", microbatches));
  }
  // There are at most three instructions per stage, microbatch and chunk. The limit is divided step by step, since the
  // product may not fit.
  const long most_microbatches = kMostOperations / 3 / stages / std::max(chunks, 1);
  if (microbatches > most_microbatches) {
    throw UsageError(
        fmt::format("{} stages with {} microbatches and {} chunks are more than {} operations; check these "
                    "numbers (--microbatches, --chunks)",
                    stages, microbatches, chunks, kMostOperations));
  }
  if (kind != ScheduleKind::kInterleaved1f1b) {
    if (chunks != 1) {
      throw UsageError(
          fmt::format("schedule {} has one chunk per stage; use --schedule interleaved-1f1b with --chunks {}",
                      schedule_name(kind), chunks));
    }
    return;
  }
  if (chunks < 2) throw UsageError("interleaved-1f1b needs at least two chunks per stage (--chunks 2)");
  if (microbatches % stages != 0) {
    throw UsageError(
        fmt::format("interleaved-1f1b needs microbatches in multiples of the {} stages, not {}", stages, microbatches));
  }
}

}  // namespace

ScheduleKind parse_schedule(std::string_view name) {
  for (const auto& [kind, known] : kScheduleNames) {
    if (known == name) return kind;
  }
  throw UsageError(fmt::format("unknown schedule '{}'; known are {}", name, fmt::join(schedule_names(), ", ")));
}

std::string_view schedule_name(ScheduleKind kind) {
  return std::find_if(kScheduleNames.begin(), kScheduleNames.end(),
                      [&](const auto& entry) { return entry.first == kind; })
      ->second;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const auto& entry : kScheduleNames) names.emplace_back(entry.second);
  return names;
}

std::vector<InstructionStream> make_schedule(ScheduleKind kind, int stages, int microbatches, int chunks) {
  check_shape(kind, stages, microbatches, chunks);
  std::vector<InstructionStream> streams;
  for (int stage = 0; stage < stages; ++stage) {
    switch (kind) {
      case ScheduleKind::kGpipe: streams.push_back(gpipe(microbatches)); break;
      case ScheduleKind::k1f1b: streams.push_back(one_f_one_b(stage, stages, microbatches, false)); break;
      case ScheduleKind::kEarlyRecompute1f1b: streams.push_back(one_f_one_b(stage, stages, microbatches, true)); break;
      case ScheduleKind::kInterleaved1f1b: streams.push_back(interleaved(stage, stages, microbatches, chunks)); break;
      case ScheduleKind::kZbH1: streams.push_back(zb_h1(stage, stages, microbatches)); break;
    }
  }
  return streams;
}

std::vector<Exchange> interleaved_exchanges(int stage, int stages, int microbatches, int chunks) {
  const bool first = stage == 0;
  const bool last = stage == stages - 1;
  const int total = microbatches * chunks;
  const int warmup = interleaved_warmup(stage, stages, microbatches, chunks);
  const int pairs = total - warmup;
  // Whether the k-th forward, or backward, goes through the last chunk that its microbatch comes to.
  const auto in_last_chunk = [&](int k) { return k % (stages * chunks) / stages == chunks - 1; };
  // What ends on a stage in its last chunk is not sent on. The stage where chunks begin takes what the other one, at
  // which they end, has computed as many turns before as the pipeline is long, whether it needs it yet or not.
  const auto sends = [&](int k, bool ends) { return !(ends && in_last_chunk(k)); };
  const auto receives = [&](int k, bool begins) {
    return !begins || (k >= stages - 1 && !in_last_chunk(k - stages + 1));
  };
  std::vector<Exchange> exchanges;
  if (!first) exchanges.push_back({0, false, true, false, false});
  for (int k = 0; k < warmup; ++k) {
    exchanges.push_back({k + 1, sends(k, last), k + 1 < total && receives(k, first), false, k + 1 == warmup && !last});
  }
  for (int k = 0; k < total; ++k) {
    const int forward = k + warmup;
    exchanges.push_back({warmup + k + 1 + std::min(k + 1, pairs), k < pairs && sends(forward, last),
                         k + 1 < pairs && receives(forward, first), sends(k, first),
                         k + 1 < total && receives(k, last)});
  }
  return exchanges;
}

}  // namespace flyball
