// Planners run one after the other on this thread. A planner that has no lower bounds of its own gets them from the
// relaxation, which is solved once for each order of operations.
#include "cli/planning_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "base/error.h"
#include "cli/console.h"
#include "plan/relaxation.h"
#include "plan/stage_orders.h"

namespace flyball {
namespace {

PlannerResult run_planner(const PlanProblem& problem, const std::string& name, const InterruptGuard& guard,
                          const std::string& what = "") {
  ProgressBar bar(fmt::format("planning ({}{})", name, what));
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

[[noreturn]] void refuse_power(const LoadedPipeline& pipeline, std::span<const PlannerResult> results,
                               const JobPowerLimits& limits, int copies) {
  const PointWithin lowest = least_peak(pipeline.problem, results);
  const PlannerResult& result = results[lowest.result];
  const PowerCurve curve = power_curve(result.dag_of(pipeline.problem), result.frontier.plan(lowest.point),
                                       pipeline.problem.blocking, copies);
  throw Error(fmt::format(
      "no plan was found inside the limits on power; the lowest peak that was found is {:.1f} W, with a ramp of {:.1f} "
      "W/s, at {:.4f} s an iteration\n  to mend: raise the limit, or let fewer GPUs run",
      peak_of(curve).value(), ramp_of(curve, limits.ramp_window), result.frontier.time(lowest.point).value()));
}

// Plans with ever fewer of the options that draw most.
std::vector<PlannerResult> plan_capped(const PlanProblem& problem, PlannerRun& run, const InterruptGuard& guard) {
  std::vector<PlannerResult> results;
  results.push_back(std::move(run.result));
  for (const double share : kCapShares) {
    results.push_back(run_planner(capped_problem(problem, share), run.summary.planner, guard,
                                  fmt::format(", options of the lower {:.0f} % of the power", 100.0 * share)));
  }
  return results;
}

// Takes the fastest plan that keeps to the limits, and makes it the run's; of a budget, that of the least power.
void choose_by_power(LoadedPipeline& pipeline, PlannerRun& run, const PlanningRequest& request,
                     const InterruptGuard& guard) {
  const PlanProblem& problem = pipeline.problem;
  const int copies = pipeline.spec.data_parallel * pipeline.spec.tensor_parallel;
  std::vector<PlannerResult> results = plan_capped(problem, run, guard);
  JobPowerLimits limits = *request.power;
  const auto find = [&] {
    const auto found = fastest_within(problem, results, limits, copies);
    guard.throw_if_interrupted();
    if (!found) refuse_power(pipeline, results, limits, copies);
    return *found;
  };
  const auto figures_at = [&](const PointWithin& place) {
    const PlannerResult& result = results[place.result];
    return point_figures(result.dag_of(problem), result.frontier, place.point, run.summary.baseline, std::nullopt);
  };
  for (const BudgetPeriod& period : request.budget) {
    limits.peak = period.power;
    const PointWithin place = find();
    const PlannerResult& result = results[place.result];
    if (result.dag) {
      throw UsageError(
          fmt::format("planner {} changes the order of the operations, which a running job cannot do from "
                      "one period to the next; use --budget with --planner perseus",
                      run.summary.planner));
    }
    BudgetedPlan& planned = run.budget.emplace_back();
    planned.period = period;
    planned.figures = figures_at(place);
    planned.plan = result.frontier.plan(place.point);
    planned.peak = peak_of(power_curve(pipeline.dag, planned.plan, problem.blocking, copies));
  }
  if (!request.budget.empty()) {
    limits.peak = std::min_element(request.budget.begin(), request.budget.end(), [](const auto& a, const auto& b) {
                    return a.power < b.power;
                  })->power;
  }
  const PointWithin chosen = find();
  PlanSummary& summary = run.summary;
  run.result = std::move(results[chosen.result]);
  Frontier& frontier = run.result.frontier;
  const ComputationDag& dag = run.result.dag_of(problem);
  const BoundCurve bound = solve_bound(problem, dag, guard);
  // Those that it was planned with bound plans of the options that were left.
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    frontier.point(i).net_lower_bound = bound.at(frontier.points()[i].time);
  }
  summary.t_star = frontier.time(frontier.size() - 1);
  summary.t_least_total = frontier.time(frontier.least_total_energy());
  summary.selected_point = chosen.point;
  summary.selected = point_figures(dag, frontier, chosen.point, summary.baseline, std::nullopt);
  summary.allowed_time = summary.selected.time;
  summary.limit = PaceLimit::kPower;
  const auto shape = [&](const ComputationDag& of, const ClockPlan& plan) {
    return shape_of(power_curve(of, plan, problem.blocking, copies), limits.ramp_window);
  };
  run.power = PowerFigures{limits, copies, shape(pipeline.dag, max_clock_plan(problem)),
                           shape(dag, frontier.plan(chosen.point)), std::nullopt};
  if (limits.peak) run.power->least_time = least_time_below(bound, problem.total_blocking(), *limits.peak / copies);
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
    PlannerRun run{run_planner(pipeline.problem, name, guard), {}, std::nullopt, std::nullopt, {}, std::nullopt, {}};
    const ComputationDag& dag = run.result.dag_of(pipeline.problem);
    if (run.result.frontier.bounds_are_open()) set_lower_bounds(run.result.frontier, bound_on(dag));
    const auto bound = bounds.find(&pipeline.dag);
    run.summary = summarise(name, pipeline.problem, dag, run.result.frontier, request.pace,
                            bound == bounds.end() ? nullptr : &bound->second);
    if (request.power) choose_by_power(pipeline, run, request, guard);
    if (pipeline.noise.known()) {
      run.expected = expected_figures(pipeline.problem, pipeline.noise, run.result.dag_of(pipeline.problem),
                                      run.result.frontier.plan(run.summary.selected_point), run.summary.straggler_time);
    }
    run.in_flight = in_flight_of(run.result.dag_of(pipeline.problem));
    if (request.switching) run.switching = charge_switching(pipeline.problem, run, request);
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace flyball
