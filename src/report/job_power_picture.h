// The power of the job over one iteration, for the page and for a file of its own.
#pragma once

#include "draw/svg_canvas.h"
#include "report/report.h"

namespace flyball {

// `input.power` must be there.
[[nodiscard]] SvgCanvas job_power_canvas(const ReportInput& input, int width);

}  // namespace flyball
