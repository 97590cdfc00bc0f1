// What becomes of the scheduler's decisions in the simulated cluster: jobs stop, restart and move, nodes wake and are
// shut down, and all of it takes its time and energy.
#include <algorithm>
#include <utility>

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
  if (!traits.resume) give_up(job);
  end_pace(job);
  record_span(job);
}

void Simulation::Engine::moves(int job) {
  JobRun& run = runs[at(job)];
  give_up(job);
  if (state.jobs[at(job)].phase != JobPhase::kProfiling) return;
  run.profiling.left = std::max(Seconds(0.0), run.event - state.now);
  profiling_power -= run.power;
}

// Another job can be started on these GPUs once this one's end has been seen. Where this one could not be started on
// them yet, there is no end to wait for: they are handed over when they would have been to it.
void Simulation::Engine::give_up(int job) {
  JobRun& run = runs[at(job)];
  const std::vector<GpuBlock> held = std::exchange(run.held, {});
  if (state.spec.changeover.value() <= 0.0 || state.now < run.launch) return;
  run.stopped = state.now + state.spec.changeover;
  for (const GpuBlock& block : held) {
    std::vector<Seconds>& handed_over = nodes[at(block.node)].handed_over;
    handed_over.resize(at(state.spec.gpus_per_node));
    for (int gpu = block.first; gpu < block.first + block.count; ++gpu) {
      // Its partner keeps those that it has shared.
      if (traits.jobs_per_gpu > 1 && placement.is_used(block.node, gpu)) continue;
      handed_over[at(gpu)] = run.stopped;
    }
  }
}

// When the job can compute. All that were told to stop in one decision stop side by side, the job itself among them: as
// under the controller, it is started when its last run has ended and the last of its GPUs is free. What follows then
// is the start or, of a restart's cost, what is left without the job's own stop, which was charged from the order to
// stop as well (Controller::goes_on). Nodes wake meanwhile.
Seconds Simulation::Engine::ready_at(int job) {
  JobRun& run = runs[at(job)];
  const auto blocks = placement.blocks(job);
  Seconds usable = state.now;
  run.launch = std::max(state.now, run.stopped);
  for (const GpuBlock& block : blocks) {
    const NodeRun& node = nodes[at(block.node)];
    usable = std::max(usable, node.usable);
    if (node.handed_over.empty()) continue;
    const auto first = node.handed_over.begin() + block.first;
    run.launch = std::max(run.launch, *std::max_element(first, first + block.count));
  }
  if (state.spec.changeover.value() > 0.0) run.held.assign(blocks.begin(), blocks.end());
  return std::max(usable, run.launch + run.way_in);
}

// Jobs that have not begun yet are moved without a word (Scheduler::compact).
void Simulation::Engine::follow_moves() {
  if (state.spec.changeover.value() <= 0.0) return;
  for (const int job : state.holding) {
    if (state.jobs[at(job)].phase != JobPhase::kStarting) continue;
    if (!std::ranges::equal(placement.blocks(job), runs[at(job)].held)) schedule(job, ready_at(job));
  }
}

// The job's nodes wake and it starts or restarts.
void Simulation::Engine::started(int job, bool resumes) {
  const ClusterJob& one = state.jobs[at(job)];
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
  }
  Seconds& way_in = runs[at(job)].way_in;
  if (one.first_start.value() < 0.0) {
    way_in = state.spec.start;
  } else {
    way_in = resumes ? *traits.resume : std::max(Seconds(0.0), state.spec.restart - state.spec.changeover);
    ++restarts;
  }
  const Seconds ready = ready_at(job);
  if (ready <= state.now) return begin_work(job);
  // As under the controller, which these policies can drive: what is on its way is left alone until it is there.
  state.jobs[at(job)].in_transition = state.spec.changeover.value() > 0.0 && traits.placement == PlacementRule::kPacked;
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

// The node is shut down a while after its last job has left it.
void Simulation::Engine::emptied(int index) {
  NodeRun& node = nodes[at(index)];
  if (!state.spec.node_shutdown || !node.on || node.off_at.value() >= 0.0) return;
  node.off_at = state.now + state.spec.changeover + state.spec.off_after;
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
