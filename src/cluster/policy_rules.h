// What policies share that leave jobs the GPUs that they asked for: a rule for a job's speed, and the dealing out of
// GPUs in an order (with fitting_queue.h, without looking at all jobs that wait).
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "cluster/policy.h"

namespace flyball {

// The speed of jobs under a policy that does not choose speeds itself.
class SpeedRule {
 public:
  // PolicyOptions::clock for all jobs; without it, each job's fastest speed.
  [[nodiscard]] static SpeedRule one_clock(const PolicyOptions& options);

  // Zeus (You, Chung, Chowdhury: "Zeus: Understanding and Optimizing GPU Energy Consumption of DNN Training", NSDI
  // 2023) at the job's own batch size: the speed of least eta * energy + (1 - eta) * MAXPOWER * time, with
  // PolicyOptions::zeus_eta and ClusterSpec::p_max as the MAXPOWER of each GPU. Of equals the slower speed.
  [[nodiscard]] static SpeedRule zeus(const PolicyOptions& options);

  // The speed of a job on this number of GPUs, which must be a size of its kind.
  [[nodiscard]] int operator()(const ClusterState& cluster, int job, int gpus) const;

 private:
  std::optional<Megahertz> clock_;
  std::optional<double> zeus_eta_;
};

// Sorts items that were in order before a few of them changed. No two items may be equal. `apart` is scratch space.
// Cost: O(items + changes log changes).
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

// Deals a cluster's GPUs out anew, to jobs in the order in which they are offered: each job gets the number it asked
// for if that many are left, and otherwise is passed over and loses the GPUs that it had.
class Dealing {
 public:
  // Keeps references to all three.
  Dealing(const ClusterState& cluster, const SpeedRule& speed, Decision& decision)
      : cluster_(&cluster), speed_(&speed), decision_(&decision), left_(cluster.spec.gpus()) {}

  // Returns whether the job gets GPUs. Adds what that changes to the decision.
  bool offer(int job);
  [[nodiscard]] int left() const { return left_; }  // GPUs

 private:
  const ClusterState* cluster_;
  const SpeedRule* speed_;
  Decision* decision_;
  int left_;
};

}  // namespace flyball
