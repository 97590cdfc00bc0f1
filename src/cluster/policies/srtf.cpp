// Shortest remaining time first, preemptive and not elastic: of all jobs, those that would be done soonest with the GPUs
// that they asked for hold them. It knows how long jobs run, which nobody does: a yardstick.
#include <algorithm>
#include <utility>
#include <vector>

#include "cluster/policy_rules.h"

namespace flyball {
namespace {

class Srtf : public Policy {
 public:
  explicit Srtf(const PolicyOptions& options) : speed_(SpeedRule::one_clock(options)) {}

  [[nodiscard]] PolicyTraits traits() const override { return {}; }

  void decide(const ClusterState& cluster, const ClusterEvents& /*events*/, Decision& decision) override {
    shortest_.clear();
    for (const int job : cluster.active) {
      const int gpus = cluster.jobs[static_cast<std::size_t>(job)].requested_gpus;
      shortest_.emplace_back(cluster.remaining_time(job, gpus, speed_(cluster, job, gpus)), job);
    }
    std::sort(shortest_.begin(), shortest_.end());
    order_.clear();
    for (const auto& [time, job] : shortest_) order_.push_back(job);
    (void)run_in_order(cluster, speed_, order_, decision);
  }

 private:
  SpeedRule speed_;
  std::vector<std::pair<Seconds, int>> shortest_;  // reused, as is the order
  std::vector<int> order_;
};

}  // namespace

void add_srtf_policies(PolicyRegistry& registry) {
  registry.add("srtf", "SRTF", PolicySetting::kClock,
               [](const PolicyOptions& options) { return std::make_unique<Srtf>(options); });
}

}  // namespace flyball
