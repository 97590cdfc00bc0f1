// Draws a bar for each stage, the longest as wide as there is room.
#include "report/stage_energy_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "draw/text_table.h"
#include "report/timeline_picture.h"

namespace flyball {

SvgCanvas stage_energy_picture(const ReportInput& input, int width) {
  constexpr double kPitch = 24.0;
  constexpr double kNames = 70.0;
  constexpr double kFigures = 80.0;
  const ComputationDag& dag = *input.chosen.dag;
  std::vector<Joules> stages(static_cast<std::size_t>(dag.stages()));
  for (int i = 0; i < dag.size(); ++i) {
    stages[static_cast<std::size_t>(dag.type_of(i).stage)] += option_of(input.chosen, i).energy;
  }
  const Joules most = *std::max_element(stages.begin(), stages.end());
  SvgCanvas svg(width, kPitch * dag.stages(), "Energy of each stage. " + input.title);
  double top = 0.0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const double length = (width - kNames - kFigures) * (stages[stage] / most);
    svg.text(8.0, top + 16.0, fmt::format("stage {}", stage), "small");
    svg.rect(kNames, top + 3.0, length, kPitch - 6.0, "f0");
    svg.text(kNames + length + 6.0, top + 16.0, format_fixed(stages[stage].value(), 1) + " J", "small");
    top += kPitch;
  }
  return svg;
}

}  // namespace flyball
