#include "plan/reschedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/error.h"
#include "pipeline/instruction.h"
#include "pipeline/timeline.h"
#include "plan/stage_clock.h"

namespace flyball {
namespace {

// A stage's order, cut into what moves together: a forward with the loading of its data, a backward.
struct StageUnits {
  std::vector<std::vector<int>> forwards;
  std::vector<std::vector<int>> backwards;
  std::vector<int> tail;  // gradient synchronisation, optimizer step
  int in_flight = 0;      // forwards before the first backward
  bool is_1f1b = true;
};

StageUnits stage_units(const ComputationDag& dag, int stage) {
  StageUnits units;
  std::vector<int> pending;
  for (const int i : dag.stage_order(stage)) {
    const Computation& computation = dag[i];
    const std::string& instruction = dag.type_of(i).instruction;
    const bool forward = instruction == instruction_name(InstructionKind::kForward);
    const bool backward = instruction == instruction_name(InstructionKind::kBackward);
    pending.push_back(i);
    if (!forward && !backward) {
      // Whatever has a choice of clocks and is neither belongs to another schedule.
      if (dag.type_of(i).options.size() > 1) units.is_1f1b = false;
      continue;
    }
    auto& list = forward ? units.forwards : units.backwards;
    if (computation.chunk != 0 || computation.microbatch != static_cast<int>(list.size())) units.is_1f1b = false;
    list.push_back(std::exchange(pending, {}));
    if (backward && list.size() == 1) units.in_flight = static_cast<int>(units.forwards.size());
  }
  units.tail = std::move(pending);
  return units;
}

// A warm-up of `in_flight` forwards, then backwards and forwards in turn.
std::vector<int> order_with(const StageUnits& units, int in_flight) {
  std::vector<int> order;
  const auto append = [&](const std::vector<int>& unit) { order.insert(order.end(), unit.begin(), unit.end()); };
  const std::size_t microbatches = units.forwards.size();
  std::size_t next = 0;
  while (next < std::min(microbatches, static_cast<std::size_t>(in_flight))) append(units.forwards[next++]);
  for (const auto& backward : units.backwards) {
    append(backward);
    if (next < microbatches) append(units.forwards[next++]);
  }
  append(units.tail);
  return order;
}

std::vector<StageUnits> all_units(const ComputationDag& dag) {
  std::vector<StageUnits> units;
  for (int stage = 0; stage < dag.stages(); ++stage) units.push_back(stage_units(dag, stage));
  return units;
}

// Whether a transfer waits for the receiver as well as for the sender (PipelineSpec::transfers_occupy_both).
bool orders_transfers(const ComputationDag& dag) {
  for (int i = 0; i < dag.size(); ++i) {
    if (!dag.type_of(i).occupies_stage && dag.predecessors(i).size() > 1) return true;
  }
  return false;
}

std::vector<Nanoseconds> max_clock_durations(const PlanProblem& problem, const ComputationDag& dag) {
  TypeOptions options;
  for (const PlanProblem::TypeChoices& choices : problem.choices) options.push_back(choices.max_clock);
  return plan_durations(dag, plan_of_types(dag, options));
}

}  // namespace

std::optional<std::vector<int>> in_flight_of_1f1b(const ComputationDag& dag) {
  std::vector<int> in_flight;
  for (int stage = 0; stage < dag.stages(); ++stage) {
    const StageUnits units = stage_units(dag, stage);
    const auto microbatches = static_cast<int>(units.forwards.size());
    const auto order = dag.stage_order(stage);
    if (!units.is_1f1b || microbatches == 0 || units.backwards.size() != units.forwards.size() ||
        units.in_flight != std::min(dag.stages() - stage, microbatches) ||
        !std::ranges::equal(order_with(units, units.in_flight), order)) {
      return std::nullopt;
    }
    in_flight.push_back(units.in_flight);
  }
  return in_flight;
}

void check_memory_limit(const ComputationDag& dag, std::span<const int> memory_limit) {
  if (memory_limit.size() != static_cast<std::size_t>(dag.stages())) {
    throw UsageError(
        fmt::format("{} memory limits for {} stages; give one, or one per stage", memory_limit.size(), dag.stages()));
  }
  const auto held = in_flight_of_1f1b(dag);
  for (std::size_t s = 0; s < memory_limit.size(); ++s) {
    if (memory_limit[s] < 1) {
      throw UsageError(fmt::format("the memory limit of stage {} is {}; it counts microbatches, give 1 or above", s,
                                   memory_limit[s]));
    }
    if (held && memory_limit[s] < (*held)[s]) {
      throw UsageError(fmt::format(
          "the memory limit of stage {} is {}, but 1f1b holds {} microbatches' activations there; raise the "
          "limit to {} or above, or leave it out",
          s, memory_limit[s], (*held)[s], (*held)[s]));
    }
  }
}

std::vector<int> rescheduled_in_flight(const PlanProblem& problem, std::span<const int> memory_limit) {
  const ComputationDag& dag = *problem.dag;
  const auto base = in_flight_of_1f1b(dag);
  if (!base) throw UsageError("forwards can only be rescheduled in a 1f1b schedule");
  if (!memory_limit.empty()) check_memory_limit(dag, memory_limit);
  if (orders_transfers(dag)) return *base;

  const Timeline timeline = emulate(dag, max_clock_durations(problem, dag));
  const TypeOptions valley = valley_options(dag);
  const std::vector<StageUnits> units = all_units(dag);

  const std::size_t stages = base->size();
  std::vector<int> extra(stages, 0);
  for (std::size_t s = 0; s + 1 < stages; ++s) {
    const auto held = static_cast<std::size_t>((*base)[s]);
    const auto microbatches = static_cast<int>(units[s].forwards.size());
    const int forward = units[s].forwards[held - 1].back();
    const int backward = units[s].backwards.front().back();
    const Nanoseconds bubble =
        timeline.start[static_cast<std::size_t>(backward)] - timeline.finish[static_cast<std::size_t>(forward)];
    const Nanoseconds stretched =
        to_nanoseconds(dag.type_of(forward).options[valley[static_cast<std::size_t>(dag[forward].type)]].time);
    extra[s] = static_cast<int>(std::min<Nanoseconds>(bubble / stretched, microbatches - (*base)[s]));
    if (!memory_limit.empty()) extra[s] = std::min(extra[s], memory_limit[s] - (*base)[s]);
  }
  for (std::size_t s = 0; s + 1 < stages; ++s) {
    const bool holds_all = (*base)[s] + extra[s] == static_cast<int>(units[s].forwards.size());
    if (extra[s + 1] > extra[s] && !holds_all) extra[s + 1] = extra[s];
  }

  // Bubbles of an unbalanced pipeline may not take what they seem to: forwards come late from a slow stage above.
  std::vector<Nanoseconds> finish(static_cast<std::size_t>(dag.size()));
  const auto capped = [&](int cap) {
    std::vector<int> in_flight = *base;
    for (std::size_t s = 0; s < stages; ++s) in_flight[s] += std::min(extra[s], cap);
    return in_flight;
  };
  for (int cap = *std::max_element(extra.begin(), extra.end()); cap > 0; --cap) {
    std::vector<int> in_flight = capped(cap);
    const ComputationDag moved = reschedule(dag, in_flight);
    if (makespan(moved, max_clock_durations(problem, moved), finish) <= timeline.makespan) return in_flight;
  }
  return *base;
}

ComputationDag reschedule(const ComputationDag& dag, std::span<const int> in_flight) {
  std::vector<ComputationDag::Edge> edges;
  for (int i = 0; i < dag.size(); ++i) {
    const OperationType& type = dag.type_of(i);
    for (const std::int32_t p : dag.predecessors(i)) {
      const OperationType& before = dag.type_of(p);
      const bool same_stage = before.stage == type.stage && before.occupies_stage && type.occupies_stage;
      if (!same_stage) edges.push_back({p, i});
    }
  }
  for (int stage = 0; stage < dag.stages(); ++stage) {
    const std::vector<int> order = order_with(stage_units(dag, stage), in_flight[static_cast<std::size_t>(stage)]);
    for (std::size_t k = 1; k < order.size(); ++k) edges.push_back({order[k - 1], order[k]});
  }
  return {"rescheduled 1f1b",
          dag.stages(),
          {dag.types().begin(), dag.types().end()},
          {dag.computations().begin(), dag.computations().end()},
          edges};
}

}  // namespace flyball
