// Bounds are solved anew on the order of the plan that is taken, since a planner's own bounds hold only for plans of
// the options that it was left with.
#include "plan/power_planning.h"

#include <algorithm>
#include <map>
#include <utility>

#include "plan/ramp_bound.h"

namespace flyball {
namespace {

// Returns the plans with all options, which are there already, and those with ever fewer of the options that draw most.
std::vector<PlannerResult> plan_capped(const PlanProblem& problem, const std::string& planner, PlannerResult whole,
                                       PlanningWatch& watch) {
  std::vector<PlannerResult> results;
  results.push_back(std::move(whole));
  for (const double share : kCapShares) {
    if (watch.stopped()) break;
    results.push_back(run_planner(capped_problem(problem, share), planner, watch, share));
  }
  return results;
}

PlannerStats stats_of_all(const std::vector<PlannerResult>& results, std::size_t taken) {
  PlannerStats stats = results[taken].stats;
  stats.steps = 0;
  stats.solve_seconds = 0.0;
  for (const PlannerResult& result : results) {
    stats.steps += result.stats.steps;
    stats.solve_seconds += result.stats.solve_seconds;
  }
  return stats;
}

double share_of(std::size_t result) { return result > 0 ? kCapShares[result - 1] : 1.0; }

void number_plans(std::vector<BudgetedPlan>& budget) {
  std::size_t next = 0;
  for (auto one = budget.begin(); one != budget.end(); ++one) {
    const auto same = std::find_if(budget.begin(), one, [&](const BudgetedPlan& b) { return b.plan == one->plan; });
    one->number = same == one ? next++ : same->number;
  }
}

}  // namespace

std::optional<PowerPlanning> plan_within(const PlanProblem& problem, const std::string& planner, PlannerResult whole,
                                         const PowerRequest& request, int copies, const PointFigures& baseline,
                                         PlanningWatch& watch) {
  std::vector<PlannerResult> results = plan_capped(problem, planner, std::move(whole), watch);
  if (watch.stopped()) return std::nullopt;
  const std::function<bool()> go_on = watch.begin_unmeasured(PlanningWork::kPowerLimits, planner);
  PowerPlanning planned;
  JobPowerLimits limits = request.limits;
  // Returns none where no plan keeps to the limits, which `planned` then tells, or the watch has stopped.
  const auto find = [&](const BudgetPeriod* period) {
    const auto found = fastest_within(problem, results, limits, copies, go_on);
    if (!found && !watch.stopped()) {
      const LeastPower least = least_power(problem, results, limits.ramp_window, copies);
      const PointWithin instead = limits.peak ? least.of_peak : least.of_ramp;
      planned.unmet = UnmetPower{limits, period != nullptr ? std::optional(*period) : std::nullopt, least,
                                 results[instead.result].frontier.plan(instead.point), results[instead.result].dag};
    }
    return found;
  };
  const auto without_plan = [&] { return watch.stopped() ? std::nullopt : std::optional(std::move(planned)); };
  std::map<Watts, PointWithin> by_power;
  std::optional<PointWithin> chosen;
  for (const BudgetPeriod& period : request.budget) {
    if (by_power.count(period.power) > 0) continue;
    limits.peak = period.power;
    const auto found = find(&period);
    if (!found) return without_plan();
    by_power.emplace(period.power, *found);
  }
  if (by_power.empty()) {
    chosen = find(nullptr);
    if (!chosen) return without_plan();
  } else {
    limits.peak = by_power.begin()->first;
    chosen = by_power.begin()->second;
  }

  const ComputationDag& dag = results[chosen->result].dag_of(problem);
  const BoundCurve bound = solve_bound(problem, dag, planner, watch);
  if (watch.stopped()) return std::nullopt;
  for (const BudgetPeriod& period : request.budget) {
    const PointWithin place = by_power.at(period.power);
    Frontier& frontier = results[place.result].frontier;
    FrontierPoint& point = frontier.point(place.point);
    point.net_lower_bound = bound.at(point.time);
    BudgetedPlan& one = planned.budget.emplace_back();
    one.period = period;
    one.figures = point_figures(dag, frontier, place.point, baseline, std::nullopt);
    one.point = point;
    one.plan = frontier.plan(place.point);
    one.peak = peak_of(power_curve(dag, one.plan, problem.blocking, copies));
    one.iterations = period.length / one.figures.time;
  }
  number_plans(planned.budget);
  for (const double part : request.tighter) {
    JobPowerLimits lower = limits;
    if (lower.peak) *lower.peak = part * *lower.peak;
    if (lower.ramp_w_per_s) *lower.ramp_w_per_s *= part;
    const auto found = fastest_within(problem, results, lower, copies, go_on);
    if (watch.stopped()) return std::nullopt;
    if (!found) break;
    const PlannerResult& result = results[found->result];
    planned.tighter.push_back(
        {result.frontier.plan(found->point), result.frontier.time(found->point), share_of(found->result), result.dag});
  }
  const PlannerStats stats = stats_of_all(results, chosen->result);
  planned.result = std::move(results[chosen->result]);
  planned.result.stats = stats;
  planned.point = chosen->point;
  Frontier& frontier = planned.result.frontier;
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    frontier.point(i).net_lower_bound = bound.at(frontier.points()[i].time);
  }
  const auto shape = [&](const ComputationDag& of, const ClockPlan& plan) {
    return shape_of(power_curve(of, plan, problem.blocking, copies), limits.ramp_window);
  };
  planned.figures = {limits, copies, shape(*problem.dag, max_clock_plan(problem)),
                     shape(dag, frontier.plan(planned.point)), std::nullopt};
  planned.figures.share = share_of(chosen->result);
  PowerFigures& figures = planned.figures;
  if (limits.peak) figures.least_time = least_time_below(bound, problem.total_blocking(), *limits.peak / copies);
  if (limits.ramp_w_per_s) {
    const Seconds within =
        least_time_within_ramp(dag, problem.blocking, *limits.ramp_w_per_s / copies, limits.ramp_window);
    figures.least_time = std::max(within, figures.least_time.value_or(within));
  }
  if (figures.least_time) {
    figures.over_least_time_pct = 100.0 * (frontier.time(planned.point) / *figures.least_time - 1.0);
  }
  return planned;
}

}  // namespace flyball
