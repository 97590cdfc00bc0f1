// Reads the words for faults of simulated boards that `flyball sim fault` and flyball_sim_fault take.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "sim/board.h"

namespace flyball {

// Returns the fault that the words name; none for words that name no fault, and for calls that the simulated library
// does not have. "counter-reset" gives kind kNone.
[[nodiscard]] std::optional<SimFault> parse_fault(std::string_view text);

// Returns the calls that can fail or hang, by the vendor's names, in order. Calls that concern no board (nvmlInit,
// nvmlDeviceGetCount) do so when a fault of any board names them; "*" does not name them.
[[nodiscard]] std::span<const std::string_view> fault_calls();

// Returns the call in "error:CALL=CODE" or "hang:CALL=SECONDS"; empty where the words name none.
[[nodiscard]] std::string_view call_in_fault(std::string_view text);

[[nodiscard]] std::string_view name_of(SimFaultKind kind);  // "lost"; empty for kNone

}  // namespace flyball
