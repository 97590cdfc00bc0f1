// One initializer, in the order in which the fields are printed. The command that measures how long a run took adds
// wall_seconds itself.
#include "cli/cluster_output.h"

#include <nlohmann/json.hpp>

namespace flyball {

nlohmann::ordered_json result_json(const SimulationResult& result) {
  return {{"policy", result.policy},
          {"jobs", result.jobs},
          {"avg_jct_s", result.avg_jct_s},
          {"p50_jct_s", result.p50_jct_s},
          {"p99_jct_s", result.p99_jct_s},
          {"makespan_s", result.makespan_s},
          {"energy_j", result.energy_j},
          {"busy_energy_j", result.busy_energy_j},
          {"profiling_energy_j", result.profiling_energy_j},
          {"avg_power_w", result.avg_power_w},
          {"peak_power_w", result.peak_power_w},
          {"gpu_utilisation", result.gpu_utilisation},
          {"migrations", result.migrations},
          {"decisions", result.decisions}};
}

}  // namespace flyball
