// What becomes of the scheduler's decisions in the simulated cluster: jobs stop, restart and move, nodes wake and are
// shut down, and all of it takes its time and energy.
#include <algorithm>

#include "base/index.h"
#include "cluster/engine.h"

namespace flyball {

void Simulation::Engine::settle(int job) {
  ClusterJob& one = state.jobs[at(job)];
  const Seconds passed = state.now - one.since;
  one.done += one.iterations_per_second * passed.value();
  one.energy += one.power * passed;
  one.gpu_time += passed * one.own_gpus();
  one.since = state.now;
}

void Simulation::Engine::stopped(int job) {
  end_pace(job);
  record_span(job);
}

void Simulation::Engine::moves(int job) {
  JobRun& run = runs[at(job)];
  if (state.jobs[at(job)].phase != JobPhase::kProfiling) return;
  run.profiling.left = std::max(Seconds(0.0), run.event - state.now);
  profiling_power -= run.power;
}

// The job's nodes wake and it starts or restarts.
void Simulation::Engine::started(int job, bool resumes) {
  const ClusterJob& one = state.jobs[at(job)];
  Seconds ready = state.now;
  for (const GpuBlock& block : placement.blocks(job)) {
    NodeRun& node = nodes[at(block.node)];
    if (!node.on) {
      node.on = true;
      node.usable = state.now + state.spec.wake;
      scheduler.set_powered(block.node, true);
    }
    if (node.off_at.value() >= 0.0) {
      shut_downs.erase({node.off_at.value(), block.node});
      node.off_at = Seconds(-1.0);
    }
    ready = std::max(ready, node.usable);
  }
  if (one.first_start.value() >= 0.0) {
    ready = std::max(ready, state.now + (resumes ? *traits.resume : state.spec.restart));
    ++restarts;
  } else {
    ready = std::max(ready, state.now + state.spec.start);
  }
  if (ready <= state.now) return begin_work(job);
  set_pace(job, 0.0, idle_part(job));
  schedule(job, ready);
  record_span(job);
  if (one.partner >= 0) changed_partner(one.partner);
}

// Takes effect when the job runs.
void Simulation::Engine::changed_speed(int job) {
  if (state.jobs[at(job)].phase != JobPhase::kRunning) return;
  settle(job);
  begin_run(job);
}

// Also called when the other job on its GPUs has begun to compute.
void Simulation::Engine::changed_partner(int job) {
  settle(job);
  const JobPhase phase = state.jobs[at(job)].phase;
  if (phase == JobPhase::kRunning) go_on(job);
  if (phase == JobPhase::kStarting) set_pace(job, 0.0, idle_part(job));
  record_span(job);
}

// The node is shut down after a while.
void Simulation::Engine::emptied(int index) {
  NodeRun& node = nodes[at(index)];
  if (!state.spec.node_shutdown || !node.on || node.off_at.value() >= 0.0) return;
  node.off_at = state.now + state.spec.off_after;
  shut_downs.emplace(node.off_at.value(), index);
}

void Simulation::Engine::shut_down_nodes() {
  while (!shut_downs.empty() && shut_downs.begin()->first <= state.now.value()) {
    const int index = shut_downs.begin()->second;
    shut_downs.erase(shut_downs.begin());
    NodeRun& node = nodes[at(index)];
    node.off_at = Seconds(-1.0);
    if (placement.used_on(index) != 0) continue;
    node.on = false;
    scheduler.set_powered(index, false);
  }
}

}  // namespace flyball
