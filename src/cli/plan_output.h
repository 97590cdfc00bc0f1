// What `flyball plan` prints.
#pragma once

#include <string>
#include <vector>

#include "cli/pipeline_options.h"
#include "cli/planning_run.h"

namespace flyball {

// Returns one JSON object with the fields that docs/manual/plan-files.md lists; with several runs, the first one's
// object and all of them under "planners". `measured` includes solve_seconds and peak_rss_mb, which differ from run
// to run.
[[nodiscard]] std::string plan_results_json(const LoadedPipeline& pipeline, const std::vector<PlannerRun>& runs,
                                            bool measured);

// Returns tables for people, at most 80 columns wide.
[[nodiscard]] std::string plan_results_text(const LoadedPipeline& pipeline, const std::vector<PlannerRun>& runs);

// Returns the saving to expect, in per cent, such as "12.57 ± 0.02", or "unknown".
[[nodiscard]] std::string expected_saving_text(const PlannerRun& run);

}  // namespace flyball
