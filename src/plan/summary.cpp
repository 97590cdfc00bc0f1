// Compares a selected plan with all-maximum clocks, and names what kept it from being slower.
#include "plan/summary.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "pipeline/timeline.h"
#include "plan/stage_clock.h"
#include "plan/straggler.h"
#include "plan/switching.h"

namespace flyball {
namespace {

double percent_over(double value, double reference) { return 100.0 * (value / reference - 1.0); }

PaceLimit limit_of(const PaceRequest& request, const PlanSummary& summary, const Frontier& frontier) {
  if (summary.straggler_time) {
    return *summary.straggler_time > summary.t_star ? PaceLimit::kTStar : PaceLimit::kStragglerTime;
  }
  // If time is left and slower plans take more energy, energy is the limit. Otherwise time is: plans beyond the allowed
  // time may take less again.
  const bool time_is_left = summary.allowed_time > frontier.time(summary.selected_point);
  if (time_is_left && summary.selected_point == frontier.least_total_energy()) return PaceLimit::kLeastEnergy;
  return request.target_time ? PaceLimit::kTargetTime : PaceLimit::kBaselineTime;
}

// T' as the energy functions take it; 0 for none.
Nanoseconds pace_of(std::optional<Seconds> straggler) { return straggler ? to_nanoseconds(*straggler) : 0; }

Joules paced_bound(const FrontierPoint& point, Watts total_blocking, Nanoseconds straggler) {
  return energy_with_straggler({point.time, point.net_lower_bound}, total_blocking, straggler);
}

Seconds time_of(const PlanProblem& problem, const ClockPlan& plan) {
  std::vector<Nanoseconds> finish(plan.size());
  return to_seconds(makespan(*problem.dag, plan_durations(*problem.dag, plan), finish));
}

void compare(PointFigures& point, const PointFigures& baseline) {
  point.gap_pct = percent_over(point.energy.value(), point.lower_bound.value());
  point.saving_pct = -percent_over(point.energy.value(), baseline.energy.value());
  point.slowdown_pct = percent_over(point.time.value(), baseline.time.value());
}

}  // namespace

void set_lower_bounds(Frontier& frontier, const BoundCurve& bound) {
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    FrontierPoint& point = frontier.point(i);
    if (std::isnan(point.net_lower_bound)) point.net_lower_bound = bound.at(point.time);
  }
}

std::optional<Seconds> straggler_time(const PaceRequest& request, Seconds t_min) {
  return request.straggler ? std::optional(*request.straggler * t_min) : std::nullopt;
}

Seconds fastest_time(const PlanProblem& problem) { return time_of(problem, fastest_plan(problem)); }

Seconds allowed_time(const PlanProblem& problem, const PaceRequest& request) {
  if (request.target_time) return *request.target_time;
  if (request.straggler) return *straggler_time(request, fastest_time(problem));
  return time_of(problem, max_clock_plan(problem));
}

PointFigures baseline_figures(const PlanProblem& problem, std::optional<Seconds> straggler, const BoundCurve* bound) {
  const ComputationDag& dag = *problem.dag;
  const ClockPlan plan = max_clock_plan(problem);
  FrontierPoint point = replay(dag, problem.blocking, plan);
  if (bound != nullptr) point.net_lower_bound = bound->at(point.time);

  PointFigures baseline;
  baseline.time = to_seconds(point.time);
  baseline.energy = energy_with_straggler(point, problem.total_blocking(), pace_of(straggler));
  baseline.lower_bound = paced_bound(point, problem.total_blocking(), pace_of(straggler));
  baseline.switches = count_switches(dag, plan);
  compare(baseline, baseline);
  return baseline;
}

PointFigures point_figures(const ComputationDag& dag, const Frontier& frontier, std::size_t index,
                           const PointFigures& baseline, std::optional<Seconds> straggler) {
  const FrontierPoint& planned = frontier.points()[index];
  PointFigures point;
  point.time = frontier.time(index);
  point.energy = energy_with_straggler(planned, frontier.total_blocking(), pace_of(straggler));
  point.lower_bound = paced_bound(planned, frontier.total_blocking(), pace_of(straggler));
  point.switches = count_switches(dag, frontier.plan(index));
  compare(point, baseline);
  return point;
}

PlanSummary summarise(std::string planner, const PlanProblem& problem, const ComputationDag& dag,
                      const Frontier& frontier, const PaceRequest& request, const BoundCurve* bound) {
  assert(!frontier.empty());
  if (request.target_time && request.straggler) {
    throw UsageError("a target time and a straggler both set the pace; give one of them");
  }
  if (request.straggler && *request.straggler < 1.0) {
    throw UsageError("a straggler is not faster than the pipeline; its slowdown must be at least 1");
  }
  PlanSummary summary;
  summary.planner = std::move(planner);
  summary.t_min = fastest_time(problem);
  summary.t_star = frontier.time(frontier.size() - 1);
  summary.t_least_total = frontier.time(frontier.least_total_energy());
  summary.straggler_time = straggler_time(request, summary.t_min);
  summary.baseline = baseline_figures(problem, summary.straggler_time, bound);
  if (bound == nullptr && &dag == problem.dag && frontier.time(0) == summary.baseline.time) {
    // The fastest plan is as fast as the baseline, so that the bound of the one holds for the other.
    summary.baseline.lower_bound =
        point_figures(dag, frontier, 0, summary.baseline, summary.straggler_time).lower_bound;
    compare(summary.baseline, summary.baseline);
  }
  summary.allowed_time = allowed_time(problem, request);
  const Nanoseconds allowed = to_nanoseconds(summary.allowed_time);
  summary.selected_point = request.straggler ? frontier.lookup(allowed) : frontier.cheapest_by(allowed);
  summary.limit = limit_of(request, summary, frontier);
  summary.selected = point_figures(dag, frontier, summary.selected_point, summary.baseline, summary.straggler_time);
  return summary;
}

