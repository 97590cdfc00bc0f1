// What `flyball plan` prints.
#pragma once

#include <string>
#include <vector>

#include "cli/pipeline_options.h"
#include "cli/planning_run.h"

namespace flyball {

// One JSON object with the fields that docs/manual/plan.md lists; with several runs, the first one's object and all of
// them under "planners". `measured` includes solve_seconds and peak_rss_mb, which differ from run to run.
[[nodiscard]] std::string plan_results_json(const LoadedPipeline& pipeline, const std::vector<PlannerRun>& runs,
                                            bool measured);

// Tables for people, at most 80 columns.
[[nodiscard]] std::string plan_results_text(const LoadedPipeline& pipeline, const std::vector<PlannerRun>& runs);

// "12.57 ± 0.02", in percent, or "unknown".
[[nodiscard]] std::string expected_saving_text(const PlannerRun& run);

}  // namespace flyball
