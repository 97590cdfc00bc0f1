// Replaces a part of what a rank has measured (docs/decisions/0072-profiles-that-live.md).
#pragma once

#include <string_view>
#include <vector>

#include "wire/job_messages.h"

namespace flyball {

// An operation that takes `ratio` times as long at the clock in use is taken to do so at all clocks, at the same power,
// and for first and last microbatches, too.
void scale_operation(std::vector<MeasurementReport>& reports, std::string_view instruction, double ratio);

// Puts new measurements in the place of those of the same instruction and clock. At clocks between them, the factor by
// which they changed is interpolated; outside of them it is that of the nearest.
void refresh_operations(std::vector<MeasurementReport>& reports, const std::vector<InstructionMeasurement>& measured);

}  // namespace flyball
