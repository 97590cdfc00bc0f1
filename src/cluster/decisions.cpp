// Carries out a decision: GPUs are given and taken, jobs restart and move, nodes wake.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "cluster/engine.h"

namespace flyball {

void Simulation::Engine::decide() {
  to_decide = false;
  ClusterEvents events_now = std::exchange(happened, {});
  std::sort(events_now.finished.begin(), events_now.finished.end());
  std::sort(events_now.profiled.begin(), events_now.profiled.end());
  decision.clear();
  policy->decide(state, events_now, decision);
  ++decisions;
  timer = decision.wake_at;
  if (timer && *timer <= state.now) throw Error(fmt::format("policy {} asks to be woken in the past", policy_name));
  apply(decision);
}

void Simulation::Engine::check_decision(const Decision& wanted) const {
  const auto refuse = [&](const Assignment& one, const char* what) {
    throw Error(fmt::format("policy {} at {} s: job {} {} ({} GPUs, speed {})", policy_name, state.now.value(), one.job,
                            what, one.gpus, one.speed));
  };
  int free = state.free_gpus;
  std::set<int> left;  // jobs whose partner leaves
  for (const Assignment& one : wanted.assignments) {
    if (one.job < 0 || at(one.job) >= state.jobs.size() || !state.jobs[at(one.job)].active()) {
      refuse(one, "is not there to be scheduled");
    }
    const ClusterJob& job = state.jobs[at(one.job)];
    const ClusterJobKind& kind = state.kinds[at(job.kind)];
    if (one.gpus != 0 && kind.size_index(one.gpus) < 0) refuse(one, "cannot have that many GPUs");
    if (traits.placement == PlacementRule::kPacked && (one.gpus & (one.gpus - 1)) != 0) {
      refuse(one, "is to be packed, which takes a power of two");
    }
    if (one.gpus != 0 && (one.speed < 0 || at(one.speed) >= kind.speeds)) refuse(one, "has no such speed");
    if (job.phase == JobPhase::kProfiling && one.gpus != job.gpus) refuse(one, "is being profiled");
    if (one.partner >= 0) {
      if (const char* const why = not_together(one.job, one.partner, one.gpus)) refuse(one, why);
    }
    const int partner = left.count(one.job) != 0 ? -1 : job.partner;
    if (job.gpus == one.gpus && partner == one.partner) continue;
    if (partner < 0) {
      free += job.gpus;
    } else {
      left.insert(partner);
    }
    if (one.partner < 0) free -= one.gpus;
  }
  if (free < 0)
    throw Error(fmt::format("policy {} at {} s gives away more GPUs than there are", policy_name, state.now.value()));
}

// Says why a job may not share a GPU with another, by what the policy declared and what fits into the memory; null if
// it may.
const char* Simulation::Engine::not_together(int job, int with, int gpus) const {
  if (traits.jobs_per_gpu < 2) return "is to share GPUs, which the policy does not";
  if (with == job || at(with) >= state.jobs.size() || !state.jobs[at(with)].active()) return "has no such partner";
  double memory = 0.0;
  for (const int one : {job, with}) {
    const ClusterJobKind& kind = state.kind_of(one);
    const int size = kind.size_index(gpus);
    if (size < 0 || kind.memory_gib[at(size)] <= 0.0) return "shares GPUs, but what it or its partner needs is unknown";
    memory += kind.memory_gib[at(size)];
  }
  return memory > state.spec.memory_gib ? "does not fit in a GPU's memory beside its partner" : nullptr;
}

void Simulation::Engine::apply(const Decision& wanted) {
  check_decision(wanted);
  for (const Assignment& one : wanted.assignments) {
    const ClusterJob& job = state.jobs[at(one.job)];
    if (job.gpus == 0) continue;
    const bool leaves = one.gpus != job.gpus || one.partner != job.partner;
    if (leaves || (one.closer && placement->fits_closer(one.job))) take_gpus(one.job);
  }
  // Large jobs first, since they need whole nodes.
  std::vector<Assignment> to_place;
  for (const Assignment& one : wanted.assignments) {
    const ClusterJob& job = state.jobs[at(one.job)];
    if (job.gpus == one.gpus) {
      if (one.gpus > 0 && one.speed != job.speed) change_speed(one.job, one.speed);
    } else {
      to_place.push_back(one);
    }
  }
  std::stable_sort(to_place.begin(), to_place.end(),
                   [](const Assignment& a, const Assignment& b) { return a.gpus > b.gpus; });
  // Jobs that join others are placed after those.
  std::stable_partition(to_place.begin(), to_place.end(), [](const Assignment& one) { return one.partner < 0; });
  std::set<int> placed;
  for (const Assignment& one : to_place) give_gpus(one, placed);
  for (const int job : placed) start(job);
  for (const Assignment& one : wanted.assignments) {
    const ClusterJob& job = state.jobs[at(one.job)];
    if (job.partner < 0 || state.jobs[at(job.partner)].speed == job.speed) continue;
    throw Error(fmt::format("policy {} at {} s: jobs {} and {} share GPUs at two speeds", policy_name,
                            state.now.value(), one.job, job.partner));
  }
  // Moving jobs pays if it empties a node that can then be shut down.
  if (state.spec.node_shutdown && traits.placement == PlacementRule::kPacked) {
    int on_partial = state.free_gpus_on();
    for (const auto& [time, node] : shut_downs) {
      if (placement->used_on(node) == 0) on_partial -= state.spec.gpus_per_node;
    }
    if (on_partial >= state.spec.gpus_per_node) compact(placed);
  }
}

void Simulation::Engine::take_gpus(int job) {
  settle(job);
  ClusterJob& one = state.jobs[at(job)];
  set_pace(job, 0.0, 0);
  ++runs[at(job)].version;
  runs[at(job)].event = Seconds(-1.0);
  runs[at(job)].profiling = {};
  if (one.to_profile) mark_profiled(job, false);
  one.to_profile = false;
  free_nodes_of(job);
  one.phase = JobPhase::kWaiting;
  record_span(job);
}

void Simulation::Engine::give_gpus(const Assignment& assignment, std::set<int>& placed) {
  if (assignment.gpus == 0) return;
  if (assignment.partner >= 0) {
    join(assignment);
  } else if (!placement->place(assignment.job, assignment.gpus)) {
    compact(placed);
    if (!placement->place(assignment.job, assignment.gpus)) {
      throw Error(fmt::format("job {} finds no place for {} GPUs although {} are free", assignment.job, assignment.gpus,
                              placement->free_gpus()));
    }
  }
  state.free_gpus = placement->free_gpus();
  settle(assignment.job);  // the time that it waited does not count as service
  ClusterJob& one = state.jobs[at(assignment.job)];
  one.gpus = assignment.gpus;
  state.holding.insert(std::lower_bound(state.holding.begin(), state.holding.end(), assignment.job), assignment.job);
  one.speed = assignment.speed;
  placed.insert(assignment.job);
}

// Puts the job on its partner's GPUs.
void Simulation::Engine::join(const Assignment& assignment) {
  ClusterJob& partner = state.jobs[at(assignment.partner)];
  if (partner.gpus != assignment.gpus || partner.partner >= 0) {
    throw Error(fmt::format("policy {} at {} s: job {} finds {} GPUs with job {}, or a third job there", policy_name,
                            state.now.value(), assignment.job, partner.gpus, assignment.partner));
  }
  placement->share(assignment.job, assignment.partner);
  settle(assignment.partner);
  partner.partner = assignment.job;
  state.jobs[at(assignment.job)].partner = assignment.partner;
}

// Jobs that are moved restart; those that have not begun yet lose nothing.
void Simulation::Engine::compact(const std::set<int>& placed) {
  const std::vector<int> moved_jobs = placement->compact();
  for (const int job : moved_jobs) {
    if (placed.count(job) == 0) moved(job);
  }
  if (moved_jobs.empty() || !state.spec.node_shutdown) return;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    if (!nodes[node].on || nodes[node].off_at.value() >= 0.0 || placement->used_on(static_cast<int>(node)) != 0)
      continue;
    nodes[node].off_at = state.now + state.spec.off_after;
    shut_downs.emplace(nodes[node].off_at.value(), static_cast<int>(node));
  }
}

