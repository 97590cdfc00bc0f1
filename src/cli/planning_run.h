// Plans a loaded pipeline for the commands: a bar shows how far it is, Ctrl-C ends it.
#pragma once

#include <string>
#include <vector>

#include "cli/interrupt.h"
#include "cli/pipeline_options.h"
#include "plan/planning.h"

namespace flyball {

// Returns plan_as_asked() of the pipeline, with its job and the noise of its measurements, one run for each planner.
// Throws Interrupted, what plan_as_asked() throws, and Error where no plan keeps to the limits on power.
[[nodiscard]] std::vector<PlannerRun> run_planners(const LoadedPipeline& pipeline, PlanningRequest request,
                                                   const InterruptGuard& guard);

}  // namespace flyball
