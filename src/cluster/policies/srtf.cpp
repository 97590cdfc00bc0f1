// Shortest remaining time first, preemptive and not elastic: of all jobs, those that would be done soonest with the
// GPUs that they asked for hold them. It knows how long jobs run, which nobody does: a yardstick.
//
// Cost of a decision: O(jobs with GPUs * log jobs), however many wait: their remaining times do not change.
#include <algorithm>
#include <optional>
#include <vector>

#include "cluster/fitting_queue.h"
#include "cluster/policy_rules.h"

namespace flyball {
namespace {

class Srtf : public Policy {
 public:
  explicit Srtf(const PolicyOptions& options) : speed_(SpeedRule::one_clock(options)) {}

  [[nodiscard]] PolicyTraits traits() const override { return {}; }

  void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) override {
    if (begun_) {
      for (const int job : events.arrived) wait(cluster, job);
      for (const int job : stopped_) wait(cluster, job);
    } else {  // also after a restart
      begun_ = true;
      for (const int job : cluster.active) {
        if (!cluster.jobs[static_cast<std::size_t>(job)].has_gpus()) wait(cluster, job);
      }
    }
    stopped_.clear();
    running_.clear();
    for (const int job : cluster.holding) running_.push_back(place_of(cluster, job));
    std::sort(running_.begin(), running_.end());
    Dealing dealing(cluster, speed_, decision);
    for (auto next = running_.begin();;) {
      const std::optional<Place> waits = waiting_.first(dealing.left());
      if (next != running_.end() && (!waits || *next < *waits)) {
        if (!dealing.offer(next->job)) stopped_.push_back(next->job);
        ++next;
      } else if (waits) {
        waiting_.remove(gpus_of(cluster, waits->job), *waits);
        dealing.offer(waits->job);
      } else {
        break;
      }
    }
  }

 private:
  using Place = JobPlace<double>;  // by remaining time, in s

  static int gpus_of(const ClusterState& cluster, int job) {
    return cluster.jobs[static_cast<std::size_t>(job)].requested_gpus;
  }
  [[nodiscard]] Place place_of(const ClusterState& cluster, int job) const {
    const int gpus = gpus_of(cluster, job);
    return {cluster.remaining_time(job, gpus, speed_(cluster, job, gpus)).value(), job};
  }
  void wait(const ClusterState& cluster, int job) { waiting_.add(gpus_of(cluster, job), place_of(cluster, job)); }

  SpeedRule speed_;
  bool begun_ = false;
  FittingQueue<double> waiting_;
  std::vector<int> stopped_;    // by the last decision: they wait now
  std::vector<Place> running_;  // reused
};

}  // namespace

void add_srtf_policies(PolicyRegistry& registry) {
  registry.add("srtf", "SRTF", PolicySetting::kClock,
               [](const PolicyOptions& options) { return std::make_unique<Srtf>(options); });
}

}  // namespace flyball
