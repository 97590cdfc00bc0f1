// The frontier plot, for the page and for its own file.
#pragma once

#include "draw/svg_canvas.h"
#include "report/report.h"

namespace flyball {

[[nodiscard]] SvgCanvas frontier_canvas(const ReportInput& input, int width);

}  // namespace flyball
