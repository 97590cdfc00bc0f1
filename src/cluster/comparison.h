// Compares policies on one trace and one cluster: average JCT against energy (PowerFlow section 6.2, figure 7).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/simulator.h"

namespace flyball {

// What to run. Every policy runs once for each value of the setting that moves it along its curve (PolicySetting). If
// its list of values is empty, it runs once as setup and options say.
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
  // If recorded:
  std::vector<ClusterPower> usage;
  std::vector<double> jcts_s;  // of all jobs, rising
};

// "1530 MHz", "eta 0.7", "Zeus eta 0.5".
[[nodiscard]] std::string setting_text(const ComparedRun& run);

// Runs in the order of the request: by policy, then as its settings are listed. Uses all processors, without effect on
// the results. The calling thread calls `keep_going(share done)` now and then, and at the end; if it returns false, no
// runs are returned. Throws UsageError for policies that are unknown, named twice or missing, and as Simulation does.
[[nodiscard]] std::vector<ComparedRun> compare_policies(const SimulationSetup& setup, const GroundTruth& truth,
                                                        const JobTrace& trace, const PolicyOptions& options,
                                                        const ComparisonRequest& request,
                                                        const std::function<bool(double)>& keep_going = nullptr);

// The average JCT that `policy` reaches with at most that energy: on the line between its runs next below and next
// above, without runs that another of its runs beats in both. Above its run of most energy, the JCT of that run. None
// below its run of least energy.
[[nodiscard]] std::optional<double> jct_at_energy(const std::vector<ComparedRun>& runs, std::string_view policy,
                                                  double energy_j);

// The run to which others are compared: the default policy's first run, or the first of all. Requires at least one run.
[[nodiscard]] const ComparedRun& reference_run(const std::vector<ComparedRun>& runs);

// The run's JCT over that of the reference's policy at the run's energy; none where the reference has no such energy.
[[nodiscard]] std::optional<double> jct_ratio_at_equal_energy(const std::vector<ComparedRun>& runs,
                                                              const ComparedRun& run);

// One run of each policy, in the order of the policies, with energies as near to one another as there are. On these,
// schedules can be compared over time (PowerFlow, figure 8). Cost: O(runs^2).
[[nodiscard]] std::vector<const ComparedRun*> runs_of_like_energy(const std::vector<ComparedRun>& runs);

}  // namespace flyball
