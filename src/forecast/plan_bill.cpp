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

std::size_t fastest_below(const Frontier& frontier, int stages, Watts cap) {
  Watts least(0);
  for (std::size_t k = 0; k < frontier.size(); ++k) {
    const Watts power = frontier.energy(k) / frontier.time(k) / static_cast<double>(stages);
    if (power <= cap) return k;
    if (k == 0 || power < least) least = power;
  }
  throw UsageError(
      fmt::format("--power-cap {:g}: at no point of the plan does a GPU draw less than {:.4g} W on average",
                  cap.value(), least.value()));
}

std::size_t chosen_point(const ComputationDag& dag, const Frontier& frontier, const PlannedRun& run, Seconds fastest) {
  if (run.power_cap) return fastest_below(frontier, dag.stages(), *run.power_cap);
  if (!run.slower_pct) return run.point;
  return frontier.cheapest_by(to_nanoseconds((1.0 + *run.slower_pct / 100.0) * fastest));
}

}  // namespace

PlanBill bill_of_plan(const ComputationDag& dag, const Frontier& frontier, const std::vector<Watts>& blocking,
                      const PlannedRun& run) {
  if (frontier.empty()) throw UsageError("the plan has no points; make it again");
  const FrontierPoint before = at_maximum_clocks(dag, blocking);
  const std::size_t point = chosen_point(dag, frontier, run, to_seconds(before.time));
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

ClockFactors clock_factors(const PlanBill& bill) {
  const EnergySheet::Baseline& before = *bill.sheet.baseline;
  return {bill.sheet.duration / before.duration, bill.sheet.energy / before.energy};
}

RunDescription at_clocks(RunDescription run, const ClockFactors& factors) {
  const std::size_t accelerator = index_of(Component::kAccelerator);
  for (NodeType& type : run.node_types) {
    if (!type.components[accelerator]) {
      throw UsageError(fmt::format("--plan sets the clocks of accelerators, and '{}' has none in power_w", type.name));
    }
    for (const TrainingStage which : {TrainingStage::kForward, TrainingStage::kBackward}) {
      StageMeasurement& stage = type.stage(which);
      const ComponentPower& power = *type.components[accelerator];
      const Watts drawn = stage.power[accelerator].value_or(stage.active[accelerator] ? power.active : power.idle);
      stage.power[accelerator] = factors.energy / factors.time * drawn;
      for (Seconds& time : stage.times) time = factors.time * time;
      for (std::size_t c = 0; c < kComponents; ++c) {
        for (Joules& joules : stage.recorded[c]) joules = (c == accelerator ? factors.energy : factors.time) * joules;
      }
    }
  }
  return run;
}

}  // namespace flyball
