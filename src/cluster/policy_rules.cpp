// Zeus's rule tries every speed of the job. Dealing adds to the decision only what changes.
#include "cluster/policy_rules.h"

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

bool Dealing::offer(int job) {
  const ClusterJob& one = cluster_->jobs[static_cast<std::size_t>(job)];
  const int gpus = one.requested_gpus;
  if (gpus > left_) {
    if (one.has_gpus()) decision_->assignments.push_back({job, 0, 0});
    return false;
  }
  left_ -= gpus;
  if (!one.has_gpus()) decision_->assignments.push_back({job, gpus, (*speed_)(*cluster_, job, gpus)});
  return true;
}

}  // namespace flyball
