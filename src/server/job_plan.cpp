#include "server/job_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text.h"
#include "pipeline/instruction.h"
#include "plan/relaxation.h"
#include "plan/straggler.h"
#include "plan/summary.h"

namespace flyball {
namespace {

constexpr std::array kComputations = {InstructionKind::kForward, InstructionKind::kBackward,
                                      InstructionKind::kRecompute, InstructionKind::kBackwardInput,
                                      InstructionKind::kBackwardWeight};

// The job's, or a shorter one where it has a computation with a choice that is shorter still: a client cannot know that
// before it has measured.
Nanoseconds unit_time_of(const JobRequest& request, const ComputationDag& dag) {
  Seconds unit = request.unit_time;
  for (const OperationType& type : dag.types()) {
    if (type.options.size() < 2) continue;
    for (const ClockOption& option : type.options) unit = std::min(unit, option.time / 2);
  }
  return std::max<Nanoseconds>(to_nanoseconds(unit), 1);
}

PaceRequest pace_of(const JobRequest& request) {
  PaceRequest pace;
  pace.target_time = request.target_time;
  return pace;
}

bool bounds_are_open(const Frontier& frontier) {
  return std::any_of(frontier.points().begin(), frontier.points().end(),
                     [](const FrontierPoint& point) { return std::isnan(point.net_lower_bound); });
}

}  // namespace

PipelineSpec pipeline_of(const JobRequest& request) {
  PipelineSpec spec;
  spec.schedule = parse_schedule(request.schedule);
  spec.stages = request.stages;
  spec.microbatches = request.microbatches;
  spec.chunks = request.chunks;
  if (!request.blocking_power.empty()) spec.blocking_power = request.blocking_power;
  spec.memory_limit = request.memory_limit;
  spec.data_parallel = request.data_parallel;
  spec.tensor_parallel = request.tensor_parallel;
  (void)make_planner(request.planner);
  const std::int64_t operations = std::int64_t{3} * spec.stages * spec.microbatches * spec.chunks;
  if (operations > kMostServerOperations) {
    throw UsageError(
        fmt::format("an iteration of {} stages, {} microbatches and {} chunks may have {} operations; the "
                    "server plans up to {}",
                    spec.stages, spec.microbatches, spec.chunks, operations, kMostServerOperations));
  }
  (void)make_schedule(spec.schedule, spec.stages, spec.microbatches, spec.chunks);
  return spec;
}

bool is_known_instruction(const JobRequest& request, std::string_view instruction) {
  if (is_constant_operation(instruction)) return true;
  const std::string_view name = announced_name(instruction);
  const bool known = std::any_of(kComputations.begin(), kComputations.end(),
                                 [&](InstructionKind kind) { return instruction_name(kind) == name; });
  if (!known || name == instruction) return known;
  return parse_integer(instruction.substr(name.size() + 1)).value_or(request.chunks) < request.chunks;
}

JobPlan::JobPlan(const std::string& job, const JobRequest& request, const std::vector<RankMeasurements>& ranks)
    : profile_(merged_profile(job, ranks)),
      spec_(pipeline_of(request)),
      dag_(build_dag(spec_, profile_)),
      problem_(make_problem(dag_, spec_.blocking_power, unit_time_of(request, dag_), CostModel::kHull, request.noise,
                            spec_.memory_limit)),
      planner_(request.planner) {
  problem_.focus = {to_nanoseconds(allowed_time(problem_, pace_of(request)))};
}

std::shared_ptr<const JobPlan> JobPlan::make(const std::string& job, const JobRequest& request,
                                             const std::vector<RankMeasurements>& ranks, const Progress& progress) {
  bool cancelled = false;
  const auto watched = [&](double share) {
    cancelled = cancelled || !progress(share);
    return !cancelled;
  };
  const std::shared_ptr<JobPlan> plan(new JobPlan(job, request, ranks));
  plan->result_ = make_planner(request.planner)->plan(plan->problem_, watched);
  if (cancelled) return nullptr;
  Frontier& frontier = plan->result_.frontier;
  if (frontier.empty()) throw Error(fmt::format("planner {} found no plan for this pipeline", request.planner));
  const ComputationDag& dag = plan->result_.dag_of(plan->problem_);
  if (bounds_are_open(frontier)) {
    const RelaxationResult relaxed =
        solve_relaxation(dag, plan->problem_.hulls(), [&](const FrontierStretch&) { return watched(1.0); });
    if (cancelled) return nullptr;
    set_lower_bounds(frontier, relaxed.bound);
  }
  const PlanSummary summary = summarise(request.planner, plan->problem_, dag, frontier, pace_of(request), nullptr);
  plan->base_point_ = summary.selected_point;
  plan->t_min_ = summary.t_min;
  plan->max_clock_time_ = summary.baseline.time;
  plan->max_clock_energy_ = summary.baseline.energy;
  return plan;
}

std::size_t JobPlan::point_for(Seconds allowed) const {
  return std::max(base_point_, result_.frontier.lookup(to_nanoseconds(allowed)));
}

std::vector<std::vector<ScheduledComputation>> JobPlan::schedules(std::size_t point) const {
  const ComputationDag& dag = result_.dag_of(problem_);
  const ClockPlan plan = result_.frontier.plan(point);
  std::vector<std::vector<ScheduledComputation>> stages(static_cast<std::size_t>(dag.stages()));
  for (int stage = 0; stage < dag.stages(); ++stage) {
    for (const int i : dag.stage_order(stage)) {
      const OperationType& type = dag.type_of(i);
      if (!type.occupies_stage || is_constant_operation(type.instruction)) continue;
      const ClockOption& option = type.options[plan[static_cast<std::size_t>(i)]];
      stages[static_cast<std::size_t>(stage)].push_back({std::string(announced_name(type.instruction)),
                                                         dag[i].microbatch, dag[i].chunk,
                                                         static_cast<int>(std::lround(option.frequency.value()))});
    }
  }
  return stages;
}

FrontierReport JobPlan::report() const {
  FrontierReport report;
  report.planner = planner_;
  report.t_min = t_min_;
  report.t_star = frontier().time(frontier().size() - 1);
  report.max_clock_time = max_clock_time_;
  report.max_clock_energy = max_clock_energy_;
  for (std::size_t i = 0; i < frontier().size(); ++i) {
    FrontierPointReport point{frontier().time(i), frontier().energy(i), std::nullopt};
    if (std::isfinite(frontier().lower_bound(i).value())) point.lower_bound = frontier().lower_bound(i);
    report.points.push_back(point);
  }
  return report;
}

}  // namespace flyball
