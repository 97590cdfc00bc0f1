// Time and power of the simulation: between events every job has a constant rate and power, and each event settles the
// jobs that it concerns before it changes them.
#include "cluster/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "cluster/gpu_sharing.h"

namespace flyball {
namespace {

Microwatts microwatts(Watts power) { return std::llround(power.value() * 1e6); }

// Jobs may draw more than a decision assumed, and so may those of the decision that corrects it.
constexpr int kMostCorrections = 16;

}  // namespace

Microwatts Simulation::Engine::idle_power() const {
  const int held = state.spec.gpus() - state.free_gpus;
  return idle_each * (static_cast<std::int64_t>(state.nodes_on) * state.spec.gpus_per_node - held);
}

void Simulation::Engine::advance(Seconds to) {
  const double dt = (to - state.now).value();
  if (dt > 0.0) {
    const Microwatts power = job_power + idle_power();
    peak_power = std::max(peak_power, power);
    peak_job_power = std::max(peak_job_power, job_power);
    energy.add(static_cast<double>(power) * 1e-6 * dt);
    busy_energy.add(static_cast<double>(job_power) * 1e-6 * dt);
    profiling_energy.add(static_cast<double>(profiling_power) * 1e-6 * dt);
    gpu_seconds.add(static_cast<double>(state.spec.gpus() - state.free_gpus) * dt);
  }
  state.now = to;
}

// Sets what the job does from now on. The job must be settled.
void Simulation::Engine::set_pace(int job, double rate, Microwatts power) {
  ClusterJob& one = state.jobs[at(job)];
  JobRun& run = runs[at(job)];
  job_power += power - run.power;
  if (one.phase == JobPhase::kProfiling) profiling_power += power;
  run.power = power;
  one.iterations_per_second = rate;
  one.power = Watts(static_cast<double>(power) * 1e-6);
}

// The job does nothing from now on, and has no pending event.
void Simulation::Engine::end_pace(int job) {
  set_pace(job, 0.0, 0);
  JobRun& run = runs[at(job)];
  ++run.version;
  run.event = Seconds(-1.0);
  run.profiling = {};
}

void Simulation::Engine::schedule(int job, Seconds when) {
  JobRun& run = runs[at(job)];
  ++run.version;
  run.event = when;
  events.push({when, job, run.version});
}

std::optional<Seconds> Simulation::Engine::next_time() {
  while (!events.empty() && events.top().version != runs[at(events.top().job)].version) events.pop();
  std::optional<Seconds> next;
  const auto consider = [&](Seconds when) { next = next ? std::min(*next, when) : when; };
  if (next_arrival < state.jobs.size()) consider(state.jobs[next_arrival].submit);
  if (!events.empty()) consider(events.top().at);
  // Events that only shut nodes down or ask the policy matter only while there are jobs, or will be.
  if (!next && finished()) return next;
  if (scheduler.wake_at()) consider(*scheduler.wake_at());
  if (next_budget < setup.budget.size()) consider(setup.budget[next_budget].at);
  if (!shut_downs.empty()) consider(Seconds(shut_downs.begin()->first));
  return next ? std::max(*next, state.now) : next;
}

bool Simulation::Engine::step() {
  const std::optional<Seconds> next = next_time();
  if (!next) return false;
  advance(*next);
  while (next_budget < setup.budget.size() && setup.budget[next_budget].at <= state.now) {
    scheduler.limit_changed(state.spec.p_max * (setup.budget[next_budget].eta * state.spec.gpus()));
    ++next_budget;
  }
  arrive();
  while (!events.empty() && events.top().at <= state.now) {
    const Event event = events.top();
    events.pop();
    if (event.version == runs[at(event.job)].version) phase_ends(event.job);
  }
  if (scheduler.wake_at() && *scheduler.wake_at() <= state.now) scheduler.woken();
  shut_down_nodes();
  if (scheduler.is_due() || over_limit()) decide();
  correct();
  if (over_limit() && profiling_power > 0) {  // nothing else can reduce its power
    end_all_profiling();
    decide();
    correct();
  }
  if (setup.record) record_power();
  return true;
}

void Simulation::Engine::decide() {
  scheduler.decide();
  follow_moves();
}

// Decides again if the decision turns out to draw more than the limit, or has ended a profiling.
void Simulation::Engine::correct() {
  for (int i = 0; i < kMostCorrections && (scheduler.is_due() || over_limit()) && scheduler.decided_anything(); ++i) {
    decide();
  }
}

void Simulation::Engine::arrive() {
  while (next_arrival < state.jobs.size() && state.jobs[next_arrival].submit <= state.now) {
    const int job = static_cast<int>(next_arrival++);
    scheduler.arrived(job);
    record_span(job);
  }
}

// When a settled job that computes will finish at its present rate.
Seconds Simulation::Engine::completion(int job) const {
  const ClusterJob& one = state.jobs[at(job)];
  return state.now + Seconds((one.iterations - one.done) / one.iterations_per_second);
}

void Simulation::Engine::phase_ends(int job) {
  settle(job);
  ClusterJob& one = state.jobs[at(job)];
  if (one.phase == JobPhase::kStarting) return begin_work(job);
  // Rounding may leave a trace of work at completion, also one that takes less time than the simulated time can
  // resolve.
  const double left = one.iterations - one.done;
  const bool complete_now = left <= one.iterations * 1e-9 || completion(job) <= state.now;
  if (complete_now) return complete(job);
  if (one.phase == JobPhase::kProfiling) return end_slice(job);
  schedule(job, completion(job));  // a job that was stopped early by rounding continues with what is left
}

// The job has restarted, its nodes are awake, or both: it computes from now on.
void Simulation::Engine::begin_work(int job) {
  ClusterJob& one = state.jobs[at(job)];
  JobRun& run = runs[at(job)];
  if (std::exchange(one.in_transition, false)) scheduler.limit_changed(state.power_limit);  // decide with it at hand
  if (one.first_start.value() < 0.0) one.first_start = state.now;
  if (!one.to_profile) return begin_run(job);
  one.phase = JobPhase::kProfiling;
  if (run.profiling.top < 0) {
    const auto size = at(state.kinds[at(one.kind)].size_index(one.gpus));
    // The reserve of a job that is alone may exceed the limit; the job itself may not.
    const Watts counted = std::min(state.counted(one.kind, size, at(one.speed)), state.spendable_power());
    run.profiling = {one.speed, 0, slice_time(job), microwatts(counted)};
  }
  record_span(job);
  begin_slice(job);
}

void Simulation::Engine::begin_run(int job) {
  ClusterJob& one = state.jobs[at(job)];
  one.phase = JobPhase::kRunning;
  go_on(job);
  scheduler.metered(job, state.jobs[at(job)].speed);
  record_span(job);
  if (one.partner >= 0) changed_partner(one.partner);
}

// Sets the rate at which a running job continues, alone or beside its partner.
void Simulation::Engine::go_on(int job) {
  const ClusterJob& one = state.jobs[at(job)];
  const IterationCost cost = cost_now(job);  // notes what the meters of its GPUs show
  set_pace(job, 1.0 / cost.time.value(), microwatts(cost.power()));
  schedule(job, state.now + cost.time * (one.iterations - one.done));
}

// What an iteration takes now: alone, or beside a partner if that computes too.
IterationCost Simulation::Engine::cost_now(int job) {
  ClusterJob& one = state.jobs[at(job)];
  const auto alone = [&](const ClusterJob& which) {
    return true_cost(which.kind, state.kinds[at(which.kind)].size_index(which.gpus), placement.nodes_of(job),
                     which.speed);
  };
  const IterationCost cost = alone(one);
  if (traits.jobs_per_gpu < 2) return cost;
  const auto utilisation = [&](const ClusterJob& which) {
    return true_utilisation(which.kind, state.kinds[at(which.kind)].size_index(which.gpus), placement.nodes_of(job),
                            which.speed);
  };
  one.gpu_utilisation = utilisation(one);
  if (one.partner < 0) return cost;
  const ClusterJob& partner = state.jobs[at(one.partner)];
  if (partner.phase != JobPhase::kRunning) return cost;
  const double of_partner = utilisation(partner);
  const SharedGpu shared = share_gpu({GpuTenant{one.gpu_utilisation, cost.power() / one.gpus},
                                      GpuTenant{of_partner, alone(partner).power() / one.gpus}},
                                     state.spec.busy, state.spec.limit);
  one.gpu_utilisation = std::min(1.0, one.gpu_utilisation + of_partner);
  const Seconds time = cost.time / shared.pace[0];
  return {time, shared.power[0] * one.gpus * time};
}

// The power of a job that has GPUs but does not compute yet.
Microwatts Simulation::Engine::idle_part(int job) const {
  const ClusterJob& one = state.jobs[at(job)];
  const Microwatts idle = idle_each * one.gpus;
  if (one.partner < 0) return idle;
  switch (state.jobs[at(one.partner)].phase) {
    case JobPhase::kRunning: return 0;  // its partner's power includes it
    case JobPhase::kStarting: return job < one.partner ? idle / 2 : idle - idle / 2;
    default: return idle;
  }
}

// Profiling all speeds takes the time given for a profiling; fewer speeds take their share of it.
Seconds Simulation::Engine::slice_time(int job) const {
  return state.spec.profiling / static_cast<double>(state.kind_of(job).speeds);
}

int Simulation::Engine::slices_up_to(int top) const { return std::min(top + 1, traits.profiled_speeds); }

// Slices are spread evenly over the speeds.
int Simulation::Engine::profiled_speed(int top, int slice) const {
  const int last = slices_up_to(top) - 1;
  return last == 0 ? top : (top * slice + last / 2) / last;
}

// Profiling ends if the job draws more than it was counted with and all jobs together exceed the limit.
void Simulation::Engine::begin_slice(int job) {
  const ClusterJob& one = state.jobs[at(job)];
  const JobRun& run = runs[at(job)];
  const int speed = profiled_speed(run.profiling.top, run.profiling.slice);
  const int size = state.kinds[at(one.kind)].size_index(one.gpus);
  const IterationCost cost = true_cost(one.kind, size, placement.nodes_of(job), speed);
  set_pace(job, 1.0 / cost.time.value(), microwatts(cost.power()));
  scheduler.metered(job, speed);
  if (run.power > run.profiling.allowed && over_limit()) return end_profiling(job);
  schedule(job, std::min(state.now + run.profiling.left, completion(job)));
}

void Simulation::Engine::end_slice(int job) {
  const ClusterJob& one = state.jobs[at(job)];
  JobRun& run = runs[at(job)];
  ++run.profiling.slice;
  if (run.profiling.slice == slices_up_to(run.profiling.top)) return end_profiling(job);
  const auto size = at(state.kinds[at(one.kind)].size_index(one.gpus));
  const int next = profiled_speed(run.profiling.top, run.profiling.slice);
  const Microwatts draw = microwatts(state.counted(one.kind, size, at(next)));
  const Microwatts room = microwatts(state.spendable_power()) - (job_power - run.power);
  if (draw > std::max(run.profiling.allowed, room)) return end_profiling(job);
  run.profiling.left = slice_time(job);
  profiling_power -= run.power;
  begin_slice(job);
}

// The job continues at the fastest speed at which it was profiled.
void Simulation::Engine::end_profiling(int job) {
  ClusterJob& one = state.jobs[at(job)];
  const Profiling done = runs[at(job)].profiling;
  profiling_power -= runs[at(job)].power;
  scheduler.profiled(job, learn(job));
  one.speed = profiled_speed(done.top, std::max(0, done.slice - 1));
  runs[at(job)].profiling = {};
  begin_run(job);
}

void Simulation::Engine::end_all_profiling() {
  for (const int job : state.holding) {
    if (state.jobs[at(job)].phase != JobPhase::kProfiling) continue;
    settle(job);
    end_profiling(job);
  }
}

// Learns what the job's profiling has shown so far; returns false if that is nothing.
bool Simulation::Engine::learn(int job) {
  const Profiling& seen = runs[at(job)].profiling;
  if (!scheduler.learns() || seen.slice == 0) return false;
  std::vector<int> speeds;
  for (int slice = 0; slice < seen.slice; ++slice) speeds.push_back(profiled_speed(seen.top, slice));
  scheduler.learn(job, speeds, [this](const ProfiledSize& what, int speed) { return measured_cost(what, speed); });
  return true;
}

// Whether the meters show more than the limit. Only a policy that learns watches them, and decides again if they do.
bool Simulation::Engine::over_limit() const {
  const auto rounding = static_cast<Microwatts>(state.active.size());
  return scheduler.learns() && job_power > microwatts(state.spendable_power()) + rounding;
}

void Simulation::Engine::complete(int job) {
  if (state.jobs[at(job)].phase == JobPhase::kProfiling) {
    profiling_power -= runs[at(job)].power;
    (void)learn(job);
  }
  scheduler.finished(job);
  give_up(job);
  end_pace(job);
  last_finish = state.now;
  record_span(job);
}

void Simulation::Engine::record_span(int job) {
  if (!setup.record) return;
  JobRun& run = runs[at(job)];
  const ClusterJob& one = state.jobs[at(job)];
  if (run.span_open != SIZE_MAX) history.spans[run.span_open].end = state.now;
  run.span_open = SIZE_MAX;
  if (one.phase == JobPhase::kDone) return;
  run.span_open = history.spans.size();
  history.spans.push_back({job, state.now, state.now, one.gpus, one.speed, one.phase});
}

void Simulation::Engine::record_power() {
  const int held = state.spec.gpus() - state.free_gpus;
  const auto waiting = static_cast<int>(state.active.size() - state.holding.size());
  const Watts power(static_cast<double>(job_power + idle_power()) * 1e-6);
  if (!history.power.empty() && history.power.back().at == state.now) history.power.pop_back();
  history.power.push_back({state.now, held, waiting, state.nodes_on, power});
}

void Simulation::Engine::must_hold(bool holds, const char* what) const {
  if (!holds) throw Error(fmt::format("the simulator is wrong at {} s: {}", state.now.value(), what));
}

// Checks a job that shares its GPUs.
void Simulation::Engine::check_pair(int job) const {
  const ClusterJob& one = state.jobs[at(job)];
  const ClusterJob& other = state.jobs[at(one.partner)];
  must_hold(other.partner == job && other.gpus == one.gpus, "two jobs do not share the same GPUs");
  must_hold(std::ranges::equal(placement.blocks(job), placement.blocks(one.partner)), "partners lie apart");
  must_hold(one.speed == other.speed, "a GPU has two clocks");
  must_hold(scheduler.not_together(job, one.partner, one.gpus) == nullptr, "two jobs share GPUs that may not");
  double most = state.spec.limit.value() * one.gpus;
  for (const ClusterJob* which : {&one, &other}) {  // a table may have more than the board's limit
    const int size = state.kinds[at(which->kind)].size_index(which->gpus);
    most = std::max(most, true_cost(which->kind, size, placement.nodes_of(job), which->speed).power().value());
  }
  must_hold((one.power + other.power).value() <= most + 1e-3, "a board draws more than it can");
}

void Simulation::Engine::check() const {
  std::vector<std::uint64_t> used(nodes.size(), 0);
  std::vector<std::uint64_t> shared(nodes.size(), 0);
  Microwatts jobs_power = 0;
  Microwatts profile_power = 0;
  int held = 0;
  for (std::size_t job = 0; job < state.jobs.size(); ++job) {
    const ClusterJob& one = state.jobs[job];
    int blocks = 0;
    const bool computes = one.phase == JobPhase::kProfiling || one.phase == JobPhase::kRunning;
    for (const GpuBlock& block : placement.blocks(static_cast<int>(job))) {
      blocks += block.count;
      must_hold(nodes[at(block.node)].on, "a job lies on a node that is off");
      for (int gpu = block.first; gpu < block.first + block.count; ++gpu) {
        const std::uint64_t bit = std::uint64_t{1} << gpu;
        const std::vector<Seconds>& handed_over = nodes[at(block.node)].handed_over;
        must_hold(!computes || handed_over.empty() || handed_over[at(gpu)] <= state.now,
                  "a job computes on GPUs that are another's");
        must_hold((used[at(block.node)] & bit) == 0 || traits.jobs_per_gpu > 1, "a GPU has two jobs");
        must_hold((shared[at(block.node)] & bit) == 0, "a GPU has three jobs");
        shared[at(block.node)] |= used[at(block.node)] & bit;
        used[at(block.node)] |= bit;
      }
    }
    must_hold(blocks == one.gpus, "a job's blocks are not its GPUs");
    must_hold((one.gpus > 0) == (one.phase == JobPhase::kStarting || one.phase == JobPhase::kProfiling ||
                                 one.phase == JobPhase::kRunning),
              "a job's phase and GPUs do not agree");
    must_hold(one.done <= one.iterations * (1.0 + 1e-9), "a job did more than its work");
    if (one.partner >= 0) check_pair(static_cast<int>(job));
    jobs_power += runs[job].power;
    if (one.phase == JobPhase::kProfiling) profile_power += runs[job].power;
  }
  for (const std::uint64_t gpus : used) held += std::popcount(gpus);
  must_hold(held == state.spec.gpus() - state.free_gpus, "GPUs held and free are not all");
  must_hold(jobs_power == job_power, "the jobs' power is not its sum");
  must_hold(profile_power == profiling_power, "the profiling power is not its sum");
  int on = 0;
  for (const NodeRun& node : nodes) on += node.on ? 1 : 0;
  must_hold(on == state.nodes_on, "the nodes that are on are miscounted");
  // Energy: what jobs were charged, and what idle GPUs drew.
  double charged = 0.0;
  double served = 0.0;
  for (std::size_t job = 0; job < state.jobs.size(); ++job) {
    const ClusterJob& one = state.jobs[job];
    charged += (one.energy + one.power * (state.now - one.since)).value();
    served += state.attained_gpu_seconds(static_cast<int>(job)).value();
  }
  must_hold(std::abs(charged - busy_energy.value()) <= 1e-9 * std::max(1.0, charged),
            "the jobs' energy is not its sum");
  must_hold(std::abs(served - gpu_seconds.value()) <= 1e-9 * std::max(1.0, served), "GPU-seconds are not their sum");
  must_hold(energy.value() >= busy_energy.value() * (1.0 - 1e-12), "idle GPUs gave energy back");
}

}  // namespace flyball
