// Policies side by side on one trace and one cluster: average JCT against energy (PowerFlow section 6.2, figure 7).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/simulator.h"

namespace flyball {

// What to run. Every policy runs at each of the settings that move it along its curve (PolicySetting); where its list
// is empty, once as the setup and the options say.
struct ComparisonRequest {
  std::vector<std::string> policies;
  std::vector<Megahertz> clocks;
  std::vector<double> etas;
  std::vector<double> zeus_etas;
  bool record = false;  // keep what reports need of every run
};

struct ComparedRun {
  std::string policy;
  PolicySetting setting = PolicySetting::kClock;
  double value = 0.0;  // of the setting; clocks in MHz
  SimulationResult result;
  // Where it was recorded:
  std::vector<ClusterPower> usage;
  std::vector<double> jcts_s;  // of all jobs, rising
};

// "1530 MHz", "eta 0.7", "Zeus eta 0.5".
[[nodiscard]] std::string setting_text(const ComparedRun& run);

// In the order of the request: by policy, then as its settings are listed. Uses all processors; the runs do not depend
// on that. `keep_going(share done)` is called by this thread now and then, and at the end; when it says no, nothing is
// returned. Throws UsageError for policies that are unknown, named twice or none, and what Simulation throws.
[[nodiscard]] std::vector<ComparedRun> compare_policies(const SimulationSetup& setup, const GroundTruth& truth,
                                                        const JobTrace& trace, const PolicyOptions& options,
                                                        const ComparisonRequest& request,
                                                        const std::function<bool(double)>& keep_going = nullptr);

// The average JCT that `policy` reaches with that much energy and no more: on the line between its runs next below and
// next above, of those that none of its others beats in both; beyond the dearest of them, its own. nullopt below the
// thriftiest.
[[nodiscard]] std::optional<double> jct_at_energy(const std::vector<ComparedRun>& runs, std::string_view policy,
                                                  double energy_j);

// What runs are measured by: the default policy's first one, or the first of all. At least one run.
[[nodiscard]] const ComparedRun& reference_run(const std::vector<ComparedRun>& runs);

// The run's JCT over what the reference's policy reaches with the run's energy, where its runs tell.
[[nodiscard]] std::optional<double> jct_ratio_at_equal_energy(const std::vector<ComparedRun>& runs,
                                                              const ComparedRun& run);

// One run of each policy, in the order of the policies: those whose energies are nearest to one another, which is where
// schedules can be compared over time (PowerFlow, figure 8). O(runs^2).
[[nodiscard]] std::vector<const ComparedRun*> runs_of_like_energy(const std::vector<ComparedRun>& runs);

}  // namespace flyball
