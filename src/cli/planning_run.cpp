// Planners run one after the other on this thread. A planner that has no lower bounds of its own gets them from the
// relaxation, which is solved once for each order of operations.
#include "cli/planning_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "cli/console.h"
#include "plan/relaxation.h"
#include "plan/stage_orders.h"

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

// Bounds every plan on one order of operations; another order has its own.
BoundCurve solve_bound(const PlanProblem& problem, const ComputationDag& dag, const InterruptGuard& guard) {
  RelaxationResult relaxed =
      solve_relaxation(dag, problem.hulls(), [&](const FrontierStretch&) { return !guard.interrupted(); });
  guard.throw_if_interrupted();
  return std::move(relaxed.bound);
}

// The selected plan may take until the pace that was asked for, but never less than it does with free changes.
SwitchingFigures charge_switching(const PlanProblem& problem, const PlannerRun& run, const PlanningRequest& request) {
  const PlanSummary& summary = run.summary;
  return switching_figures(problem, run.result.dag_of(problem), run.result.frontier.plan(summary.selected_point),
                           std::max(summary.allowed_time, summary.selected.time), *request.switching, summary.baseline,
                           summary.straggler_time);
}

}  // namespace

std::vector<int> in_flight_of(const ComputationDag& dag) {
  std::vector<int> in_flight;
  for (const StageOrder& order : present_orders(dag).value_or(std::vector<StageOrder>{})) {
    in_flight.push_back(most_in_flight(order));
  }
  return in_flight;
}

std::vector<PlannerRun> run_planners(LoadedPipeline& pipeline, const PlanningRequest& request,
                                     const InterruptGuard& guard) {
  std::vector<std::string> names{request.planner};
  if (request.planner == kAllPlanners) {
    names = planner_names();
    std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name == kMainPlanner; });
  }
  pipeline.problem.focus = {to_nanoseconds(allowed_time(pipeline.problem, request.pace))};
  pipeline.problem.focus.insert(pipeline.problem.focus.end(), request.focus.begin(), request.focus.end());
  std::vector<PlannerRun> runs;
  std::map<const ComputationDag*, BoundCurve> bounds;
  const auto bound_on = [&](const ComputationDag& dag) -> const BoundCurve& {
    const auto found = bounds.find(&dag);
    return found != bounds.end() ? found->second
                                 : bounds.emplace(&dag, solve_bound(pipeline.problem, dag, guard)).first->second;
  };
  for (const std::string& name : names) {
    PlannerRun run{run_planner(pipeline.problem, name, guard), {}, std::nullopt, std::nullopt, {}};
    const ComputationDag& dag = run.result.dag_of(pipeline.problem);
    if (run.result.frontier.bounds_are_open()) set_lower_bounds(run.result.frontier, bound_on(dag));
    const auto bound = bounds.find(&pipeline.dag);
    run.summary = summarise(name, pipeline.problem, dag, run.result.frontier, request.pace,
                            bound == bounds.end() ? nullptr : &bound->second);
    if (pipeline.noise.known()) {
      run.expected = expected_figures(pipeline.problem, pipeline.noise, dag,
                                      run.result.frontier.plan(run.summary.selected_point), run.summary.straggler_time);
    }
    run.in_flight = in_flight_of(dag);
    if (request.switching) run.switching = charge_switching(pipeline.problem, run, request);
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace flyball
