// Plans a pipeline inside limits on the power of the whole job: with all options and with ever fewer of those that draw
// most (power_limits.h), for one limit or for each period of a budget.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "pipeline/power_curve.h"
#include "plan/planner.h"
#include "plan/planning_parts.h"
#include "plan/power_budget.h"
#include "plan/power_limits.h"
#include "plan/summary.h"

namespace flyball {

struct PowerRequest {
  JobPowerLimits limits;
  std::vector<BudgetPeriod> budget;  // in place of a limit on the peak
  std::vector<double> tighter;       // parts of the limits, falling: plans inside these are wanted, too
};

// The fastest plan that was found inside a part of the limits.
struct TighterPlan {
  ClockPlan plan;
  Seconds time;
  double share = 1.0;                         // as in PowerFigures
  std::shared_ptr<const ComputationDag> dag;  // as in PlannerResult
};

// The power of a job, as planned inside limits and at maximum clocks.
struct PowerFigures {
  JobPowerLimits limits;
  int copies = 1;  // GPUs in step on every stage
  PowerShape baseline;
  PowerShape plan;
  std::optional<Seconds> least_time;  // no plan on this order inside the limits is faster; none where unknown
  double over_least_time_pct = 0.0;   // how much longer the plan takes than that
  double share = 1.0;                 // of kCapShares, with whose options the plan was made; 1: with all
};

// The plan of one period of a power budget: the fastest that was found inside it.
struct BudgetedPlan {
  BudgetPeriod period;
  FrontierPoint point;
  PointFigures figures;
  Watts peak;
  double iterations = 0.0;  // that fit into the period
  std::size_t number = 0;   // of the plan, from 0; periods with the same plan share one
  ClockPlan plan;
};

// Limits that no plan was found to keep to.
struct UnmetPower {
  JobPowerLimits limits;
  std::optional<BudgetPeriod> period;  // whose limit it is, of a budget
  LeastPower least;                    // of the plans that were looked at
  // The plan of the least peak, or where there is no limit on the peak, of the least ramp, and the DAG that it is for,
  // as PlannerResult has it: what can be run instead.
  ClockPlan plan;
  std::shared_ptr<const ComputationDag> dag;
};

struct PowerPlanning {
  // The frontier of the share of options whose plan was taken, with bounds that hold for plans of all options, and the
  // statistics of all shares together.
  PlannerResult result;
  std::size_t point = 0;  // the fastest plan inside the limits; under a budget, that of the period of least power
  PowerFigures figures;
  std::vector<BudgetedPlan> budget;  // one for each period
  std::vector<TighterPlan> tighter;  // by rising time; fewer than were asked for where none was found
  std::optional<UnmetPower> unmet;   // where it is set, nothing else is
};

// Plans with `planner`, one that plans with the problem's choices (power_limits.h), which has planned `whole` with all
// of them; for a budget it must be one that keeps the order, which a running job cannot change. `baseline` is that of
// baseline_figures() without straggler. Returns none where the watch has stopped. Cost: a run of the planner for each
// share of kCapShares, and a power_curve() for each plan that is looked at.
[[nodiscard]] std::optional<PowerPlanning> plan_within(const PlanProblem& problem, const std::string& planner,
                                                       PlannerResult whole, const PowerRequest& request, int copies,
                                                       const PointFigures& baseline, PlanningWatch& watch);

}  // namespace flyball
