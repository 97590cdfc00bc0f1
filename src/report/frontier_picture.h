// Draws the frontiers of all planners, for the page and for a file of its own.
#pragma once

#include "draw/svg_canvas.h"
#include "report/report.h"

namespace flyball {

// Draws what frontier_svg() (report.h) puts into a file. `width` is in pixels.
[[nodiscard]] SvgCanvas frontier_canvas(const ReportInput& input, int width);

}  // namespace flyball
