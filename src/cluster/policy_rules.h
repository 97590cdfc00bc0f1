// What policies share that keep jobs at the GPUs they asked for: the speed of a job, and who runs when jobs are served in
// an order.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "cluster/policy.h"

namespace flyball {

// The speed of jobs under a policy that weighs no speeds itself.
class SpeedRule {
 public:
  // PolicyOptions::clock for all jobs; without it, each as fast as it can.
  [[nodiscard]] static SpeedRule one_clock(const PolicyOptions& options);

  // Zeus (You, Chung, Chowdhury: "Zeus: Understanding and Optimizing GPU Energy Consumption of DNN Training", NSDI 2023)
  // at the job's own batch size: the speed of least eta * energy + (1 - eta) * MAXPOWER * time, with
  // PolicyOptions::zeus_eta. MAXPOWER is ClusterSpec::p_max for each of the job's GPUs. Of equals the slower one.
  [[nodiscard]] static SpeedRule zeus(const PolicyOptions& options);

  // Of a job that has so many GPUs, a size of its kind.
  [[nodiscard]] int operator()(const ClusterState& cluster, int job, int gpus) const;

 private:
  std::optional<Megahertz> clock_;
  std::optional<double> zeus_eta_;
};

// `order` holds all active jobs, the first to be served first. Each gets the GPUs that it asked for if so many are left;
// one that does not fit is passed over, and loses the GPUs that it had. Afterwards `order` begins with the jobs that run,
// and how many those are is returned.
[[nodiscard]] std::size_t run_in_order(const ClusterState& cluster, const SpeedRule& speed, std::vector<int>& order,
                                       Decision& decision);

}  // namespace flyball
