// First in, first out: jobs start in the order of submission, with the GPUs that they asked for, and keep them. A job
// that does not fit holds back all behind it.
#include <deque>

#include "cluster/policy_rules.h"

namespace flyball {
namespace {

class Fifo : public Policy {
 public:
  explicit Fifo(const PolicyOptions& options) : speed_(SpeedRule::one_clock(options)) {}

  [[nodiscard]] PolicyTraits traits() const override { return {}; }

  void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) override {
    waiting_.insert(waiting_.end(), events.arrived.begin(), events.arrived.end());
    int free = cluster.free_gpus;
    while (!waiting_.empty()) {
      const int job = waiting_.front();
      const int gpus = cluster.jobs[static_cast<std::size_t>(job)].requested_gpus;
      if (gpus > free) break;
      free -= gpus;
      decision.assignments.push_back({job, gpus, speed_(cluster, job, gpus)});
      waiting_.pop_front();
    }
  }

 private:
  SpeedRule speed_;
  std::deque<int> waiting_;
};

}  // namespace

void add_fifo_policies(PolicyRegistry& registry) {
  registry.add("fifo", "FIFO", PolicySetting::kClock,
               [](const PolicyOptions& options) { return std::make_unique<Fifo>(options); });
}

}  // namespace flyball
