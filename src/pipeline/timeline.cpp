#include "pipeline/timeline.h"

#include <algorithm>
#include <cmath>

namespace flyball {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// The clock a stage holds before each of its operations, in its order, when the iteration repeats; nullptr while no
// operation has a choice.
template <class Visit>
void for_each_clock_change(const ComputationDag& dag, const ClockPlan& plan, Visit visit) {
  for (int stage = 0; stage < dag.stages(); ++stage) {
    const auto order = dag.stage_order(stage);
    const ClockOption* held = nullptr;
    const auto chosen = [&](int i) -> const ClockOption* {
      const OperationType& type = dag.type_of(i);
      return type.options.size() > 1 ? &type.options[plan[at(i)]] : nullptr;
    };
    for (const int i : order) {
      if (chosen(i) != nullptr) held = chosen(i);
    }
    for (const int i : order) {
      const ClockOption* option = chosen(i);
      if (option == nullptr) continue;
      if (option->frequency != held->frequency) visit(i, *held);
      held = option;
    }
  }
}

EnergyBreakdown breakdown(const ComputationDag& dag, Joules computation, std::span<const Nanoseconds> busy,
                          Nanoseconds makespan, std::span<const Watts> blocking, Nanoseconds straggler_time) {
  EnergyBreakdown energy;
  energy.computation = computation;
  const Nanoseconds wait = std::max<Nanoseconds>(0, straggler_time - makespan);
  for (int stage = 0; stage < dag.stages(); ++stage) {
    energy.blocking += blocking[at(stage)] * to_seconds(makespan - busy[at(stage)]);
    energy.straggler_wait += blocking[at(stage)] * to_seconds(wait);
  }
  return energy;
}

}  // namespace

Nanoseconds makespan(const ComputationDag& dag, std::span<const Nanoseconds> durations, std::span<Nanoseconds> finish) {
  Nanoseconds last = 0;
  for (int i = 0; i < dag.size(); ++i) {
    Nanoseconds start = 0;
    for (const int p : dag.predecessors(i)) start = std::max(start, finish[at(p)]);
    finish[at(i)] = start + durations[at(i)];
    last = std::max(last, finish[at(i)]);
  }
  return last;
}

Timeline emulate(const ComputationDag& dag, std::span<const Nanoseconds> durations) {
  const std::size_t n = at(dag.size());
  Timeline timeline{std::vector<Nanoseconds>(n), std::vector<Nanoseconds>(n), std::vector<Nanoseconds>(n), 0};
  timeline.makespan = makespan(dag, durations, timeline.finish);
  for (std::size_t i = 0; i < n; ++i) timeline.start[i] = timeline.finish[i] - durations[i];
  for (int i = dag.size() - 1; i >= 0; --i) {
    Nanoseconds end = timeline.makespan;
    for (const int s : dag.successors(i)) end = std::min(end, timeline.latest_start[at(s)]);
    timeline.latest_start[at(i)] = end - durations[at(i)];
  }
  return timeline;
}

std::vector<int> critical_path(const ComputationDag& dag, const Timeline& timeline) {
  std::vector<int> path;
  int current = -1;
  for (int i = 0; i < dag.size(); ++i) {
    if (timeline.finish[at(i)] == timeline.makespan) current = i;
  }
  while (current >= 0) {
    path.push_back(current);
    int next = -1;
    for (const int p : dag.predecessors(current)) {
      if (timeline.finish[at(p)] != timeline.start[at(current)]) continue;
      if (next < 0 || dag.type_of(p).stage == dag.type_of(current).stage) next = p;
    }
    current = next;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<Nanoseconds> plan_durations(const ComputationDag& dag, const ClockPlan& plan) {
  std::vector<Nanoseconds> durations(at(dag.size()));
  for (int i = 0; i < dag.size(); ++i) durations[at(i)] = to_nanoseconds(dag.type_of(i).options[plan[at(i)]].time);
  return durations;
}

EnergyBreakdown energy_of(const ComputationDag& dag, const ClockPlan& plan, Nanoseconds makespan,
                          std::span<const Watts> blocking, Nanoseconds straggler_time) {
  std::vector<Nanoseconds> busy(at(dag.stages()), 0);
  Joules computation;
  for (int i = 0; i < dag.size(); ++i) {
    const OperationType& type = dag.type_of(i);
    const ClockOption& option = type.options[plan[at(i)]];
    computation += option.energy;
    if (type.occupies_stage) busy[at(type.stage)] += to_nanoseconds(option.time);
  }
  return breakdown(dag, computation, busy, makespan, blocking, straggler_time);
}

int count_switches(const ComputationDag& dag, const ClockPlan& plan) {
  int switches = 0;
  for_each_clock_change(dag, plan, [&](int, const ClockOption&) { ++switches; });
  return switches;
}

std::uint16_t nearest_option(const OperationType& type, Megahertz clock) {
  const auto nearest =
      std::min_element(type.options.begin(), type.options.end(), [&](const ClockOption& a, const ClockOption& b) {
        return std::abs((a.frequency - clock).value()) < std::abs((b.frequency - clock).value());
      });
  return static_cast<std::uint16_t>(nearest - type.options.begin());
}

SwitchedOperation run_switched(const OperationType& type, std::uint16_t option, Megahertz held, Nanoseconds latency) {
  const ClockOption& new_clock = type.options[option];
  if (new_clock.frequency == held) return {to_nanoseconds(new_clock.time), new_clock.energy};
  const ClockOption& old_clock = type.options[nearest_option(type, held)];
  const auto old_time = static_cast<double>(to_nanoseconds(old_clock.time));
  const auto new_time = static_cast<double>(to_nanoseconds(new_clock.time));
  // The share of the work that is done before the new clock takes hold.
  const double early = std::min(1.0, static_cast<double>(latency) / old_time);
  return {std::llround(early * old_time + (1.0 - early) * new_time),
          new_clock.energy + early * (old_clock.energy - new_clock.energy)};
}

SwitchedRun emulate_switching(const ComputationDag& dag, const ClockPlan& plan, std::span<const Watts> blocking,
                              Nanoseconds latency) {
  SwitchedRun run;
  run.durations = plan_durations(dag, plan);
  Joules computation;
  for (int i = 0; i < dag.size(); ++i) computation += dag.type_of(i).options[plan[at(i)]].energy;
  for_each_clock_change(dag, plan, [&](int i, const ClockOption& held) {
    const OperationType& type = dag.type_of(i);
    const SwitchedOperation switched = run_switched(type, plan[at(i)], held.frequency, latency);
    run.durations[at(i)] = switched.duration;
    computation += switched.energy - type.options[plan[at(i)]].energy;
  });
  std::vector<Nanoseconds> finish(at(dag.size()));
  run.makespan = makespan(dag, run.durations, finish);
  std::vector<Nanoseconds> busy(at(dag.stages()), 0);
  for (int i = 0; i < dag.size(); ++i) {
    if (dag.type_of(i).occupies_stage) busy[at(dag.type_of(i).stage)] += run.durations[at(i)];
  }
  run.energy = breakdown(dag, computation, busy, run.makespan, blocking, 0);
  return run;
}

}  // namespace flyball
