// Pipeline schedules: the order in which each stage runs its instructions.
//
//   gpipe                 all forwards, then all backwards in reverse order (GPipe, NeurIPS'19)
//   1f1b                  one forward, one backward after a warm-up (PipeDream-flush, Megatron-LM)
//   interleaved-1f1b      1F1B over several model chunks per stage (Megatron-LM, SC'21)
//   early-recompute-1f1b  1F1B with recomputation hoisted before the gradient arrives (Merak, TPDS'23)
//   zb-h1                 1F1B with the backward split in two; weight gradients fill the drain (Zero Bubble, ICLR'24)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipeline/instruction.h"

namespace flyball {

enum class ScheduleKind { kGpipe, k1f1b, kInterleaved1f1b, kEarlyRecompute1f1b, kZbH1 };

// Reads a name of the list above. Throws UsageError, which lists the names, for any other.
[[nodiscard]] ScheduleKind parse_schedule(std::string_view name);
[[nodiscard]] std::string_view schedule_name(ScheduleKind kind);
[[nodiscard]] std::vector<std::string> schedule_names();

// Largest iteration that is accepted, in operations of all stages together. 512 microbatches on 16 stages are 16,384,
// and the largest that we know of has 500,000; the limit only keeps a typing error (microbatches = 2000000000) from
// using up the machine's memory.
inline constexpr long kMostOperations = 2'000'000;

using InstructionStream = std::vector<Instruction>;

// Returns one stream per stage. Throws UsageError when stages, microbatches or chunks are not positive, when chunks are
// asked of a schedule that has none, or when interleaving is asked for with microbatches that are no multiple of the
// stages (Megatron-LM's rule) or with fewer than two chunks, or when the iteration has more than kMostOperations. Cost:
// linear in the instructions.
[[nodiscard]] std::vector<InstructionStream> make_schedule(ScheduleKind kind, int stages, int microbatches, int chunks);

// What a stage of interleaved-1f1b posts together before an instruction of its stream: activations to the next stage
// and from the one before, gradients to the one before and from the next. The last stage is before the first.
struct Exchange {
  int position = 0;  // of the instruction; the stream's length after the last one
  bool send = false;
  bool receive = false;
  bool send_back = false;
  bool receive_back = false;
};

// The exchanges of a stage in an engine whose stages wait until all that they post has been transferred: those of
// Megatron Core 0.16 with overlap_p2p_comm off (forward_backward_pipelining_with_interleaving()). After the warm-up a
// stage posts once for a forward and the backward behind it. In each direction, the n-th that a stage sends is the n-th
// that the other receives. Of two stages or more, and a shape that make_schedule() takes.
[[nodiscard]] std::vector<Exchange> interleaved_exchanges(int stage, int stages, int microbatches, int chunks);

}  // namespace flyball
