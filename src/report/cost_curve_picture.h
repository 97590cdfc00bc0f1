// Draws cost curves, in one small picture per operation type.
#pragma once

#include <cstddef>
#include <vector>

#include "draw/svg_canvas.h"
#include "report/report.h"

namespace flyball {

// Returns the operation types that have a choice of clocks, as indices, sorted by stage and instruction.
[[nodiscard]] std::vector<std::size_t> types_with_choice(const ComputationDag& dag);

// Draws net energy against time of one operation type: the measured options, of which the Pareto-optimal ones are
// filled; their hull; the exponential curve, where that is the cost model; and a ring around each option that
// `input.chosen` uses. `width` is in pixels.
[[nodiscard]] SvgCanvas cost_curve_canvas(const ReportInput& input, std::size_t type, int width);

}  // namespace flyball
