// The plot of the frontier, for the page and for a file of its own.
#pragma once

#include "draw/svg_canvas.h"
#include "report/report.h"

namespace flyball {

[[nodiscard]] SvgCanvas frontier_canvas(const ReportInput& input, int width);

}  // namespace flyball
