// The timelines before and after as a trace in Chrome's Trace Event Format, which ui.perfetto.dev and chrome://tracing
// open.
//
// Each plan is a process, and each stage a thread of it. What a stage computes are its slices; transfers, which run
// beside the computations, have threads of their own, as many as there are transfers at once, so that slices of a
// thread never overlap. Slices have their category from the instruction, and clock, power, energy and slack as
// arguments, with the unit in the name. Counters are the power of one GPU of each stage, and of the whole job.
#pragma once

#include <cstddef>
#include <string>

#include "report/report.h"

namespace flyball {

// Of one plan. An iteration with more operations is shown up to where this many have begun, and its process says so:
// viewers hold a whole trace in memory, and an operation adds up to half a kilobyte to it.
inline constexpr std::size_t kMostTracedOperations = 100'000;

// Returns the trace as JSON. Times are in microseconds with up to three decimals, which keep every nanosecond; both
// iterations begin at 0. The power of the job is there only where `input.power` is. Powers and energies are what was
// measured at the clocks of the plan, also where its changes take hold late and operations take longer for it.
// Deterministic. Cost O(n log n) for n operations, of which no more than `most_operations` are shown.
[[nodiscard]] std::string timeline_trace(const ReportInput& input, std::size_t most_operations = kMostTracedOperations);

}  // namespace flyball
