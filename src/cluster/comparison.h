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
// the list of that setting's values is empty, the policy runs once, as SimulationSetup and PolicyOptions say.
struct ComparisonRequest {
  std::vector<std::string> policies;
  std::vector<Megahertz> clocks;
  std::vector<double> etas;
  std::vector<double> zeus_etas;
  bool record = false;  // whether to keep what reports need of every run
};

struct ComparedRun {
  std::string policy;
  PolicySetting setting = PolicySetting::kClock;
  double value = 0.0;  // of the setting; clocks in MHz
  SimulationResult result;
  // The next two are filled only if the run was recorded.
  std::vector<ClusterPower> usage;
  std::vector<double> jcts_s;  // of all jobs, rising
};

// Returns the run's setting and its value, such as "1530 MHz", "eta 0.7" or "Zeus eta 0.5".
[[nodiscard]] std::string setting_text(const ComparedRun& run);

// Runs the comparison and returns its runs in the order of the request: by policy, then as its settings are listed.
// Uses all processors, without effect on the results. The calling thread calls `keep_going(share done)` now and then,
// and at the end; if it returns false, no runs are returned. Throws UsageError where no policy is named, or one that is
// unknown or was named before, and as Simulation does.
[[nodiscard]] std::vector<ComparedRun> compare_policies(const SimulationSetup& setup, const GroundTruth& truth,
                                                        const JobTrace& trace, const PolicyOptions& options,
                                                        const ComparisonRequest& request,
                                                        const std::function<bool(double)>& keep_going = nullptr);

// Returns the average JCT in seconds that `policy` reaches with at most that energy. It lies on the line between the
// policy's runs next below and next above in energy, where runs that another one beats in both JCT and energy are left
// out. Above the run of most energy, it is the JCT of that run. There is none below the run of least energy.
[[nodiscard]] std::optional<double> jct_at_energy(const std::vector<ComparedRun>& runs, std::string_view policy,
                                                  double energy_j);

// Returns the run with which others are compared: the default policy's first run, or the first of all. Requires at
// least one run.
[[nodiscard]] const ComparedRun& reference_run(const std::vector<ComparedRun>& runs);

// Returns the run's JCT over that of the reference run's policy at the same energy, or none where that policy has no
// such energy.
[[nodiscard]] std::optional<double> jct_ratio_at_equal_energy(const std::vector<ComparedRun>& runs,
                                                              const ComparedRun& run);

// Returns one run of each policy, in the order of the policies, chosen so that their energies are as near to one
// another as possible. Such runs can be compared over time (PowerFlow, figure 8). Cost: O(runs^2).
[[nodiscard]] std::vector<const ComparedRun*> runs_of_like_energy(const std::vector<ComparedRun>& runs);

}  // namespace flyball
