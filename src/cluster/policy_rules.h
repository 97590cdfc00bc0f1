// What policies share that keep jobs at the GPUs they asked for: the speed of a job, and who runs when jobs are
// served in an order (with fitting_queue.h, without looking at all who wait).
#pragma once

#include <optional>

#include "cluster/policy.h"

namespace flyball {

// The speed of jobs under a policy that weighs no speeds itself.
class SpeedRule {
 public:
  // PolicyOptions::clock for all jobs; without it, each as fast as it can.
  [[nodiscard]] static SpeedRule one_clock(const PolicyOptions& options);

  // Zeus (You, Chung, Chowdhury: "Zeus: Understanding and Optimizing GPU Energy Consumption of DNN Training", NSDI
  // 2023) at the job's own batch size: the speed of least eta * energy + (1 - eta) * MAXPOWER * time, with
  // PolicyOptions::zeus_eta. MAXPOWER is ClusterSpec::p_max for each of the job's GPUs. Of equals the slower one.
  [[nodiscard]] static SpeedRule zeus(const PolicyOptions& options);

  // Of a job that has so many GPUs, a size of its kind.
  [[nodiscard]] int operator()(const ClusterState& cluster, int job, int gpus) const;

 private:
  std::optional<Megahertz> clock_;
  std::optional<double> zeus_eta_;
};

// Deals a cluster's GPUs out anew, to jobs in the order in which they are offered: each gets what it asked for if so
// much is left; one that does not fit is passed over, and loses the GPUs that it had.
class Dealing {
 public:
  // All of them are kept by reference.
  Dealing(const ClusterState& cluster, const SpeedRule& speed, Decision& decision)
      : cluster_(&cluster), speed_(&speed), decision_(&decision), left_(cluster.spec.gpus()) {}

  // Whether the job runs. Adds to the decision what that changes.
  bool offer(int job);
  [[nodiscard]] int left() const { return left_; }  // GPUs

 private:
  const ClusterState* cluster_;
  const SpeedRule* speed_;
  Decision* decision_;
  int left_;
};

}  // namespace flyball
