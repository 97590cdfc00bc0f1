// Draws average JCT against energy for several policies, as in PowerFlow's figure 7.
#pragma once

#include <vector>

#include "cluster/comparison.h"
#include "draw/svg_canvas.h"

namespace flyball {

// Returns a picture with a curve per policy, from its run of least energy on, and a mark per run. The JCT axis is
// logarithmic, since policies differ by factors. `width` is in pixels. Requires at least one run.
[[nodiscard]] SvgCanvas jct_energy_picture(const std::vector<ComparedRun>& runs, int width);

}  // namespace flyball
