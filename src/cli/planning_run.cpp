#include "cli/planning_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "cli/console.h"
#include "plan/relaxation.h"

namespace flyball {
namespace {

PlannerResult run_planner(const PlanProblem& problem, const std::string& name, const InterruptGuard& guard) {
  ProgressBar bar(fmt::format("planning ({})", name));
  PlannerResult result = make_planner(name)->plan(problem, [&](double share) {
    bar.update(share);
    return !guard.interrupted();
  });
  guard.throw_if_interrupted();
  if (result.frontier.empty()) throw Error(fmt::format("planner {} found no plan for this pipeline", name));
  return result;
}

bool bounds_are_open(const Frontier& frontier) {
  return std::any_of(frontier.points().begin(), frontier.points().end(),
                     [](const FrontierPoint& point) { return std::isnan(point.net_lower_bound); });
}

// Bounds every plan on one order of operations; another order has its own.
BoundCurve solve_bound(const PlanProblem& problem, const ComputationDag& dag, const InterruptGuard& guard) {
  std::vector<CostCurve> hulls;
  for (const PlanProblem::TypeChoices& choices : problem.choices) hulls.push_back(choices.hull);
  RelaxationResult relaxed = solve_relaxation(dag, hulls, [&](const FrontierStretch&) { return !guard.interrupted(); });
  guard.throw_if_interrupted();
  return std::move(relaxed.bound);
}

}  // namespace

std::vector<PlannerRun> run_planners(const LoadedPipeline& pipeline, const std::string& planner,
                                     const PaceRequest& request, const InterruptGuard& guard) {
  std::vector<std::string> names{planner};
  if (planner == kAllPlanners) {
    names = planner_names();
    std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name == kMainPlanner; });
  }
  std::vector<PlannerRun> runs;
  std::map<const ComputationDag*, BoundCurve> bounds;
  const auto bound_on = [&](const ComputationDag& dag) -> const BoundCurve& {
    const auto found = bounds.find(&dag);
    return found != bounds.end() ? found->second
                                 : bounds.emplace(&dag, solve_bound(pipeline.problem, dag, guard)).first->second;
  };
  for (const std::string& name : names) {
    PlannerRun run{run_planner(pipeline.problem, name, guard), {}};
    const ComputationDag& dag = run.result.dag_of(pipeline.problem);
    if (bounds_are_open(run.result.frontier)) set_lower_bounds(run.result.frontier, bound_on(dag));
    const auto bound = bounds.find(&pipeline.dag);
    run.summary = summarise(name, pipeline.problem, dag, run.result.frontier, request,
                            bound == bounds.end() ? nullptr : &bound->second);
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace flyball
