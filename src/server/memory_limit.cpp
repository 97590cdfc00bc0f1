// The bytes of a rank are divided, the least of a stage's ranks counts, and the schedule's own order bounds it from
// below.
#include "server/memory_limit.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "pipeline/instruction.h"
#include "pipeline/schedule.h"
#include "server/order_seen.h"

namespace flyball {
namespace {

// How many microbatches a stage holds at once: from a forward's begin to the end of the backward, or of the weights'
// gradient where that is a part of its own.
int most_held(const InstructionStream& stream) {
  const bool splits = std::any_of(stream.begin(), stream.end(),
                                  [](const Instruction& one) { return one.kind == InstructionKind::kBackwardWeight; });
  const InstructionKind last = splits ? InstructionKind::kBackwardWeight : InstructionKind::kBackward;
  int held = 0;
  int most = 0;
  for (const Instruction& one : stream) {
    if (one.kind == InstructionKind::kForward) most = std::max(most, ++held);
    if (one.kind == last) --held;
  }
  return most;
}

}  // namespace

std::vector<int> limit_of_memory(const JobRequest& job, const std::vector<RankRequest>& ranks) {
  const bool told = std::any_of(ranks.begin(), ranks.end(), [](const auto& one) { return one.microbatch_bytes > 0; });
  if (!told || !job.memory_limit.empty() || job.chunks > 1 || !may_reorder(job, OrderSeen::kAsTold)) return {};
  const auto stages = static_cast<std::size_t>(job.stages);
  std::vector<std::int64_t> least(stages, job.microbatches);
  std::vector<std::int64_t> count(stages);
  for (const RankRequest& rank : ranks) {
    const auto stage = static_cast<std::size_t>(rank.pp_rank);
    if (rank.microbatch_bytes <= 0) continue;
    least[stage] = std::min(least[stage], rank.activation_bytes / rank.microbatch_bytes);
    ++count[stage];
  }
  const auto streams = make_schedule(parse_schedule(job.schedule), job.stages, job.microbatches, job.chunks);
  std::vector<int> limit;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const int own = most_held(streams[stage]);
    const bool known = count[stage] == std::int64_t{job.data_parallel} * job.tensor_parallel;
    limit.push_back(known ? std::max(own, static_cast<int>(least[stage])) : own);
  }
  return limit;
}

}  // namespace flyball
