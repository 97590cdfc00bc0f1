// Nodes are numbered topologically, so that the earliest times are one loop forwards and the latest one backwards.
#include "pipeline/timeline.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/index.h"

namespace flyball {

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

Watts charged_blocking(const OperationType& type, Watts blocking) {
  if (type.occupies_stage) return blocking;
  Watts least = blocking;
  for (const ClockOption& option : type.options) least = std::min(least, option.energy / option.time);
  return least;
}

bool waits_alike(const ComputationDag& dag) {
  return std::all_of(dag.types().begin(), dag.types().end(),
                     [](const OperationType& type) { return type.waiting_above.empty(); });
}

std::vector<WaitingAbove> waiting_above(const ComputationDag& dag, const ClockPlan& plan,
                                        std::span<const Nanoseconds> durations, std::span<const Nanoseconds> finish) {
  std::vector<WaitingAbove> stages;
  if (waits_alike(dag)) return stages;
  const Nanoseconds end = *std::max_element(finish.begin(), finish.end());
  for (int stage = 0; stage < dag.stages(); ++stage) {
    WaitingAbove waits;
    waits.after = for_each_wait(
        dag, plan, stage, durations, finish, end,
        [&](Nanoseconds from, Nanoseconds until, Watts above) { waits.inside += above * to_seconds(until - from); });
    stages.push_back(waits);
  }
  return stages;
}

std::vector<WaitingAbove> waiting_above(const ComputationDag& dag, const ClockPlan& plan) {
  if (waits_alike(dag)) return {};
  const std::vector<Nanoseconds> durations = plan_durations(dag, plan);
  std::vector<Nanoseconds> finish(durations.size());
  static_cast<void>(makespan(dag, durations, finish));
  return waiting_above(dag, plan, durations, finish);
}

WaitingAbove sum_of(const std::vector<WaitingAbove>& stages) {
  WaitingAbove sum;
  for (const WaitingAbove& stage : stages) {
    sum.inside += stage.inside;
    sum.after += stage.after;
  }
  return sum;
}

Watts straggler_power(const ComputationDag& dag, const ClockPlan& plan, std::span<const Watts> blocking) {
  return std::accumulate(blocking.begin(), blocking.end(), sum_of(waiting_above(dag, plan)).after);
}

EnergyBreakdown energy_of(const ComputationDag& dag, const ClockPlan& plan, Nanoseconds makespan,
                          std::span<const Watts> blocking, Nanoseconds straggler_time) {
  EnergyBreakdown energy;
  const Nanoseconds wait = std::max<Nanoseconds>(0, straggler_time - makespan);
  for (const Watts power : blocking) {
    energy.blocking += power * to_seconds(makespan);
    energy.straggler_wait += power * to_seconds(wait);
  }
  for (int i = 0; i < dag.size(); ++i) {
    const OperationType& type = dag.type_of(i);
    const ClockOption& option = type.options[plan[at(i)]];
    energy.computation += option.energy;
    energy.blocking -= charged_blocking(type, blocking[at(type.stage)]) * to_seconds(to_nanoseconds(option.time));
  }
  const WaitingAbove above = sum_of(waiting_above(dag, plan));
  energy.blocking += above.inside;
  energy.straggler_wait += above.after * to_seconds(wait);
  return energy;
}

int count_switches(const ComputationDag& dag, const ClockPlan& plan) {
  int switches = 0;
  for (int stage = 0; stage < dag.stages(); ++stage) {
    std::optional<Megahertz> first;
    std::optional<Megahertz> held;
    for (const int i : dag.stage_order(stage)) {
      const OperationType& type = dag.type_of(i);
      if (type.options.size() < 2) continue;
      const Megahertz clock = type.options[plan[at(i)]].frequency;
      if (held && clock != *held) ++switches;
      if (!first) first = clock;
      held = clock;
    }
    if (held != first) ++switches;
  }
  return switches;
}

std::uint16_t nearest_option(const OperationType& type, Megahertz clock) {
  const auto nearest =
      std::min_element(type.options.begin(), type.options.end(), [&](const ClockOption& a, const ClockOption& b) {
        return std::abs((a.frequency - clock).value()) < std::abs((b.frequency - clock).value());
      });
  return static_cast<std::uint16_t>(nearest - type.options.begin());
}

std::uint16_t nearest_option(const OperationType& type, Megahertz clock, std::uint16_t labelled_as) {
  const std::uint16_t nearest = nearest_option(type, clock);
  if (type.labels.empty()) return nearest;
  for (std::size_t k = nearest; k < type.options.size(); ++k) {
    if (type.options[k].frequency != type.options[nearest].frequency) break;
    if (type.labels.alike(k, labelled_as)) return static_cast<std::uint16_t>(k);
  }
  return nearest;
}

}  // namespace flyball
