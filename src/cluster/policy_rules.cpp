#include "cluster/policy_rules.h"

#include <algorithm>

namespace flyball {

SpeedRule SpeedRule::one_clock(const PolicyOptions& options) {
  SpeedRule rule;
  rule.clock_ = options.clock;
  return rule;
}

SpeedRule SpeedRule::zeus(const PolicyOptions& options) {
  SpeedRule rule;
  rule.zeus_eta_ = options.zeus_eta;
  return rule;
}

int SpeedRule::operator()(const ClusterState& cluster, int job, int gpus) const {
  if (!zeus_eta_) return clock_ ? cluster.speed_of_clock(job, *clock_) : cluster.top_speed(job);
  const Watts most = cluster.spec.p_max * gpus;
  const auto cost_at = [&](int speed) {
    const IterationCost& cost = cluster.believed_cost(job, gpus, speed);
    return cost.energy * *zeus_eta_ + most * cost.time * (1.0 - *zeus_eta_);
  };
  int best = 0;
  for (int speed = 1; speed <= cluster.top_speed(job); ++speed) {
    if (cost_at(speed) < cost_at(best)) best = speed;
  }
  return best;
}

std::size_t run_in_order(const ClusterState& cluster, const SpeedRule& speed, std::vector<int>& order,
                         Decision& decision) {
  int free = cluster.spec.gpus();
  std::size_t running = 0;
  std::vector<int> passed_over;
  for (const int job : order) {
    const ClusterJob& one = cluster.jobs[static_cast<std::size_t>(job)];
    if (one.requested_gpus <= free) {
      free -= one.requested_gpus;
      order[running++] = job;
      if (one.has_gpus()) continue;
      decision.assignments.push_back({job, one.requested_gpus, speed(cluster, job, one.requested_gpus)});
    } else {
      passed_over.push_back(job);
      if (one.has_gpus()) decision.assignments.push_back({job, 0, 0});
    }
  }
  std::copy(passed_over.begin(), passed_over.end(), order.begin() + static_cast<std::ptrdiff_t>(running));
  return running;
}

}  // namespace flyball
