// Schedules as JSON text, made by hand: they hold up to hundreds of thousands of computations and are made in the
// loop's thread, where a tree of JSON values would take ten times as long.
#pragma once

#include <string>
#include <vector>

#include "pipeline/schedule.h"
#include "wire/job_messages.h"

namespace flyball {

// The same bytes as to_json(computations).dump().
[[nodiscard]] std::string computations_text(const std::vector<ScheduledComputation>& computations);

// What follows the rank in the answer to one of Zeus's: "frequencies":[["forward",1410],["backward",1200], ...]}
[[nodiscard]] std::string zeus_tail(const std::vector<ScheduledComputation>& computations);
// All of them at one clock, MHz.
[[nodiscard]] std::string zeus_tail(const InstructionStream& stream, int clock);

}  // namespace flyball
