// What all readers of job traces share: fields with their bounds, and the order of jobs.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/text.h"
#include "base/units.h"
#include "cluster/job_trace.h"

namespace flyball {

inline constexpr double kMostTraceSeconds = 315'360'000.0;  // ten years

// Both functions read a field of the current row, and throw InputError if it is out of bounds.
[[nodiscard]] Seconds read_trace_time(const CsvReader& csv, std::string_view column);
[[nodiscard]] int read_trace_gpus(const CsvReader& csv, std::string_view column);

// Sorts the jobs by submission. Throws InputError, which names `last_line`, when there is none.
void finish_trace(JobTrace& trace, std::size_t last_line);

}  // namespace flyball
