// Each fit sees only packed configurations up to a size, and is judged by the ratio of times on twice that size.
#include "cluster/outside_error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "base/median.h"
#include "cluster/job_model.h"

namespace flyball {
namespace {

using ShapeKey = std::tuple<int, int, double, double>;  // GPUs, nodes, batch, clock

ShapeKey shape_of(const JobConfiguration& one) { return {one.gpus, one.nodes, one.batch_size, one.clock.value()}; }

}  // namespace

OutsideError outside_error(std::span<const JobMeasurement> measured, Megahertz f0) {
  int node = 1;
  int most = 1;
  for (const JobMeasurement& row : measured) {
    if (row.configuration.nodes == 1) node = std::max(node, row.configuration.gpus);
    most = std::max(most, row.configuration.gpus);
  }
  const auto nodes_of = [&](int gpus) { return (gpus + node - 1) / node; };
  std::map<ShapeKey, std::vector<double>> times;
  for (const JobMeasurement& row : measured) times[shape_of(row.configuration)].push_back(row.cost.time.value());

  OutsideError result;
  for (int gpus = 1; 2 * gpus <= most; gpus *= 2) {
    std::vector<JobMeasurement> seen;
    for (const JobMeasurement& row : measured) {
      if (row.configuration.gpus <= gpus && row.configuration.nodes == nodes_of(row.configuration.gpus)) {
        seen.push_back(row);
      }
    }
    if (seen.empty()) continue;
    const JobModel model = fit_job_model(seen, f0);
    OutsideError::Step& step = result.steps[2 * gpus <= node ? 0 : gpus <= node ? 1 : 2];
    for (const auto& [key, here] : times) {
      const auto& [n, on_nodes, batch, clock] = key;
      const auto twice = times.find({2 * gpus, nodes_of(2 * gpus), batch, clock});
      if (n != gpus || on_nodes != nodes_of(gpus) || twice == times.end()) continue;
      const Seconds from = model.iteration_time({gpus, on_nodes, batch, Megahertz(clock)});
      const Seconds to = model.iteration_time({2 * gpus, nodes_of(2 * gpus), batch, Megahertz(clock)});
      step.error += std::abs((to / from) * median(here) / median(twice->second) - 1.0);
      ++step.count;
    }
  }
  for (OutsideError::Step& step : result.steps) {
    step.error = step.count > 0 ? step.error / step.count : std::numeric_limits<double>::quiet_NaN();
  }
  return result;
}

}  // namespace flyball
