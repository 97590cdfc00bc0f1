// Last in, first out: of the jobs that wait, the newest starts first, with the GPUs that it asked for, and keeps them.
// One that does not fit holds back all that came before it.
#include <vector>

#include "cluster/policy_rules.h"

namespace flyball {
namespace {

class Lifo final : public Policy {
 public:
  explicit Lifo(const PolicyOptions& options) : speed_(SpeedRule::one_clock(options)) {}

  [[nodiscard]] PolicyTraits traits() const override { return {}; }

  void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) override {
    waiting_.insert(waiting_.end(), events.arrived.begin(), events.arrived.end());
    int free = cluster.free_gpus;
    while (!waiting_.empty()) {
      const int job = waiting_.back();
      const int gpus = cluster.jobs[static_cast<std::size_t>(job)].requested_gpus;
      if (gpus > free) break;
      free -= gpus;
      decision.assignments.push_back({job, gpus, speed_(cluster, job, gpus)});
      waiting_.pop_back();
    }
  }

 private:
  SpeedRule speed_;
  std::vector<int> waiting_;  // in the order of submission
};

}  // namespace

void add_lifo_policies(PolicyRegistry& registry) {
  registry.add("lifo", "LIFO", PolicySetting::kClock,
               [](const PolicyOptions& options) { return std::make_unique<Lifo>(options); });
}

}  // namespace flyball
