// The public request is checked and turned into the inner specification; a planned frontier is an immutable, shared
// state that never moves, since its problem points into it.
#include "flyball/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "pipeline/pipeline_spec.h"
#include "plan/plan_file.h"
#include "plan/planner.h"
#include "plan/straggler.h"
#include "plan/summary.h"
#include "profile/profile.h"

namespace flyball {
namespace {

// Times beyond 63 years, infinity included, count as 63 years, so that whole nanoseconds hold them and any sum of a
// few.
Nanoseconds nanoseconds_of(const char* name, double seconds) {
  constexpr double kLongestSeconds = 2e9;
  if (std::isnan(seconds)) throw UsageError(fmt::format("{} is not a number; give seconds", name));
  return to_nanoseconds(Seconds(std::clamp(seconds, -kLongestSeconds, kLongestSeconds)));
}

double noise_of(const PlanRequest& request) {
  if (request.noise >= 0.0 && request.noise < 1.0) return request.noise;
  throw UsageError(fmt::format("noise is {}, it must be a share from 0 to below 1", request.noise));
}

std::optional<Nanoseconds> unit_time_of(const PlanRequest& request) {
  const Nanoseconds unit = nanoseconds_of("unit_time_s", request.unit_time_s);
  return request.unit_time_s == 0.0 ? std::nullopt : std::optional(unit);
}

PipelineSpec spec_of(const PlanRequest& request) {
  PipelineSpec spec;
  spec.schedule = parse_schedule(request.schedule);
  spec.microbatches = request.microbatches;
  spec.chunks = request.chunks;
  if (request.split_backward != 0.0) spec.split_backward = request.split_backward;
  for (const double power : request.blocking_power_w) {
    if (!(power >= 0.0 && power <= kMostBlockingWatts)) {
      throw UsageError(
          fmt::format("blocking_power_w holds {}, it must hold watts from 0 to {:.0f}", power, kMostBlockingWatts));
    }
    spec.blocking_power.emplace_back(power);
  }
  spec.memory_limit = request.memory_limit;
  return spec;
}

CostModel cost_model_of(const PlanRequest& request) {
  if (request.cost_model == "hull") return CostModel::kHull;
  if (request.cost_model == "exponential") return CostModel::kExponential;
  throw UsageError(fmt::format("unknown cost_model '{}'; known are hull, exponential", request.cost_model));
}

}  // namespace

struct PlannedFrontier::State {
  explicit State(const PlanRequest& request)
      : profile(read_profile(request.profile_name, request.profile_csv)),
        spec(spec_of(request)),
        planner(request.planner),
        dag(build_dag(spec, profile)),
        problem(make_problem(dag, spec.blocking_powers(dag.stages(), profile), unit_time_of(request),
                             cost_model_of(request), noise_of(request), spec.memory_limit)) {
    for (const double time : request.wanted_times_s) problem.focus.push_back(nanoseconds_of("wanted_times_s", time));
  }

  [[nodiscard]] const ComputationDag& planned_dag() const { return result.dag_of(problem); }

  Profile profile;
  PipelineSpec spec;
  std::string planner;
  ComputationDag dag;
  PlanProblem problem;  // points at `dag`: a State stays where it was made
  PlannerResult result;
  std::vector<TradeOff> points;
};

PlannedFrontier::PlannedFrontier(std::shared_ptr<const State> state) : state_(std::move(state)) {}

const std::vector<TradeOff>& PlannedFrontier::points() const { return state_->points; }

int PlannedFrontier::stages() const { return state_->dag.stages(); }

double PlannedFrontier::t_min_s() const { return fastest_time(state_->problem).value(); }

TradeOff PlannedFrontier::baseline() const {
  const PointFigures figures = baseline_figures(state_->problem, std::nullopt, nullptr);
  return {figures.time.value(), figures.energy.value(), figures.lower_bound.value()};
}

std::size_t PlannedFrontier::point_for(double deadline_s) const {
  return state_->result.frontier.lookup(nanoseconds_of("deadline_s", deadline_s));
}

std::size_t PlannedFrontier::cheapest_by(double deadline_s) const {
  return state_->result.frontier.cheapest_by(nanoseconds_of("deadline_s", deadline_s));
}

std::size_t PlannedFrontier::least_total() const { return state_->result.frontier.least_total_energy(); }

double PlannedFrontier::energy_with_straggler_j(std::size_t point, double straggler_time_s) const {
  static_cast<void>(points().at(point));
  const Frontier& frontier = state_->result.frontier;
  return energy_with_straggler(frontier.points()[point], frontier.total_blocking(),
                               nanoseconds_of("straggler_time_s", straggler_time_s))
      .value();
}

std::vector<std::vector<ComputationClock>> PlannedFrontier::clocks(std::size_t point) const {
  static_cast<void>(points().at(point));
  const ComputationDag& dag = state_->planned_dag();
  const ClockPlan plan = state_->result.frontier.plan(point);
  std::vector<std::vector<ComputationClock>> clocks(static_cast<std::size_t>(dag.stages()));
  for (int stage = 0; stage < dag.stages(); ++stage) {
    for (const int i : dag.stage_order(stage)) {
      const OperationType& type = dag.type_of(i);
      const ClockOption& option = type.options[plan[static_cast<std::size_t>(i)]];
      clocks[static_cast<std::size_t>(stage)].push_back({type.instruction, dag[i].microbatch, dag[i].chunk,
                                                         option.frequency.value(), option.time.value(),
                                                         option.energy.value()});
      for (const Label& label : type.labels.of(plan[static_cast<std::size_t>(i)])) {
        clocks[static_cast<std::size_t>(stage)].back().labels.emplace_back(label.name, label.value);
      }
    }
  }
  return clocks;
}

int PlannedFrontier::switches(std::size_t point) const {
  static_cast<void>(points().at(point));
  return count_switches(state_->planned_dag(), state_->result.frontier.plan(point));
}

std::string PlannedFrontier::plan_json(std::size_t selected) const {
  static_cast<void>(points().at(selected));
  const PlanFileHeader header{state_->planner, state_->profile.source,
                              std::string(schedule_name(state_->spec.schedule)), selected};
  return write_plan_json(header, state_->planned_dag(), state_->problem.blocking, state_->result.frontier);
}

PlannedFrontier plan_pipeline(const PlanRequest& request, const std::function<bool(double)>& progress) {
  const auto state = std::make_shared<PlannedFrontier::State>(request);
  bool cancelled = false;
  state->result = make_planner(request.planner)->plan(state->problem, [&](double share) {
    if (progress && !progress(share)) cancelled = true;
    return !cancelled;
  });
  if (cancelled) throw std::runtime_error("planning was cancelled");
  const Frontier& frontier = state->result.frontier;
  if (frontier.empty()) throw Error(fmt::format("planner {} found no plan for this pipeline", request.planner));
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    state->points.push_back({frontier.time(i).value(), frontier.energy(i).value(), frontier.lower_bound(i).value()});
  }
  return PlannedFrontier(state);
}

std::string version() { return FLYBALL_VERSION; }

}  // namespace flyball
