// Average JCT against energy for several policies, as in PowerFlow's figure 7.
#pragma once

#include <vector>

#include "cluster/comparison.h"
#include "draw/svg_canvas.h"

namespace flyball {

// A curve per policy, from its run of least energy on; a mark per run. JCT is logarithmic, since policies differ by
// factors. At least one run.
[[nodiscard]] SvgCanvas jct_energy_picture(const std::vector<ComparedRun>& runs, int width);

}  // namespace flyball
