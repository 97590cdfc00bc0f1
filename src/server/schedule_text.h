// Writes schedules as JSON text, without a tree of JSON values, which would take ten times as long. Schedules have up
// to hundreds of thousands of computations, and their texts are made in the loop's thread.
#pragma once

#include <string>
#include <vector>

#include "pipeline/schedule.h"
#include "wire/job_messages.h"

namespace flyball {

// Returns the same bytes as to_json(computations).dump().
[[nodiscard]] std::string computations_text(const std::vector<ScheduledComputation>& computations);

// Returns what follows the rank in an answer to Zeus's clients: "frequencies":[["forward",1410],["backward",1200],
// ...]}
[[nodiscard]] std::string zeus_tail(const std::vector<ScheduledComputation>& computations);
// Returns the same with all computations at one clock (MHz).
[[nodiscard]] std::string zeus_tail(const InstructionStream& stream, int clock);

}  // namespace flyball
