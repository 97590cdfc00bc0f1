// Reports what a simulated cluster did with its jobs, as one HTML page.
#pragma once

#include <string>
#include <vector>

#include "cluster/simulator.h"
#include "draw/svg_canvas.h"
#include "report/time_charts.h"

namespace flyball {

// What the page is made from, and must outlive the report. The simulation must have ended, must have been recorded
// (SimulationSetup::record), and must have at least one job.
struct ClusterReport {
  const SimulationSetup& setup;
  const Simulation& simulation;
  std::string command;  // the command that made the simulation
};

// A figure of a simulation, with the name and unit by which all listings show it.
struct ClusterFigure {
  std::string name;
  double value = 0.0;
  int decimals = 0;
  std::string unit;
};
[[nodiscard]] std::vector<ClusterFigure> cluster_figures(const SimulationResult& result);

// Returns the page as one self-contained file.
[[nodiscard]] std::string cluster_html(const ClusterReport& report);

// The pictures of the page (cluster_history_picture.cpp). `width` is in pixels.

// The GPUs held by jobs, the jobs that wait, and the power over time (PowerFlow, figure 8).
[[nodiscard]] TimeCharts usage_charts(const ClusterReport& report);
// Draws the share of the jobs that are done within a time after their submission.
[[nodiscard]] SvgCanvas jct_picture(const ClusterReport& report, int width);
// Draws a row per job, from its submission on. Of many jobs only every n-th is shown, n being shown_job_step().
[[nodiscard]] SvgCanvas job_picture(const ClusterReport& report, int width);
// Returns the n for which job_picture() shows every n-th job.
[[nodiscard]] std::size_t shown_job_step(std::size_t jobs);

}  // namespace flyball
