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

  void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) override {
    if (shortest_.empty()) {  // also after a restart
      for (const int job : cluster.active) shortest_.emplace_back(Seconds(0.0), job);
    } else {
      std::erase_if(shortest_, [&](const auto& one) {
        return std::binary_search(events.finished.begin(), events.finished.end(), one.second);
      });
      for (const int job : events.arrived) shortest_.emplace_back(Seconds(0.0), job);
    }
    for (auto& [time, job] : shortest_) {
      const int gpus = cluster.jobs[static_cast<std::size_t>(job)].requested_gpus;
      time = cluster.remaining_time(job, gpus, speed_(cluster, job, gpus));
    }
    sort_again(shortest_, apart_);
    order_.clear();
    for (const auto& [time, job] : shortest_) order_.push_back(job);
    (void)run_in_order(cluster, speed_, order_, decision);
  }

 private:
  SpeedRule speed_;
  std::vector<std::pair<Seconds, int>> shortest_;  // all active jobs, as they were ranked last
  std::vector<std::pair<Seconds, int>> apart_;     // reused, as is the order
  std::vector<int> order_;
};

}  // namespace

void add_srtf_policies(PolicyRegistry& registry) {
  registry.add("srtf", "SRTF", PolicySetting::kClock,
               [](const PolicyOptions& options) { return std::make_unique<Srtf>(options); });
}

}  // namespace flyball
