// Faults of simulated boards in words, as `flyball sim fault` and flyball_sim_fault take them.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "sim/board.h"

namespace flyball {

// Nothing for words that are none, and for calls that the simulated library does not have. "counter-reset" gives kind
// kNone.
[[nodiscard]] std::optional<SimFault> parse_fault(std::string_view text);

// The calls that can fail or hang, by the vendor's names, in order. Those on no board (nvmlInit, nvmlDeviceGetCount) do
// so when any board's fault names them; "*" does not.
[[nodiscard]] std::span<const std::string_view> fault_calls();

// The call in "error:CALL=CODE" or "hang:CALL=SECONDS"; empty where the words name none.
[[nodiscard]] std::string_view call_in_fault(std::string_view text);

[[nodiscard]] std::string_view name_of(SimFaultKind kind);  // "lost"; empty for kNone

}  // namespace flyball
