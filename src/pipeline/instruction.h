// The instructions of a pipeline stage.
#pragma once

#include <string>
#include <string_view>

#include "base/own_name.h"

namespace flyball {

enum class InstructionKind {
  kForward,
  kBackward,
  kRecompute,       // activation recomputation on its own (early-recomputation 1F1B)
  kBackwardInput,   // gradient of the activations (zero-bubble schedules)
  kBackwardWeight,  // gradient of the weights (zero-bubble schedules)
};

// The name in profiles: "forward", "backward", "recompute", "backward_input", "backward_weight".
[[nodiscard]] constexpr std::string_view instruction_name(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kForward: return "forward";
    case InstructionKind::kBackward: return "backward";
    case InstructionKind::kRecompute: return "recompute";
    case InstructionKind::kBackwardInput: return "backward_input";
    case InstructionKind::kBackwardWeight: return "backward_weight";
  }
  return "";
}

// Returns whether a name is that of the kind, be it that of all microbatches or of the first or last one alone.
[[nodiscard]] constexpr bool is_of_kind(std::string_view instruction, InstructionKind kind) {
  return common_name(instruction) == instruction_name(kind);
}

// The names of constant-time operations. A profile may hold them as operations with one row.
inline constexpr std::string_view kP2pName = "p2p";
// A transfer to the stage before, where it differs from one to the stage behind.
inline constexpr std::string_view kP2pBackName = "p2p_back";
// The handover of a computation's input from another stage, on the stage that gets it: from when the input has been
// computed and the stage is free until the computation begins. It holds the transfer and what the engine does around
// it. "receive" is before forwards, "receive_back" before backwards.
inline constexpr std::string_view kReceiveName = "receive";
inline constexpr std::string_view kReceiveBackName = "receive_back";
inline constexpr std::string_view kDataLoadName = "data_load";
inline constexpr std::string_view kGradientSyncName = "gradient_sync";
inline constexpr std::string_view kOptimizerStepName = "optimizer_step";
// A GPU that waits for other stages. Nothing runs, but profiles hold it beside the operations, since its energy over
// its time is the blocking power.
inline constexpr std::string_view kWaitingName = "waiting";
// A clock change. Profiles hold it beside the operations, too; its time is how long the change takes to take hold, and
// its energy counts for nothing.
inline constexpr std::string_view kClockChangeName = "clock_change";

// Returns whether this is one of the names above.
[[nodiscard]] bool is_constant_operation(std::string_view instruction);

// Returns the name without the ".1" of a chunk's own profile and the ".first" of a first microbatch's
// (base/own_name.h), as a framework calls the instruction.
[[nodiscard]] std::string_view announced_name(std::string_view instruction);

// Returns whether this is a forward, of whatever chunk and microbatch.
[[nodiscard]] bool is_forward(std::string_view instruction);

// Returns the first letters of the name's words in capitals, with which labels begin: "F", "BI".
[[nodiscard]] std::string instruction_letters(std::string_view instruction);

// Returns the name with ".1" for chunk 1, as one of several chunks has it; that of chunk 0 is the name itself.
[[nodiscard]] std::string name_of_chunk(std::string_view instruction, int chunk);

// One entry of a stage's instruction stream.
struct Instruction {
  InstructionKind kind = InstructionKind::kForward;
  int microbatch = 0;
  int chunk = 0;  // model chunk on this stage (interleaved schedules), from 0
};

}  // namespace flyball
