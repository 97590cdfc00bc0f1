// What the ranks of each stage are to run by a plan: their computations in order, with their clocks, the transfers that
// are posted before them, and when the next clock is to be asked for.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "pipeline/instruction.h"
#include "pipeline/late_clocks.h"
#include "plan/stage_orders.h"
#include "server/job_plan.h"

namespace flyball {
namespace {

// By how much of maximum clocks' time operations that scatter may make a plan late: half of what ranks tolerate.
constexpr double kMostLate = 0.005;
constexpr Seconds kLatestMoment{1000.0};  // that a schedule names, after a computation's beginning

// A run of computations of equal clock, at the next higher one.
struct Raise {
  std::vector<std::pair<int, ClockPlan::value_type>> options;  // by operation
  Seconds gain;                                                // of a mean iteration
  Joules price;                                                // at least a microjoule
};

std::vector<Raise> raises_of(const PlanProblem& problem, const ClockPlan& plan, const std::vector<double>& critical) {
  const ComputationDag& dag = *problem.dag;
  std::vector<Raise> raises;
  for (int stage = 0; stage < dag.stages(); ++stage) {
    std::optional<Megahertz> clock;  // of the run before
    for (const int i : measured_operations(dag, stage)) {
      const OperationType& type = dag.type_of(i);
      const ClockPlan::value_type option = plan[static_cast<std::size_t>(i)];
      const ClockOption& from = type.options[option];
      if (!clock || *clock != from.frequency) raises.push_back({{}, Seconds(), Joules(1e-6)});
      clock = from.frequency;
      ClockPlan::value_type faster = option;
      while (faster > 0 && type.options[faster].frequency == from.frequency) --faster;
      const ClockOption& to = type.options[faster];
      if (to.frequency == from.frequency) continue;
      const Watts blocking = problem.charged_blocking(type);
      Raise& raise = raises.back();
      raise.options.emplace_back(i, faster);
      raise.gain += (from.time - to.time) * critical[static_cast<std::size_t>(i)];
      raise.price += Joules(std::max(0.0, net_joules(to, blocking) - net_joules(from, blocking)));
    }
  }
  return raises;
}

}  // namespace

// A stage that waits longer than planned draws what it would draw while it waits for a straggler.
JobPlan::PreparedRun JobPlan::emulated(ClockPlan plan, Nanoseconds latency) const {
  const PlanProblem& problem = basis_->realised;
  const SwitchedRun switched = emulate_switching(*problem.dag, plan, problem.blocking, latency, asked());
  const Seconds late = basis_->scattered.lateness(*problem.dag, switched.durations);
  return {std::move(plan), to_seconds(switched.makespan) + late,
          switched.energy.total() + switched.straggler_power * late, switched.straggler_power, late};
}

// Each round raises the runs that shorten the mean iteration by most for their energy. It takes more than one, since
// what has been raised is critical less often.
void JobPlan::hasten(ClockPlan& plan) const {
  if (!basis_->scattered.any()) return;
  const PlanProblem& problem = basis_->realised;
  const auto run_of = [&] { return emulate_switching(*problem.dag, plan, problem.blocking, switch_latency_, asked()); };
  const Seconds usual = std::max(max_clock_time_in_order_, allowed_time_);
  SwitchedRun run = run_of();
  const Seconds most = std::max(usual, to_seconds(run.makespan)) * (1.0 + kMostLate);
  constexpr int kMostRounds = 20;
  for (int round = 0; round < kMostRounds; ++round) {
    const Seconds late = to_seconds(run.makespan) + basis_->scattered.lateness(*problem.dag, run.durations) - most;
    if (late <= Seconds(0)) return;
    std::vector<Raise> raises = raises_of(problem, plan, basis_->scattered.criticality(*problem.dag, run.durations));
    std::stable_sort(raises.begin(), raises.end(), [](const Raise& a, const Raise& b) {
      return a.gain.value() * b.price.value() > b.gain.value() * a.price.value();
    });
    Seconds gained;
    for (const Raise& raise : raises) {
      if (gained >= late || !(raise.gain > Seconds(0))) break;
      gained += raise.gain;
      for (const auto& [operation, option] : raise.options) plan[static_cast<std::size_t>(operation)] = option;
    }
    if (!(gained > Seconds(0))) return;
    run = run_of();
  }
}

void JobPlan::charge_scatter_at_maximum() {
  if (!basis_->scattered.any()) return;
  const auto late = [&](const PlanProblem& problem) {
    return basis_->scattered.lateness(*problem.dag, plan_durations(*problem.dag, max_clock_plan(problem)));
  };
  const Seconds lateness = late(basis_->problem);
  max_clock_time_ += lateness;
  max_clock_energy_ += max_clock_straggler_power_ * lateness;
  max_clock_time_in_order_ += late(basis_->realised);
}

ClockPlan JobPlan::clocks_of(const Run& run, const std::vector<int>& raised) const {
  ClockPlan plan;
  if (is_without_cost()) {
    plan = frontier().plan(run.point);
  } else {
    const std::lock_guard lock(mutex_);
    plan = prepared_.at(run).plan;
  }
  raise(plan, raised);
  return plan;
}

std::vector<Nanoseconds> JobPlan::durations(const ClockPlan& clocks) const {
  if (is_without_cost()) return plan_durations(dag(), clocks);
  return emulate_switching(dag(), clocks, basis_->realised.blocking, switch_latency_, asked()).durations;
}

JobPlan::Schedule JobPlan::schedule(const Run& run, const std::vector<int>& raised) const {
  const ComputationDag& dag = *basis_->realised.dag;
  Schedule schedule{{}, frontier().time(run.point), frontier().energy(run.point), Watts(), Seconds()};
  ClockPlan plan;
  if (is_without_cost()) {
    plan = result_.frontier.plan(run.point);
    schedule.straggler_power = straggler_power(dag, plan, basis_->realised.blocking);
    schedule.lateness = basis_->scattered.lateness(dag, plan_durations(dag, plan));
    schedule.time += schedule.lateness;
    schedule.energy += schedule.straggler_power * schedule.lateness;
  } else {
    const std::lock_guard lock(mutex_);
    const PreparedRun& prepared = prepared_.at(run);
    plan = prepared.plan;
    schedule.time = prepared.time;
    schedule.energy = prepared.energy;
    schedule.straggler_power = prepared.straggler_power;
    schedule.lateness = prepared.lateness;
  }
  raise(plan, raised);
  schedule.stages.resize(static_cast<std::size_t>(dag.stages()));
  for (int stage = 0; stage < dag.stages(); ++stage) {
    Seconds before;  // that the computation takes
    const auto posted = order_ != 0 ? posted_transfers(dag, stage) : std::vector<PostedTransfers>{};
    for (const int i : dag.stage_order(stage)) {
      const OperationType& type = dag.type_of(i);
      if (!type.occupies_stage || is_constant_operation(type.instruction)) continue;
      const ClockOption& option = type.options[plan[static_cast<std::size_t>(i)]];
      auto& computations = schedule.stages[static_cast<std::size_t>(stage)];
      const auto clock_mhz = static_cast<int>(std::lround(option.frequency.value()));
      if (asked() == ClocksAsked::kAhead && !computations.empty() && computations.back().clock_mhz != clock_mhz) {
        const bool raises = clock_mhz > computations.back().clock_mhz;
        const Seconds lead = lead_time(basis_->changes[static_cast<std::size_t>(stage)], raises);
        const Seconds after = std::clamp(before - lead, Seconds(0), kLatestMoment);
        if (lead > Seconds(0)) computations.back().next_clock_after_us = static_cast<int>(after.value() * 1e6);
      }
      before = option.time;
      computations.push_back({std::string(announced_name(type.instruction)), dag[i].microbatch, dag[i].chunk, clock_mhz,
                              posted.empty() ? PostedTransfers{} : posted[computations.size()]});
    }
  }
  return schedule;
}

}  // namespace flyball
