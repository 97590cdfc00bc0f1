// What a simulated cluster did with its jobs, as one HTML page.
#pragma once

#include <string>
#include <vector>

#include "cluster/simulator.h"
#include "draw/svg_canvas.h"

namespace flyball {

// A simulation that has been recorded (SimulationSetup::record) and is done, with one job at least.
struct ClusterReport {
  const SimulationSetup& setup;
  const Simulation& simulation;
  std::string command;  // that made it
};

// The figures of a simulation, as every listing of them shows them.
struct ClusterFigure {
  std::string name;
  double value = 0.0;
  int decimals = 0;
  std::string unit;
};
[[nodiscard]] std::vector<ClusterFigure> cluster_figures(const SimulationResult& result);

// One self-contained file.
[[nodiscard]] std::string cluster_html(const ClusterReport& report);

// The pictures (cluster_history_picture.cpp). `width` in pixels.

// GPUs that jobs hold, jobs that wait, and power, over time (PowerFlow, figure 8): means over a pixel's time each.
[[nodiscard]] SvgCanvas usage_picture(const ClusterReport& report, int width);
// The share of the jobs that are done within a time after their submission.
[[nodiscard]] SvgCanvas jct_picture(const ClusterReport& report, int width);
// A row per job from its submission on. Of many jobs every so many-th.
[[nodiscard]] SvgCanvas job_picture(const ClusterReport& report, int width);
// Every how many-th job job_picture() shows.
[[nodiscard]] std::size_t shown_job_step(std::size_t jobs);

}  // namespace flyball
