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
#include "plan/joint.h"
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

// Returns the bound on every plan that keeps the DAG's order of operations; another order has its own.
BoundCurve solve_bound(const PlanProblem& problem, const ComputationDag& dag, const InterruptGuard& guard) {
  RelaxationResult relaxed =
      solve_relaxation(dag, problem.hulls(), [&](const FrontierStretch&) { return !guard.interrupted(); });
  guard.throw_if_interrupted();
  return std::move(relaxed.bound);
}

// The selected plan may take until the pace that was asked for, but never less than it does with free changes.
SwitchingFigures charge_switching(const PlanProblem& problem, const PlannerRun& run, const PlanningRequest& request,
                                  const InterruptGuard& guard) {
  const PlanSummary& summary = run.summary;
  ProgressBar bar("looking for fewer clock changes");
  SwitchingFigures figures = switching_figures(
      problem, run.result.dag_of(problem), run.result.frontier, summary.selected_point,
      std::max(summary.allowed_time, summary.selected.time), summary.limit == PaceLimit::kBaselineTime,
      *request.switching, summary.baseline, summary.straggler_time, [&](double share) {
        bar.update(share);
        return !guard.interrupted();
      });
  guard.throw_if_interrupted();
  return figures;
}

// What another order could save that holds a microbatch more on every stage; none where that is nothing worth telling.
std::optional<OneMoreInFlight> look_at_order(const PlanProblem& problem, const PlanSummary& summary,
                                             const InterruptGuard& guard) {
  constexpr double kWorthTelling = 0.1;  // points
  const auto deeper = one_deeper(problem, to_nanoseconds(std::max(summary.allowed_time, summary.selected.time)),
                                 [&] { return !guard.interrupted(); });
  guard.throw_if_interrupted();
  if (!deeper || summary.straggler_time) return std::nullopt;
  const double saving_pct = 100.0 * (1.0 - deeper->least_energy / summary.baseline.energy);
  if (saving_pct < summary.selected.saving_pct + kWorthTelling) return std::nullopt;
  return OneMoreInFlight{deeper->in_flight, saving_pct};
}

// Returns the plans with all options, which the run has already, and those with ever fewer of the options that draw
// most.
std::vector<PlannerResult> plan_capped(const PlanProblem& problem, PlannerRun& run, const InterruptGuard& guard) {
  std::vector<PlannerResult> results;
  results.push_back(std::move(run.result));
  for (const double share : kCapShares) {
    results.push_back(run_planner(capped_problem(problem, share), run.summary.planner, guard,
                                  fmt::format(", options of the lower {:.0f} % of the power", 100.0 * share)));
  }
  return results;
}

[[noreturn]] void refuse_power(const LoadedPipeline& pipeline, std::span<const PlannerResult> results,
                               const JobPowerLimits& limits, int copies, const BudgetPeriod* period) {
  std::string text = "no plan was found";
  if (limits.peak) text += fmt::format(" that never draws more than {:.1f} W", limits.peak->value());
  if (period != nullptr) text += fmt::format(" (from {} until {})", period->from, period->until);
  if (limits.ramp_w_per_s) text += fmt::format(" whose power changes by at most {:.1f} W/s", *limits.ramp_w_per_s);
  const LeastPower least = least_power(pipeline.problem, results, limits.ramp_window, copies);
  throw Error(
      fmt::format("{}; of the plans that were looked at, the lowest peak is {:.1f} W and the lowest ramp {:.1f} "
                  "W/s\n  to mend: raise the limit, or let fewer GPUs run",
                  text, least.peak.value(), least.ramp_w_per_s));
}

// Makes the fastest plan that keeps to the limits the run's own. Under a budget, the period of least power decides.
void choose_by_power(LoadedPipeline& pipeline, PlannerRun& run, const PlanningRequest& request,
                     const InterruptGuard& guard) {
  const PlanProblem& problem = pipeline.problem;
  const int copies = pipeline.spec.data_parallel * pipeline.spec.tensor_parallel;
  std::vector<PlannerResult> results = plan_capped(problem, run, guard);
  const auto find = [&](const JobPowerLimits& limits, const BudgetPeriod* period) {
    const auto found = fastest_within(problem, results, limits, copies, [&] { return !guard.interrupted(); });
    guard.throw_if_interrupted();
    if (!found) refuse_power(pipeline, results, limits, copies, period);
    return *found;
  };
  JobPowerLimits limits = *request.power;
  std::map<Watts, PointWithin> by_power;
  for (const BudgetPeriod& period : request.budget) {
    limits.peak = period.power;
    if (by_power.count(period.power) == 0) by_power[period.power] = find(limits, &period);
  }
  if (!by_power.empty()) limits.peak = by_power.begin()->first;
  const PointWithin chosen = by_power.empty() ? find(limits, nullptr) : by_power.begin()->second;
  PlanSummary& summary = run.summary;
  PlannerStats stats;
  for (const PlannerResult& result : results) {
    stats.steps += result.stats.steps;
    stats.solve_seconds += result.stats.solve_seconds;
  }
  const ComputationDag& dag = results[chosen.result].dag_of(problem);
  const BoundCurve bound = solve_bound(problem, dag, guard);
  const auto figures_at = [&](const PointWithin& place) {
    // The planner's own bound holds only for plans of the options that it was left with.
    FrontierPoint& point = results[place.result].frontier.point(place.point);
    point.net_lower_bound = bound.at(point.time);
    return point_figures(dag, results[place.result].frontier, place.point, summary.baseline, std::nullopt);
  };
  for (const BudgetPeriod& period : request.budget) {
    const PointWithin place = by_power.at(period.power);
    const Frontier& frontier = results[place.result].frontier;
    BudgetedPlan& planned = run.budget.emplace_back();
    planned.period = period;
    planned.figures = figures_at(place);
    planned.point = frontier.points()[place.point];
    planned.plan = frontier.plan(place.point);
    planned.peak = peak_of(power_curve(dag, planned.plan, problem.blocking, copies));
  }
  run.result = std::move(results[chosen.result]);
  Frontier& frontier = run.result.frontier;
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    frontier.point(i).net_lower_bound = bound.at(frontier.points()[i].time);
  }
  stats.nodes = run.result.stats.nodes;
  stats.edges = run.result.stats.edges;
  run.result.stats = stats;
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
    PlannerRun run;
    run.result = run_planner(pipeline.problem, name, guard);
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
    if (request.look_at_order) run.one_more = look_at_order(pipeline.problem, run.summary, guard);
    if (request.switching) run.switching = charge_switching(pipeline.problem, run, request, guard);
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace flyball
