// The bubbles that forwards move into are measured on the timeline of maximum clocks. stage_orders.h makes the new
// order.
#include "plan/reschedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "pipeline/instruction.h"
#include "pipeline/timeline.h"
#include "plan/stage_clock.h"
#include "plan/stage_orders.h"

namespace flyball {
namespace {

std::vector<Nanoseconds> max_clock_durations(const PlanProblem& problem, const ComputationDag& dag) {
  TypeOptions options;
  for (const PlanProblem::TypeChoices& choices : problem.choices) options.push_back(choices.max_clock);
  return plan_durations(dag, plan_of_types(dag, options));
}

std::int32_t find_operation(const ComputationDag& dag, int stage, InstructionKind kind, int microbatch) {
  const auto order = dag.stage_order(stage);
  return *std::ranges::find_if(order, [&](std::int32_t i) {
    return dag[i].microbatch == microbatch && is_of_kind(dag.type_of(i).instruction, kind);
  });
}

}  // namespace

std::optional<std::vector<int>> in_flight_of_1f1b(const ComputationDag& dag) {
  const auto orders = present_orders(dag);
  if (!orders) return std::nullopt;
  std::vector<int> in_flight;
  for (int stage = 0; stage < dag.stages(); ++stage) {
    const StageOrder& order = (*orders)[static_cast<std::size_t>(stage)];
    const int microbatches = order.microbatches();
    const int held = std::min(dag.stages() - stage, microbatches);
    if (order != in_turn(microbatches, held)) return std::nullopt;
    in_flight.push_back(held);
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
  if (!stage_orders(dag)) return *base;

  const Timeline timeline = emulate(dag, max_clock_durations(problem, dag));
  const TypeOptions valley = valley_options(dag);
  const int microbatches = stage_orders(dag)->front().microbatches();

  const std::size_t stages = base->size();
  std::vector<int> extra(stages, 0);
  for (std::size_t s = 0; s + 1 < stages; ++s) {
    const std::int32_t forward = find_operation(dag, static_cast<int>(s), InstructionKind::kForward, (*base)[s] - 1);
    const std::int32_t backward = find_operation(dag, static_cast<int>(s), InstructionKind::kBackward, 0);
    const Nanoseconds bubble =
        timeline.start[static_cast<std::size_t>(backward)] - timeline.finish[static_cast<std::size_t>(forward)];
    const Nanoseconds stretched =
        to_nanoseconds(dag.type_of(forward).options[valley[static_cast<std::size_t>(dag[forward].type)]].time);
    extra[s] = static_cast<int>(std::min<Nanoseconds>(bubble / stretched, microbatches - (*base)[s]));
    if (!memory_limit.empty()) extra[s] = std::min(extra[s], memory_limit[s] - (*base)[s]);
  }
  for (std::size_t s = 0; s + 1 < stages; ++s) {
    const bool holds_all = (*base)[s] + extra[s] == microbatches;
    if (extra[s + 1] > extra[s] && !holds_all) extra[s + 1] = extra[s];
  }

  // The bubbles of an unbalanced pipeline may hold less than it seems, since forwards come late from a slow stage
  // above.
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
  const int microbatches = stage_orders(dag)->front().microbatches();
  std::vector<StageOrder> orders;
  for (const int held : in_flight) orders.push_back(in_turn(microbatches, held));
  return reorder(dag, orders);
}

}  // namespace flyball
