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
#include "plan/summary.h"

namespace flyball {

inline constexpr const char* kAllPlanners = "all";
inline constexpr const char* kMainPlanner = "perseus";

// The result of one planner. Operation i of its plans is operation i of result.dag_of(problem).
struct PlannerRun {
  PlannerResult result;
  PlanSummary summary;
  std::optional<SwitchingFigures> switching;  // of the selected plan, when asked for
  std::optional<ExpectedFigures> expected;    // of the selected plan, where the noise of its measurements is known
  std::vector<int> in_flight;                 // microbatches that each stage holds at most; empty where unknown
};

// What the user asks about a pipeline.
struct PlanningRequest {
  std::string planner = kMainPlanner;
  PaceRequest pace;
  std::optional<SwitchingLimits> switching;
  std::vector<Nanoseconds> focus;  // iteration times that matter besides the pace's
};

// Returns the most microbatches of which each stage holds activations at once; empty where there are no
// present_orders() (plan/stage_orders.h), as with several chunks.
[[nodiscard]] std::vector<int> in_flight_of(const ComputationDag& dag);

// Plans with `request.planner`, or with every planner when it is "all", the main one first. Shows progress, checks for
// Ctrl-C (throws Interrupted) and fills lower bounds that planners leave open. Throws Error when a planner finds no
// plan.
[[nodiscard]] std::vector<PlannerRun> run_planners(LoadedPipeline& pipeline, const PlanningRequest& request,
                                                   const InterruptGuard& guard);

}  // namespace flyball
