// The two parts that plans for a pace and plans inside limits have in common: running a planner, and its bound.
#include "plan/planning_parts.h"

#include <fmt/format.h>

#include "base/error.h"

namespace flyball {

BoundCurve solve_bound(const PlanProblem& problem, const ComputationDag& dag, const std::string& planner,
                       PlanningWatch& watch) {
  const std::function<bool()> go_on = watch.begin_unmeasured(PlanningWork::kBound, planner);
  return solve_relaxation(dag, problem.hulls(), [&](const FrontierStretch&) { return go_on(); }).bound;
}

PlannerResult run_planner(const PlanProblem& problem, const std::string& planner, PlanningWatch& watch, double share) {
  PlannerResult result = make_planner(planner)->plan(problem, watch.begin({PlanningWork::kPlanner, planner, share}));
  if (result.frontier.empty() && !watch.stopped()) {
    throw Error(fmt::format("planner {} found no plan for this pipeline", planner));
  }
  return result;
}

}  // namespace flyball
