// The energy of each stage, as bars.
#pragma once

#include "draw/svg_canvas.h"
#include "report/report.h"

namespace flyball {

// Of the chosen plan's computations in one iteration, blocking not included.
[[nodiscard]] SvgCanvas stage_energy_picture(const ReportInput& input, int width);

}  // namespace flyball
