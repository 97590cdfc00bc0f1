// What a simulated cluster did with its jobs, as one HTML page.
#pragma once

#include <string>
#include <vector>

#include "cluster/simulator.h"
#include "draw/svg_canvas.h"

namespace flyball {

// The simulation must be done and recorded (SimulationSetup::record), and have at least one job.
struct ClusterReport {
  const SimulationSetup& setup;
  const Simulation& simulation;
  std::string command;  // the command that made the simulation
};

// A figure of a simulation, as all listings show it.
struct ClusterFigure {
  std::string name;
  double value = 0.0;
  int decimals = 0;
  std::string unit;
};
[[nodiscard]] std::vector<ClusterFigure> cluster_figures(const SimulationResult& result);

// The page as one self-contained file.
[[nodiscard]] std::string cluster_html(const ClusterReport& report);

// The pictures (cluster_history_picture.cpp). `width` in pixels.

// GPUs held by jobs, jobs that wait, and power over time (PowerFlow, figure 8); each pixel shows the mean over its
// time.
[[nodiscard]] SvgCanvas usage_picture(const ClusterReport& report, int width);
// The share of the jobs that are done within a time after their submission.
[[nodiscard]] SvgCanvas jct_picture(const ClusterReport& report, int width);
// A row per job, from its submission on. Of many jobs only every n-th is shown, n being shown_job_step().
[[nodiscard]] SvgCanvas job_picture(const ClusterReport& report, int width);
// The n for which job_picture() shows every n-th job.
[[nodiscard]] std::size_t shown_job_step(std::size_t jobs);

}  // namespace flyball
