// Plans a loaded pipeline for the commands: a bar shows how far it is, Ctrl-C ends it.
#pragma once

#include <string>
#include <vector>

#include "cli/interrupt.h"
#include "cli/pipeline_options.h"
#include "plan/planning.h"

namespace flyball {

inline constexpr const char* kAllPlanners = "all";

// Returns the planners that an option's value stands for: the one of that name, or all, the main one first.
[[nodiscard]] std::vector<std::string> planners_named(const std::string& name);

// Returns plan_as_asked() of the pipeline, with its job and the noise of its measurements, one run for each planner.
// Throws Interrupted, what plan_as_asked() throws, and Error where no plan keeps to the limits on power.
[[nodiscard]] std::vector<PlannerRun> run_planners(const LoadedPipeline& pipeline, PlanningRequest request,
                                                   const InterruptGuard& guard);

}  // namespace flyball
