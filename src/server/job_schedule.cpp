// What the ranks of each stage are to run by a plan: their computations in order, with their clocks, the transfers that
// are posted before them, and when the next clock is to be asked for.
#include <algorithm>
#include <cmath>
#include <string>

#include "pipeline/instruction.h"
#include "pipeline/late_clocks.h"
#include "plan/stage_orders.h"
#include "server/job_plan.h"

namespace flyball {
namespace {

constexpr Seconds kLatestMoment{1000.0};  // that a schedule names, after a computation's beginning

}  // namespace

JobPlan::Schedule JobPlan::schedule(const Run& run, const std::vector<int>& raised) const {
  const ComputationDag& dag = *basis_->realised.dag;
  Schedule schedule{{}, frontier().time(run.point), frontier().energy(run.point), Watts()};
  ClockPlan plan;
  if (is_without_cost()) {
    plan = result_.frontier.plan(run.point);
    schedule.straggler_power = straggler_power(dag, plan, basis_->realised.blocking);
  } else {
    const std::lock_guard lock(mutex_);
    const PreparedRun& prepared = prepared_.at(run);
    plan = prepared.plan;
    schedule.time = prepared.time;
    schedule.energy = prepared.energy;
    schedule.straggler_power = prepared.straggler_power;
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