OneClockPer one_clock_per(const ComputationDag& dag, const ClockPlan& plan) {
  std::vector<std::optional<Megahertz>> of_stage(static_cast<std::size_t>(dag.stages()));
  std::vector<std::optional<Megahertz>> of_type(dag.types().size());
  OneClockPer finest = OneClockPer::kStage;
  for (int i = 0; i < dag.size(); ++i) {
    const OperationType& type = dag.type_of(i);
    if (type.options.size() < 2) continue;
    const Megahertz clock = type.options[plan[static_cast<std::size_t>(i)]].frequency;
    std::optional<Megahertz>& stage = of_stage[static_cast<std::size_t>(type.stage)];
    std::optional<Megahertz>& instruction = of_type[static_cast<std::size_t>(dag[i].type)];
    if (instruction.value_or(clock) != clock) return OneClockPer::kComputation;
    if (stage.value_or(clock) != clock) finest = OneClockPer::kInstruction;
    stage = clock;
    instruction = clock;
  }
  return finest;
}

std::vector<SlowerPlan> slower_plans_worth_time(const ChargedFigures& chosen, const std::vector<SlowerFront>& slower) {
  std::vector<SlowerPlan> worth;
  double most_saved = chosen.figures.saving_pct;
  int fewest = chosen.figures.switches;
  for (const SlowerFront& later : slower) {
    const ChargedFigures& best = later.front[later.chosen];
    const auto few = std::find_if(later.front.begin(), later.front.end(), [&](const ChargedFigures& one) {
      return one.figures.saving_pct >= chosen.figures.saving_pct;
    });
    if (few != later.front.end() && few->figures.switches < fewest) {
      fewest = few->figures.switches;
      worth.push_back({later.deadline, *few});
    }
    if (best.figures.saving_pct > most_saved) {
      most_saved = best.figures.saving_pct;
      if (best.figures.switches != fewest) worth.push_back({later.deadline, best});
    }
  }
  return worth;
}

SwitchingFigures switching_figures(const PlanProblem& problem, const ComputationDag& dag, const Frontier& frontier,
                                   std::size_t point, Seconds deadline, bool look_at_slower, SwitchingLimits limits,
                                   const PointFigures& baseline, std::optional<Seconds> straggler,
                                   const Progress& progress) {
  PlanProblem planned = problem;
  planned.dag = &dag;
  const Nanoseconds latency = to_nanoseconds(limits.latency);
  const Nanoseconds spread = to_nanoseconds(limits.spread);
  LateClocks late(dag, problem.blocking, latency, limits.asked);
  LateClocks soon(dag, problem.blocking, latency - spread, limits.asked);
  const auto charge = [&](const ClockPlan& run_plan, Nanoseconds dwell) {
    const SwitchedRun& run = late.run(run_plan);
    PointFigures figures;
    figures.time = to_seconds(spread > 0 ? std::max(run.makespan, soon.run(run_plan).makespan) : run.makespan);
    figures.energy = run.total_until(pace_of(straggler));
    figures.lower_bound = Joules(std::numeric_limits<double>::quiet_NaN());
    figures.switches = count_switches(dag, run_plan);
    compare(figures, baseline);
    return ChargedFigures{figures, to_seconds(dwell), one_clock_per(dag, run_plan)};
  };
  // A plan of a shorter time may meet the deadline when its changes are charged.
  std::vector<std::vector<ClockPlan>> plans{{frontier.plan(point)}};
  SwitchingTerms terms{to_nanoseconds(deadline), latency, to_nanoseconds(limits.min_dwell),
                       pace_of(straggler),       spread,  {}};
  terms.asked = limits.asked;
  const auto add_slowest_until = [&](Nanoseconds time) {
    const auto slowest = slowest_in_time(planned, frontier, time, terms);
    if (slowest && *slowest != point) plans.back().push_back(frontier.plan(*slowest));
  };
  add_slowest_until(terms.deadline);
  for (const double slowdown : kSlowdowns) {
    if (!look_at_slower) break;
    plans.emplace_back();
    terms.later_deadlines.push_back(to_nanoseconds((1.0 + slowdown) * deadline));
    add_slowest_until(terms.later_deadlines.back());
  }
  SwitchingFigures result;
  result.limits = limits;
  result.charged = charge(plans[0][0], shortest_dwell(planned, plans[0][0], latency));
  const std::vector<std::vector<SwitchingPlan>> fronts = switching_fronts(planned, plans, terms, progress);
  for (const SwitchingPlan& one : fronts.front()) result.front.push_back(charge(one.plan, one.dwell));
  result.chosen = few_changes(planned, fronts.front());
  result.plan = fronts.front()[result.chosen].plan;
  for (std::size_t k = 1; k < fronts.size(); ++k) {
    if (fronts[k].empty()) continue;
    SlowerFront slower{to_seconds(terms.later_deadlines[k - 1]), {}, few_changes(planned, fronts[k])};
    for (const SwitchingPlan& one : fronts[k]) slower.front.push_back(charge(one.plan, one.dwell));
    result.slower.push_back(std::move(slower));
  }
  result.worth_time = slower_plans_worth_time(result.front[result.chosen], result.slower);
  result.run = late.run(result.plan);
  return result;
}

}  // namespace flyball
