// Helpers of policies that give jobs as many GPUs as they asked for: a rule for a job's speed, and the dealing out of
// GPUs in an order of the jobs.
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
  // The rule that takes PolicyOptions::clock for all jobs or, where it has no value, each job's fastest speed.
  [[nodiscard]] static SpeedRule one_clock(const PolicyOptions& options);

  // The rule of Zeus (You, Chung, Chowdhury: "Zeus: Understanding and Optimizing GPU Energy Consumption of DNN
  // Training", NSDI 2023) at the job's own batch size. It takes the speed of least eta * energy + (1 - eta) * MAXPOWER
  // * time, with PolicyOptions::zeus_eta for eta and ClusterSpec::p_max for the MAXPOWER of each GPU; of equals, the
  // slower speed.
  [[nodiscard]] static SpeedRule zeus(const PolicyOptions& options);

  // Returns the speed of a job on this number of GPUs, which must be a size of its kind.
  [[nodiscard]] int operator()(const ClusterState& cluster, int job, int gpus) const;

 private:
  std::optional<Megahertz> clock_;
  std::optional<double> zeus_eta_;
};

// Sorts items that were in order before a few of them changed. No two items may be equal. `apart` is scratch space that
// the caller keeps to save allocations.
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

// Deals a cluster's GPUs out anew, to jobs in the order in which offer() names them. Each job gets the number of GPUs
// that it asked for if that many are left, and otherwise is passed over and loses the GPUs that it had.
class Dealing {
 public:
  // Keeps references to all three, which must outlive this object.
  Dealing(const ClusterState& cluster, const SpeedRule& speed, Decision& decision)
      : cluster_(&cluster), speed_(&speed), decision_(&decision), left_(cluster.gpus()) {}

  // Offers GPUs to the job, adds what that changes to the decision, and returns whether the job gets them.
  bool offer(int job);
  [[nodiscard]] int left() const { return left_; }  // GPUs

 private:
  const ClusterState* cluster_;
  const SpeedRule* speed_;
  Decision* decision_;
  int left_;
};

}  // namespace flyball
