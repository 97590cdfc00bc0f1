// Draws the power of the job over one iteration, for the page and for a file of its own.
#pragma once

#include "draw/svg_canvas.h"
#include "report/report.h"

namespace flyball {

// Draws what job_power_svg() (report.h) puts into a file. `input.power` must be there. `width` is in pixels.
[[nodiscard]] SvgCanvas job_power_canvas(const ReportInput& input, int width);

}  // namespace flyball
