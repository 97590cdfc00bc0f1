// Reports several policies on one trace, side by side, as one HTML page.
#pragma once

#include <string>
#include <vector>

#include "cluster/comparison.h"
#include "draw/svg_canvas.h"
#include "report/time_charts.h"

namespace flyball {

// What the page is made from, and must outlive the report. The runs must have been recorded
// (ComparisonRequest::record). There must be at least one run and one job.
struct ComparisonReport {
  const std::vector<ComparedRun>& runs;
  const ClusterSpec& spec;  // with all fields filled in
  std::string command;      // the command that made the comparison
};

// Returns the page as one self-contained file: a table of the runs, average JCT against energy (PowerFlow, figure 7),
// and, for runs that take about the same energy, GPUs in use and power over time (figure 8) and the distribution of
// completion times.
[[nodiscard]] std::string comparison_html(const ComparisonReport& report);

// GPUs in use and power over time: two charts per run, with the first run's line behind its own.
[[nodiscard]] TimeCharts policy_usage_charts(const std::vector<const ComparedRun*>& runs, const ClusterSpec& spec);
// Draws the share of the jobs that are done within a time after their submission, with a line per run.
[[nodiscard]] SvgCanvas policy_jct_picture(const std::vector<const ComparedRun*>& runs, int width);

}  // namespace flyball
