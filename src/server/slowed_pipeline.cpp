// What becomes of a pipeline of which stages compute slower than they were profiled. Its iteration is emulated by the
// base point's clocks, and by those of stages that were given low clocks since they had slack, raised to the highest.
#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/executed_step.h"
#include "server/job_plan.h"

namespace flyball {

void JobPlan::raise(ClockPlan& plan, const std::vector<int>& stages) const {
  if (stages.empty()) return;
  const PlanProblem& problem = basis_->realised;
  const ClockPlan highest = max_clock_plan(problem);
  for (const int stage : stages) {
    for (const int i : measured_operations(*problem.dag, stage)) {
      plan[static_cast<std::size_t>(i)] = highest[static_cast<std::size_t>(i)];
    }
  }
}

JobPlan::Slowed JobPlan::slowed(std::span<const double> slowdowns) const {
  const ComputationDag& dag = *basis_->realised.dag;
  const ClockPlan base = result_.frontier.plan(base_point_);
  std::vector<Nanoseconds> finish(base.size());
  const auto usual = static_cast<double>(makespan(dag, plan_durations(dag, base), finish));
  const auto degree = [&](const std::vector<int>& raised) {
    ClockPlan plan = base;
    raise(plan, raised);
    std::vector<Nanoseconds> durations = plan_durations(dag, plan);
    for (int stage = 0; stage < dag.stages(); ++stage) {
      for (const int i : measured_operations(dag, stage)) {
        Nanoseconds& duration = durations[static_cast<std::size_t>(i)];
        duration = std::llround(static_cast<double>(duration) * slowdowns[static_cast<std::size_t>(stage)]);
      }
    }
    return std::max(1.0, static_cast<double>(makespan(dag, durations, finish)) / usual);
  };
  std::vector<int> slow;
  std::vector<int> all;
  for (int stage = 0; stage < dag.stages(); ++stage) {
    all.push_back(stage);
    if (slowdowns[static_cast<std::size_t>(stage)] > 1.0) slow.push_back(stage);
  }
  Slowed slowed{degree({}), {}};
  if (limits_ || wants_steps()) return slowed;
  const double least = degree(all);
  for (const std::vector<int>* raised : {&slow, &all}) {
    if (slowed.degree <= (1.0 + kPromiseTolerance) * least) break;
    slowed = {degree(*raised), *raised};
  }
  return slowed;
}

}  // namespace flyball
