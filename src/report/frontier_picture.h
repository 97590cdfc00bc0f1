// The frontier plot, for the page and for its own file.
#pragma once

#include "report/report.h"
#include "report/svg_canvas.h"

namespace flyball {

[[nodiscard]] SvgCanvas frontier_canvas(const ReportInput& input, int width);

}  // namespace flyball
