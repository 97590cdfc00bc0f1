// The energy of a plan's point is summed from its operations: what a stage computes, by instruction, and its blocking
// power over the rest of the iteration. The baseline is a replay of the same DAG with every type of operation at its
// highest clock.
#include "forecast/plan_bill.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "pipeline/instruction.h"
#include "pipeline/timeline.h"
#include "plan/stage_clock.h"

namespace flyball {
namespace {

// What a stage's own computations take under a plan; the rest of the iteration it is blocked.
struct StageEnergy {
  Joules forward;
  Joules backward;
  Joules other;
  Joules waiting_above;  // beyond the blocking power
  Seconds busy;
};

std::vector<StageEnergy> energy_of_stages(const ComputationDag& dag, const ClockPlan& plan,
                                          const std::vector<Watts>& blocking) {
  std::vector<StageEnergy> stages(static_cast<std::size_t>(dag.stages()));
  for (int i = 0; i < dag.size(); ++i) {
    const OperationType& type = dag.type_of(i);
    const ClockOption& option = type.options[plan[static_cast<std::size_t>(i)]];
    StageEnergy& own = stages[static_cast<std::size_t>(type.stage)];
    const std::string_view name = announced_name(type.instruction);
    const bool backward = name.starts_with("backward") || name == "recompute";
    Joules& part = name == "forward" ? own.forward : backward ? own.backward : own.other;
    part += option.energy;
    if (type.occupies_stage) {
      own.busy += option.time;
    } else {  // the stage is charged as waiting meanwhile
      part -= charged_blocking(type, blocking[static_cast<std::size_t>(type.stage)]) * option.time;
    }
  }
  const std::vector<WaitingAbove> above = waiting_above(dag, plan);
  for (std::size_t s = 0; s < above.size(); ++s) stages[s].waiting_above = above[s].inside;
  return stages;
}

FrontierPoint at_maximum_clocks(const ComputationDag& dag, const std::vector<Watts>& blocking) {
  std::vector<std::uint16_t> highest;
  for (const OperationType& type : dag.types()) {
    const auto found =
        std::max_element(type.options.begin(), type.options.end(),
                         [](const ClockOption& a, const ClockOption& b) { return a.frequency < b.frequency; });
    highest.push_back(static_cast<std::uint16_t>(found - type.options.begin()));
  }
  return replay(dag, blocking, plan_of_types(dag, highest));
}

std::size_t chosen_point(const Frontier& frontier, const PlannedRun& run, Seconds fastest) {
  if (!run.slower_pct) return run.point;
  return frontier.cheapest_by(to_nanoseconds((1.0 + *run.slower_pct / 100.0) * fastest));
}

}  // namespace

PlanBill bill_of_plan(const ComputationDag& dag, const Frontier& frontier, const std::vector<Watts>& blocking,
                      const PlannedRun& run) {
  if (frontier.empty()) throw UsageError("the plan has no points; make it again");
  const FrontierPoint before = at_maximum_clocks(dag, blocking);
  const std::size_t point = chosen_point(frontier, run, to_seconds(before.time));
  if (point >= frontier.size()) {
    throw UsageError(fmt::format("the plan's points are 0 to {}; there is no point {}", frontier.size() - 1, point));
  }
  const ClockPlan clocks = frontier.plan(point);
  const Seconds time = frontier.time(point);

  const double factor = run.iterations * static_cast<double>(run.gpus);
  EnergySheet sheet;
  sheet.count = run.iterations;
  sheet.duration = run.iterations * time;
  Joules forward(0);
  Joules backward(0);
  Joules other(0);
  Joules blocked(0);
  const std::vector<StageEnergy> stages = energy_of_stages(dag, clocks, blocking);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Joules waiting = factor * (blocking[s] * (time - stages[s].busy) + stages[s].waiting_above);
    const Joules own = factor * (stages[s].forward + stages[s].backward + stages[s].other) + waiting;
    forward += factor * stages[s].forward;
    backward += factor * stages[s].backward;
    other += factor * stages[s].other;
    blocked += waiting;
    sheet.node_types.push_back({fmt::format("stage {}", s), run.gpus, own, time - stages[s].busy});
    sheet.energy += own;
  }
  sheet.stages = {{"compute", forward + backward + other, {{"forward", forward}, {"backward", backward}}},
                  {"communicate", blocked, {{"blocked", blocked}}}};
  if (other > Joules(0)) sheet.stages[0].parts.push_back({"other operations", other});
  sheet.components = {{"accelerator", sheet.energy}};
  const Joules total_before(before.net_joules);
  Watts all_blocked(0);
  for (const Watts power : blocking) all_blocked += power;
  sheet.baseline =
      EnergySheet::Baseline{"all-maximum clocks", factor * (total_before + all_blocked * to_seconds(before.time)),
                            run.iterations * to_seconds(before.time)};
  return {std::move(sheet), point};
}

}  // namespace flyball
