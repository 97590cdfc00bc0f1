// Looks up the costs of jobs, and brings their progress forward to the present time.
#include "cluster/cluster_state.h"

#include <algorithm>

#include "base/index.h"

namespace flyball {

int ClusterJobKind::size_index(int gpus) const {
  const auto found = std::lower_bound(sizes.begin(), sizes.end(), gpus);
  return found == sizes.end() || *found != gpus ? -1 : static_cast<int>(found - sizes.begin());
}

std::vector<int> ClusterJobKind::elastic_sizes() const {
  if (!elastic) return sizes;
  std::vector<int> chosen;
  for (const int gpus : sizes) {
    if ((gpus & (gpus - 1)) == 0 && gpus <= batch_size) chosen.push_back(gpus);
  }
  return chosen;
}

const ClusterJobKind& ClusterState::kind_of(int job) const { return kinds[at(jobs[at(job)].kind)]; }

const IterationCost& ClusterState::believed_cost(int job, int gpus, int speed) const {
  const int kind = jobs[at(job)].kind;
  return believed[at(kind)].at(at(kinds[at(kind)].size_index(gpus)), at(speed));
}

Seconds ClusterState::restart_of(int kind) const { return kinds[at(kind)].restart.value_or(spec.restart); }

// A job of several nodes has all GPUs of each.
Seconds ClusterState::change_of(int kind, int from, int to) const {
  const bool gives_nodes_up = to < from && to % spec.gpus_per_node == 0;
  return gives_nodes_up ? kinds[at(kind)].shrink.value_or(restart_of(kind)) : restart_of(kind);
}

Watts ClusterState::counted_now(int job) const {
  const ClusterJob& one = jobs[at(job)];
  const Watts assigned = counted(one.kind, at(kinds[at(one.kind)].size_index(one.gpus)), at(one.speed));
  return one.phase == JobPhase::kProfiling ? std::max(assigned, one.power) : assigned;
}

bool ClusterState::to_be_profiled(int job, int size) const {
  const ClusterJob& one = jobs[at(job)];
  if (!profiling || !kinds[at(one.kind)].elastic || one.was_profiled(size)) return false;
  return profiled_sizes.empty() || (profiled_sizes[at(one.kind)] >> size & 1) == 0;
}

bool ClusterState::is_held(int job) const {
  const ClusterJob& one = jobs[at(job)];
  return one.has_gpus() && (one.to_profile || one.in_transition);
}

double ClusterState::remaining_iterations(int job) const {
  const ClusterJob& one = jobs[at(job)];
  return std::max(0.0, one.iterations - one.done - one.iterations_per_second * (now - one.since).value());
}

Seconds ClusterState::attained_gpu_seconds(int job) const {
  const ClusterJob& one = jobs[at(job)];
  return one.gpu_time + (now - one.since) * one.own_gpus();
}

Seconds ClusterState::remaining_time(int job, int gpus, int speed) const {
  return believed_cost(job, gpus, speed).time * remaining_iterations(job);
}

int ClusterState::top_speed(int job) const { return static_cast<int>(kind_of(job).speeds) - 1; }

int ClusterState::speed_of_clock(int job, Megahertz clock) const {
  const ClusterJobKind& kind = kind_of(job);
  if (kind.clocks.empty()) return top_speed(job);
  const auto above = std::upper_bound(kind.clocks.begin(), kind.clocks.end(), clock);
  return std::max(0, static_cast<int>(above - kind.clocks.begin()) - 1);
}

}  // namespace flyball
