// Runs one planner, or all of them, on a loaded pipeline.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/interrupt.h"
#include "cli/pipeline_options.h"
#include "plan/expected_saving.h"
#include "plan/planner.h"
#include "plan/power_budget.h"
#include "plan/power_limits.h"
#include "plan/summary.h"

namespace flyball {

inline constexpr const char* kAllPlanners = "all";
inline constexpr const char* kMainPlanner = "perseus";     // in the schedule's order
inline constexpr const char* kFreeOrderPlanner = "joint";  // in the order that it finds best

// The power of a job, as planned inside limits and at maximum clocks.
struct PowerFigures {
  JobPowerLimits limits;
  int copies = 1;  // GPUs in step on every stage
  PowerShape baseline;
  PowerShape plan;
  std::optional<Seconds> least_time;  // no plan on this order that keeps to the peak is faster; none where unknown
};

// The plan of one period of a power budget: the fastest that was found inside it.
struct BudgetedPlan {
  BudgetPeriod period;
  FrontierPoint point;
  PointFigures figures;
  Watts peak;
  ClockPlan plan;
};

// What every stage could bring by holding one more microbatch than in the schedule's order.
struct OneMoreInFlight {
  std::vector<int> memory_limit;
  double saving_pct = 0.0;  // about, at the selected plan's pace: at most in one such order, while others save more
};

// The result of one planner. Operation i of its plans is operation i of result.dag_of(problem).
struct PlannerRun {
  PlannerResult result;
  PlanSummary summary;
  std::optional<SwitchingFigures> switching;  // of the selected plan, when asked for
  std::optional<ExpectedFigures> expected;    // of the selected plan, where the noise of its measurements is known
  std::vector<int> in_flight;                 // microbatches that each stage holds at most; empty where unknown
  std::optional<OneMoreInFlight> one_more;    // where it was asked for, can be run, and would save more
  std::optional<PowerFigures> power;          // of the selected plan, where there are limits
  std::vector<BudgetedPlan> budget;           // one for each period; the selected plan is that of the least power
};

// What the user asks about a pipeline.
struct PlanningRequest {
  std::string planner = kMainPlanner;
  PaceRequest pace;
  std::optional<SwitchingLimits> switching;
  std::vector<Nanoseconds> focus;       // iteration times that matter besides the pace's
  std::optional<JobPowerLimits> power;  // instead of a pace
  std::vector<BudgetPeriod> budget;     // in place of a limit on the peak; `power` must be there
  bool look_at_order = false;           // tell what another order could save
};

// Returns the most microbatches of which each stage holds activations at once; empty where there are no
// present_orders() (plan/stage_orders.h), as with several chunks.
[[nodiscard]] std::vector<int> in_flight_of(const ComputationDag& dag);

// Plans with `request.planner`, or with every planner when it is "all", the main one first. Shows progress, checks for
// Ctrl-C (throws Interrupted) and fills lower bounds that planners leave open. Within limits on power, of one planner,
// it plans anew for every share of kCapShares; the frontier is then that of the share whose plan was taken. Throws
// Error when a planner finds no plan, or none inside the limits. Limits are for planners that plan with the problem's
// choices (plan/power_limits.h), and a budget for one that keeps the order.
[[nodiscard]] std::vector<PlannerRun> run_planners(LoadedPipeline& pipeline, const PlanningRequest& request,
                                                   const InterruptGuard& guard);

}  // namespace flyball
