// Several policies on one trace, side by side, as one HTML page.
#pragma once

#include <string>
#include <vector>

#include "cluster/comparison.h"
#include "draw/svg_canvas.h"

namespace flyball {

// Runs that have been recorded (ComparisonRequest::record), one at least, with one job at least.
struct ComparisonReport {
  const std::vector<ComparedRun>& runs;
  const ClusterSpec& spec;  // complete
  std::string command;      // that made it
};

// One self-contained file: the runs as a table, average JCT against energy (PowerFlow, figure 7), GPUs in use and power
// over time (figure 8) and the distributions of completion times of the runs of like energy.
[[nodiscard]] std::string comparison_html(const ComparisonReport& report);

// GPUs in use and power over time, a strip per run with the first one's line behind it; means over a pixel's time each.
// Narrow pictures have the power below the GPUs, wide ones beside them.
[[nodiscard]] SvgCanvas policy_usage_picture(const std::vector<const ComparedRun*>& runs, const ClusterSpec& spec,
                                             int width);
// The share of the jobs that are done within a time after their submission, a line per run.
[[nodiscard]] SvgCanvas policy_jct_picture(const std::vector<const ComparedRun*>& runs, int width);

}  // namespace flyball
