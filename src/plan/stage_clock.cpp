// Finds the options of operation types by clock, and replays whole plans.
#include "plan/stage_clock.h"

#include <algorithm>

#include "profile/cost_curve.h"

namespace flyball {
namespace {

std::vector<std::size_t> types_with_choice(const ComputationDag& dag, int stage) {
  std::vector<std::size_t> found;
  for (std::size_t t = 0; t < dag.types().size(); ++t) {
    if (dag.types()[t].stage == stage && dag.types()[t].options.size() > 1) found.push_back(t);
  }
  return found;
}

std::uint16_t least_energy_option(const OperationType& type) {
  const auto least = std::min_element(type.options.begin(), type.options.end(),
                                      [](const ClockOption& a, const ClockOption& b) { return a.energy < b.energy; });
  return static_cast<std::uint16_t>(least - type.options.begin());
}

}  // namespace

std::optional<std::uint16_t> option_at(const OperationType& type, Megahertz clock) {
  for (std::size_t o = 0; o < type.options.size(); ++o) {
    if (type.options[o].frequency == clock) return static_cast<std::uint16_t>(o);
  }
  return std::nullopt;
}

std::optional<std::uint16_t> one_clock_up(const OperationType& type, std::uint16_t option) {
  std::size_t k = option;
  const auto clock = [&](std::size_t of) { return type.options[of].frequency; };
  while (clock(k) == clock(option)) {
    if (k == 0) return std::nullopt;
    --k;
  }
  while (k > 0 && clock(k - 1) == clock(k)) --k;
  return static_cast<std::uint16_t>(k);
}

std::optional<std::uint16_t> one_clock_down(const OperationType& type, std::uint16_t option) {
  for (std::size_t k = option; k < type.options.size(); ++k) {
    if (type.options[k].frequency != type.options[option].frequency) return static_cast<std::uint16_t>(k);
  }
  return std::nullopt;
}

std::vector<Megahertz> common_clocks(const ComputationDag& dag, int stage) {
  const std::vector<std::size_t> types = types_with_choice(dag, stage);
  std::vector<Megahertz> clocks;
  if (types.empty()) return clocks;
  for (const ClockOption& option : dag.types()[types.front()].options) {
    if (!clocks.empty() && clocks.back() == option.frequency) continue;
    const bool everywhere = std::all_of(types.begin(), types.end(), [&](std::size_t t) {
      return option_at(dag.types()[t], option.frequency).has_value();
    });
    if (everywhere) clocks.push_back(option.frequency);
  }
  return clocks;
}

TypeOptions valley_options(const ComputationDag& dag) {
  std::vector<double> runs(dag.types().size(), 0.0);
  for (const Computation& computation : dag.computations()) runs[static_cast<std::size_t>(computation.type)] += 1.0;

  TypeOptions options(dag.types().size(), 0);
  for (int stage = 0; stage < dag.stages(); ++stage) {
    const std::vector<std::size_t> types = types_with_choice(dag, stage);
    std::optional<Megahertz> valley;
    Joules least;
    for (const Megahertz clock : common_clocks(dag, stage)) {
      Joules energy;
      for (const std::size_t t : types)
        energy += runs[t] * dag.types()[t].options[*option_at(dag.types()[t], clock)].energy;
      if (valley && energy >= least) continue;
      valley = clock;
      least = energy;
    }
    for (const std::size_t t : types) {
      options[t] = valley ? *option_at(dag.types()[t], *valley) : least_energy_option(dag.types()[t]);
    }
  }
  return options;
}

ClockPlan plan_of_types(const ComputationDag& dag, std::span<const std::uint16_t> options) {
  ClockPlan plan;
  plan.reserve(static_cast<std::size_t>(dag.size()));
  for (const Computation& computation : dag.computations()) {
    plan.push_back(options[static_cast<std::size_t>(computation.type)]);
  }
  return plan;
}

FrontierPoint replay(const ComputationDag& dag, std::span<const Watts> blocking, const ClockPlan& plan) {
  FrontierPoint point;
  const std::vector<Nanoseconds> durations = plan_durations(dag, plan);
  std::vector<Nanoseconds> finish(durations.size());
  point.time = makespan(dag, durations, finish);
  for (int i = 0; i < dag.size(); ++i) {
    const OperationType& type = dag.type_of(i);
    const ClockOption& option = type.options[plan[static_cast<std::size_t>(i)]];
    point.net_joules += net_joules(option, charged_blocking(type, blocking[static_cast<std::size_t>(type.stage)]));
  }
  const WaitingAbove above = sum_of(waiting_above(dag, plan, durations, finish));
  point.net_joules += above.inside.value();
  point.waiting_above = above.after;
  return point;
}

Frontier with_waiting(const ComputationDag& dag, std::span<const Watts> blocking, Frontier frontier) {
  if (waits_alike(dag)) return frontier;
  Frontier charged(frontier.total_blocking());
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    const ClockPlan plan = frontier.plan(i);
    FrontierPoint point = replay(dag, blocking, plan);
    point.net_lower_bound = frontier.points()[i].net_lower_bound;
    charged.add(point, plan);
  }
  charged.finish();
  return charged;
}

}  // namespace flyball
