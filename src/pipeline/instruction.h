// The instructions of a pipeline stage.
#pragma once

#include <string_view>

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

// Constant-time operations; a profile may hold them as operations with one row.
inline constexpr std::string_view kP2pName = "p2p";
// In a DAG, where what a stage sends back differs from what it sends on.
inline constexpr std::string_view kP2pBackName = "p2p_back";
inline constexpr std::string_view kDataLoadName = "data_load";
inline constexpr std::string_view kGradientSyncName = "gradient_sync";
inline constexpr std::string_view kOptimizerStepName = "optimizer_step";
// Measured beside them, though nothing runs: a GPU that waits for other stages. Its energy over its time is the
// blocking power.
inline constexpr std::string_view kWaitingName = "waiting";
// Likewise: a clock change, whose time is how long it takes to take hold. Its energy counts for nothing.
inline constexpr std::string_view kClockChangeName = "clock_change";

// Whether it is one of the six of these that a profile may hold.
[[nodiscard]] bool is_constant_operation(std::string_view instruction);

// Returns the name without the ".1" of a chunk's own profile, as a framework calls the instruction.
[[nodiscard]] std::string_view announced_name(std::string_view instruction);

// One entry of a stage's instruction stream.
struct Instruction {
  InstructionKind kind = InstructionKind::kForward;
  int microbatch = 0;
  int chunk = 0;  // model chunk on this stage (interleaved schedules), from 0
};

}  // namespace flyball