void Simulation::Engine::moved(int job) {
  const ClusterJob& one = state.jobs[at(job)];
  JobRun& run = runs[at(job)];
  settle(job);
  if (one.phase == JobPhase::kProfiling) {
    run.profiling.left = std::max(Seconds(0.0), run.event - state.now);
    profiling_power -= run.power;
  }
  start(job);
}

// The job has new GPUs: their nodes wake and it restarts.
void Simulation::Engine::start(int job) {
  ClusterJob& one = state.jobs[at(job)];
  Seconds ready = state.now;
  for (const GpuBlock& block : placement->blocks(job)) {
    NodeRun& node = nodes[at(block.node)];
    if (!node.on) {
      node.on = true;
      ++state.nodes_on;
      node.usable = state.now + state.spec.wake;
      placement->set_powered(block.node, true);
    }
    if (node.off_at.value() >= 0.0) {
      shut_downs.erase({node.off_at.value(), block.node});
      node.off_at = Seconds(-1.0);
    }
    ready = std::max(ready, node.usable);
  }
  settle(job);
  one.nodes = placement->nodes_of(job);
  if (one.first_start.value() >= 0.0) {
    // A job that was suspended and has its size back may be cheaper to resume than to restart.
    const bool resumed = traits.resume && one.phase == JobPhase::kWaiting;
    ready = std::max(ready, state.now + (resumed ? *traits.resume : state.spec.restart));
    ++one.restarts;
    ++restarts;
  }
  one.phase = JobPhase::kStarting;
  const int size = state.kinds[at(one.kind)].size_index(one.gpus);
  // A job that was moved during its profiling continues it.
  if (!one.to_profile && state.to_be_profiled(job, size)) {
    one.to_profile = true;
    mark_profiled(job, true);
  }
  if (ready > state.now) {
    set_pace(job, 0.0, idle_part(job));
    schedule(job, ready);
    record_span(job);
    if (one.partner >= 0) partner_changed(one.partner);
  } else {
    begin_work(job);
  }
}

void Simulation::Engine::change_speed(int job, int speed) {
  ClusterJob& one = state.jobs[at(job)];
  one.speed = speed;
  if (one.phase != JobPhase::kRunning) return;  // takes effect when the job runs
  settle(job);
  begin_run(job);
}

}  // namespace flyball
