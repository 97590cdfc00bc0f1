// One planner after the other: a plan for the pace or inside the limits first, then the figures that go with it, each
// of which can be left out.
#include "plan/planning.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "plan/joint.h"
#include "plan/stage_orders.h"

namespace flyball {
namespace {

// The selected plan may take until the pace that was asked for, but never less than it does with free changes.
SwitchingFigures charge_switching(const PlanProblem& problem, const PlannerRun& run, const SwitchingLimits& limits,
                                  PlanningWatch& watch) {
  const PlanSummary& summary = run.summary;
  return switching_figures(problem, run.result.dag_of(problem), run.result.frontier, summary.selected_point,
                           std::max(summary.allowed_time, summary.selected.time),
                           summary.limit == PaceLimit::kBaselineTime, limits, summary.baseline, summary.straggler_time,
                           watch.begin({PlanningWork::kSwitching, summary.planner}));
}

// What another order could save that holds a microbatch more on every stage; none where that is nothing worth telling.
std::optional<OneMoreInFlight> look_at_order(const PlanProblem& problem, const PlanSummary& summary,
                                             PlanningWatch& watch) {
  constexpr double kWorthTelling = 0.1;  // points
  const auto deeper = one_deeper(problem, to_nanoseconds(std::max(summary.allowed_time, summary.selected.time)),
                                 watch.begin_unmeasured(PlanningWork::kOrder, summary.planner));
  if (!deeper || summary.straggler_time) return std::nullopt;
  const double saving_pct = 100.0 * (1.0 - deeper->least_energy / summary.baseline.energy);
  if (saving_pct < summary.selected.saving_pct + kWorthTelling) return std::nullopt;
  return OneMoreInFlight{deeper->in_flight, saving_pct};
}

AgainstWhole compare_with_whole(const PlanProblem& whole, const PlannerRun& run, PlanningWatch& watch) {
  const PointFigures baseline = baseline_figures(whole, std::nullopt, nullptr);
  AgainstWhole against{baseline.time, baseline.energy, 0.0, Seconds(0), 0.0};
  const Nanoseconds allowed = to_nanoseconds(baseline.time);
  const BoundCurve bound = solve_bound(whole, *whole.dag, run.summary.planner, watch);
  if (watch.stopped()) return against;
  const Seconds time = to_seconds(std::min(allowed, bound.least_total(whole.total_blocking())));
  const Joules least = Joules(bound.at(to_nanoseconds(time))) + whole.total_blocking() * time;
  against.whole_saving_pct = 100.0 * (1.0 - least / baseline.energy);
  const Frontier& frontier = run.result.frontier;
  const std::size_t point = frontier.cheapest_by(allowed);
  against.time = frontier.time(point);
  against.saving_pct = 100.0 * (1.0 - frontier.energy(point) / baseline.energy);
  return against;
}

// Makes the fastest plan that keeps to the limits the run's own.
void take_planned(PlannerRun& run, PowerPlanning planned, const PlanProblem& problem) {
  run.result = std::move(planned.result);
  run.power = planned.figures;
  run.budget = std::move(planned.budget);
  run.tighter = std::move(planned.tighter);
  const Frontier& frontier = run.result.frontier;
  PlanSummary& summary = run.summary;
  summary.t_star = frontier.time(frontier.size() - 1);
  summary.t_least_total = frontier.time(frontier.least_total_energy());
  summary.selected_point = planned.point;
  summary.selected = point_figures(run.result.dag_of(problem), frontier, planned.point, summary.baseline, std::nullopt);
  summary.allowed_time = summary.selected.time;
  summary.limit = PaceLimit::kPower;
}

std::vector<Landmark> landmarks_of(const PlanProblem& problem, const PlannerRun& run) {
  const Frontier& frontier = run.result.frontier;
  const PlanSummary& summary = run.summary;
  std::vector<std::pair<std::size_t, LandmarkName>> named;
  if (frontier.size() == 1) {
    named = {{0, LandmarkName::kOnly}};
  } else if (summary.limit == PaceLimit::kPower) {
    // The ends may be those of a problem with fewer options.
    named = {{summary.selected_point, LandmarkName::kInLimits}};
  } else {
    const bool as_fast = summary.selected.time <= summary.baseline.time;
    named = {{0, LandmarkName::kFastest},
             {frontier.least_total_energy(), LandmarkName::kLeastTotal},
             {frontier.size() - 1, LandmarkName::kTStar},
             {summary.selected_point, summary.straggler_time ? LandmarkName::kStraggler
                                      : as_fast              ? LandmarkName::kAsFast
                                                             : LandmarkName::kTarget}};
    std::stable_sort(named.begin(), named.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  std::vector<Landmark> landmarks;
  for (const auto& [point, name] : named) {
    if (!landmarks.empty() && landmarks.back().point == point) continue;  // it has a name already
    landmarks.push_back(
        {name, point,
         point_figures(run.result.dag_of(problem), frontier, point, summary.baseline, summary.straggler_time)});
  }
  return landmarks;
}

std::vector<JobEnergy> job_energies(const PlanSummary& summary, JobShape job) {
  std::vector<JobEnergy> energies;
  const auto add = [&](int pipelines, int gpus_per_stage) {
    const double copies = static_cast<double>(pipelines) * gpus_per_stage;
    energies.push_back({pipelines, gpus_per_stage, copies * summary.baseline.energy, copies * summary.selected.energy});
  };
  if (job.pipelines == 1 && job.tensor_parallel == 1) return energies;
  add(1, 1);
  if (job.tensor_parallel > 1) add(1, job.tensor_parallel);
  if (job.pipelines > 1 && !summary.straggler_time) add(job.pipelines, job.tensor_parallel);
  return energies;
}

PlannedOrder planned_order(const PlanProblem& problem, const PlannerRun& run) {
  if (run.result.dag) return PlannedOrder::kOwn;
  if (run.summary.planner != kFreeOrderPlanner) return PlannedOrder::kSchedule;
  return stage_orders(*problem.dag) ? PlannedOrder::kNoneBetter : PlannedOrder::kCannotChange;
}

// The bounds of the orders of operations that were planned, each solved when it is first wanted; null is the
// schedule's.
using Bounds = std::map<std::shared_ptr<const ComputationDag>, BoundCurve>;

const BoundCurve& bound_on(const PlannerResult& result, const PlanProblem& problem, const std::string& planner,
                           Bounds& bounds, PlanningWatch& watch) {
  const auto found = bounds.find(result.dag);
  if (found != bounds.end()) return found->second;
  return bounds.emplace(result.dag, solve_bound(problem, result.dag_of(problem), planner, watch)).first->second;
}

// Plans and selects. Returns none where the watch has stopped or limits are unmet, which `unmet` then tells.
std::optional<PlannerRun> planned_run(const PlanProblem& problem, const std::string& planner,
                                      const PlanningRequest& request, Bounds& bounds, PlanningWatch& watch,
                                      std::optional<UnmetPower>& unmet) {
  PlannerRun run;
  run.result = run_planner(problem, planner, watch);
  if (watch.stopped()) return std::nullopt;
  const ComputationDag& dag = run.result.dag_of(problem);
  if (run.result.frontier.bounds_are_open()) {
    const BoundCurve& bound = bound_on(run.result, problem, planner, bounds, watch);
    if (watch.stopped()) return std::nullopt;
    set_lower_bounds(run.result.frontier, bound);
  }
  const auto bound = bounds.find(nullptr);
  run.summary = summarise(planner, problem, dag, run.result.frontier, request.pace,
                          bound == bounds.end() ? nullptr : &bound->second);
  if (request.power) {
    auto planned = plan_within(problem, planner, std::move(run.result), *request.power,
                               request.job.pipelines * request.job.tensor_parallel, run.summary.baseline, watch);
    if (!planned) return std::nullopt;
    if (planned->unmet) {
      unmet = std::move(planned->unmet);
      return std::nullopt;
    }
    take_planned(run, std::move(*planned), problem);
  }
  return run;
}

}  // namespace

PlanningResult plan_as_asked(const PlanProblem& asked, const PlanningRequest& request, const Progress& progress) {
  PlanProblem problem = asked;
  problem.focus = {to_nanoseconds(allowed_time(problem, request.pace))};
  problem.focus.insert(problem.focus.end(), request.focus.begin(), request.focus.end());
  PlanningWatch watch(progress, request.begins);
  PlanningResult result;
  Bounds bounds;
  for (const std::string& planner : request.planners) {
    auto run = planned_run(problem, planner, request, bounds, watch, result.unmet);
    if (!run) return result;
    const ComputationDag& dag = run->result.dag_of(problem);
    run->landmarks = landmarks_of(problem, *run);
    run->job = job_energies(run->summary, request.job);
    if (request.noise != nullptr && request.noise->known()) {
      run->expected =
          expected_figures(problem, *request.noise, dag, run->result.frontier.plan(run->summary.selected_point),
                           run->summary.straggler_time);
    }
    run->order = planned_order(problem, *run);
    run->in_flight = most_in_flight(dag);
    run->schedule_in_flight = most_in_flight(*problem.dag);
    if (request.look_at_order) run->one_more = look_at_order(problem, run->summary, watch);
    if (request.whole_backwards != nullptr && !run->summary.straggler_time && !request.power && !watch.stopped()) {
      run->against_whole = compare_with_whole(*request.whole_backwards, *run, watch);
    }
    if (request.switching && !watch.stopped()) {
      run->switching = charge_switching(problem, *run, *request.switching, watch);
    }
    if (watch.stopped()) return result;
    result.runs.push_back(std::move(*run));
  }
  return result;
}

}  // namespace flyball
