// Shortest remaining time first, preemptive and not elastic: the jobs that would be done soonest with the GPUs that
// they asked for hold them. The policy needs to know how long jobs run. No real scheduler knows that, so this one
// serves as a yardstick.
//
// Cost of a decision: O(jobs with GPUs, and log jobs for each that starts or stops), however many wait, since the
// remaining time of a job that waits does not change.
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
    const auto has_gpus = [&](int job) { return cluster.jobs[static_cast<std::size_t>(job)].has_gpus(); };
    for (const int job : events.arrived) wait(cluster, job);
    for (const int job : stopped_) wait(cluster, job);
    std::erase_if(running_, [&](const Place& one) { return !has_gpus(one.job); });  // it has finished
    stopped_.clear();
    for (Place& one : running_) one = place_of(cluster, one.job);
    sort_again(running_, apart_);
    served_.clear();
    Dealing dealing(cluster, speed_, decision);
    for (auto next = running_.begin();;) {
      const std::optional<Place> waits = waiting_.first(dealing.left());
      if (next != running_.end() && (!waits || *next < *waits)) {
        if (dealing.offer(next->job)) {
          served_.push_back(*next);
        } else {
          stopped_.push_back(next->job);
        }
        ++next;
      } else if (waits) {
        waiting_.remove(gpus_of(cluster, waits->job), *waits);
        dealing.offer(waits->job);
        served_.push_back(*waits);
      } else {
        break;
      }
    }
    std::swap(running_, served_);
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
  FittingQueue<double> waiting_;
  // By the last decision:
  std::vector<Place> running_;  // as they were ranked
  std::vector<int> stopped_;    // they wait now
  std::vector<Place> apart_;    // reused, as is what follows
  std::vector<Place> served_;
};

}  // namespace

void add_srtf_policies(PolicyRegistry& registry) {
  registry.add("srtf", "SRTF", PolicySetting::kClock,
               [](const PolicyOptions& options) { return std::make_unique<Srtf>(options); });
}

}  // namespace flyball
