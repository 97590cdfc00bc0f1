// What policies share that keep jobs at the GPUs they asked for: the speed of a job, and who runs when jobs are
// served in an order (with fitting_queue.h, without looking at all who wait).
#pragma once

#include <algorithm>
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

// Sorts what was in order the last time and has changed in few places since: O(items + changes log changes). No two
// items may be equal. `apart` is reused.
template <class Item>
void sort_again(std::vector<Item>& items, std::vector<Item>& apart) {
  apart.clear();
  std::size_t kept = 0;
  for (const Item& item : items) {
    if (kept > 0 && item < items[kept - 1]) {  // one of the two is out of place
      apart.push_back(item);
      apart.push_back(items[--kept]);
    } else {
      items[kept++] = item;
    }
  }
  if (apart.empty()) return;
  std::sort(apart.begin(), apart.end());
  std::copy(apart.begin(), apart.end(), items.begin() + static_cast<std::ptrdiff_t>(kept));
  std::inplace_merge(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(kept), items.end());
}

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
