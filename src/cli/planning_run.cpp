// Runs the planning engine with a progress bar for each part of its work, and turns limits that cannot be kept into
// errors.
#include "cli/planning_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cli/console.h"

namespace flyball {
namespace {

// Empty where the part is too short for a bar.
std::string bar_label(const PlanningPart& part) {
  if (part.work == PlanningWork::kSwitching) return "looking for fewer clock changes";
  if (part.work != PlanningWork::kPlanner) return "";
  const std::string options =
      part.share < 1.0 ? fmt::format(", options of the lower {:.0f} % of the power", 100.0 * part.share) : "";
  return fmt::format("planning ({}{})", part.planner, options);
}

[[noreturn]] void refuse_power(const UnmetPower& unmet) {
  const JobPowerLimits& limits = unmet.limits;
  std::string text = "no plan was found";
  if (limits.peak) text += fmt::format(" that never draws more than {:.1f} W", limits.peak->value());
  if (unmet.period) text += fmt::format(" (from {} until {})", unmet.period->from, unmet.period->until);
  if (limits.ramp_w_per_s) text += fmt::format(" whose power changes by at most {:.1f} W/s", *limits.ramp_w_per_s);
  throw Error(
      fmt::format("{}; of the plans that were looked at, the lowest peak is {:.1f} W and the lowest ramp {:.1f} "
                  "W/s\n  to mend: raise the limit, or let fewer GPUs run",
                  text, unmet.least.peak.value(), unmet.least.ramp_w_per_s));
}

}  // namespace

std::vector<PlannerRun> run_planners(const LoadedPipeline& pipeline, PlanningRequest request,
                                     const InterruptGuard& guard) {
  std::optional<ProgressBar> bar;
  request.noise = &pipeline.noise;
  request.job = {pipeline.spec.data_parallel, pipeline.spec.tensor_parallel};
  request.begins = [&](const PlanningPart& part) {
    bar.reset();
    if (const std::string label = bar_label(part); !label.empty()) bar.emplace(label);
  };
  PlanningResult result = plan_as_asked(pipeline.problem, request, [&](double share) {
    if (bar) bar->update(share);
    return !guard.interrupted();
  });
  guard.throw_if_interrupted();
  if (result.unmet) refuse_power(*result.unmet);
  return std::move(result.runs);
}

}  // namespace flyball
