// Ranks' sums become the rows of one profile, which profile_of_rows() merges; then pipeline, DAG and problem are made
// as `flyball plan` makes them. Runs on points of the frontier are prepared where clock changes cost something, and
// kept in a map under a mutex, since planners' threads add to it.
#include "server/job_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/fingerprint.h"
#include "base/own_name.h"
#include "base/text.h"
#include "pipeline/instruction.h"
#include "pipeline/late_clocks.h"
#include "pipeline/power_curve.h"
#include "plan/perseus.h"
#include "plan/relaxation.h"
#include "plan/replan.h"
#include "plan/stage_clock.h"
#include "plan/stage_orders.h"
#include "plan/straggler.h"
#include "plan/summary.h"
#include "plan/switching.h"
#include "server/pipeline_groups.h"

namespace flyball {
namespace {

constexpr std::array kComputations = {InstructionKind::kForward, InstructionKind::kBackward,
                                      InstructionKind::kRecompute, InstructionKind::kBackwardInput,
                                      InstructionKind::kBackwardWeight};

// Of a job that takes longer, measurements that change are planned from the plan before.
constexpr Seconds kWorthReplanning{0.4};

PaceRequest pace_of(const JobRequest& request) {
  PaceRequest pace;
  pace.target_time = request.target_time;
  return pace;
}

// The policy of planners that adjust a plan by what is executed.
std::optional<EnvPipePolicy> executed_policy(const std::string& planner) {
  const auto policy = value_named<EnvPipePolicy>(planner);
  return policy == EnvPipePolicy::kNoReconfigure ? std::nullopt : policy;
}

LatencyRange latency_of(const JobRequest& request, const Profile& profile) {
  if (request.switch_latency) return {*request.switch_latency, *request.switch_latency};
  return measured_latency(profile).value_or(kUsualLatency);
}

// The planner of this name. `executed`: its plans are adjusted by executed steps later.
std::unique_ptr<Planner> planner_for(const std::string& name, bool executed, bool may_reorder) {
  if (const auto policy = value_named<EnvPipePolicy>(name)) {
    EnvPipeOptions options;
    options.policy = executed ? EnvPipePolicy::kNoReconfigure : *policy;
    options.reschedule = may_reorder;
    return make_envpipe(std::move(options));
  }
  return make_planner(name == kFreeOrderPlanner && !may_reorder ? kMainPlanner : name);
}

// First and last microbatches that are not known apart scatter as all do.
ScatteredRuns scattered_runs(const ComputationDag& dag, const std::map<std::pair<int, std::string>, double>& scatter) {
  std::vector<double> shares;
  for (const OperationType& type : dag.types()) {
    auto found = scatter.find({type.stage, type.instruction});
    if (found == scatter.end()) found = scatter.find({type.stage, std::string(common_name(type.instruction))});
    shares.push_back(found == scatter.end() ? 0.0 : found->second);
  }
  return ScatteredRuns(std::move(shares));
}

std::uint64_t fingerprint_of(const std::vector<RankMeasurements>& ranks, const std::vector<FixedStage>& fixed,
                             bool may_reorder) {
  Fingerprint fingerprint;
  // Plans of another order do not fit. Earlier versions had only these.
  if (!may_reorder) fingerprint.add("in the schedule's order");
  const auto add = [&](const std::string& whose, const MeasurementSum& sum) {
    fingerprint.add(fmt::format("{} {} {} {} {} {}", whose, sum.instruction, sum.clock.value(), sum.samples,
                                sum.time.value(), sum.energy.value()));
  };
  for (const RankMeasurements& rank : ranks) {
    for (const MeasurementSum& sum : *rank.sums) add(fmt::format("{}", rank.rank), sum);
  }
  for (const FixedStage& stage : fixed) {
    for (const MeasurementSum& sum : stage.measured) add(fmt::format("stage {}", stage.stage), sum);
  }
  return fingerprint.value();
}

}  // namespace

std::int64_t operations_of(const JobRequest& request) {
  return std::int64_t{3} * request.stages * request.microbatches * request.chunks;
}

std::string planner_of(const JobRequest& request) {
  if (!request.planner.empty()) return request.planner;
  const bool asked = request.order == JobOrder::kFree || !request.memory_limit.empty();
  return asked && may_reorder(request, OrderSeen::kAsTold) ? kFreeOrderPlanner : kMainPlanner;
}

// Perseus takes 0.10 to 0.21 ms of a processor per operation (0.47 of 196,608), by the whole frontiers of
// docs/performance.md. The joint planner makes up to two and searches for an order; others take a fraction.
Seconds expected_planning_time(const JobRequest& request, bool limited) {
  const std::string planner = planner_of(request);
  const double per_operation = planner == kFreeOrderPlanner ? 4.5e-4 : planner == kMainPlanner ? 1.5e-4 : 1.5e-5;
  constexpr double kTimesIfLimited = 12.0;  // plan_limited()
  return Seconds(per_operation * static_cast<double>(operations_of(request)) * (limited ? kTimesIfLimited : 1.0));
}

PipelineSpec pipeline_of(const JobRequest& request, ClocksAsked asked) {
  PipelineSpec spec;
  spec.schedule = parse_schedule(request.schedule);
  spec.stages = request.stages;
  spec.microbatches = request.microbatches;
  spec.chunks = request.chunks;
  spec.blocking_power = request.blocking_power;
  spec.memory_limit = request.memory_limit;
  spec.transfers_occupy_both = request.transfers_occupy_both;
  spec.clocks_asked = request.clocks_ahead && asked == ClocksAsked::kWhenFree ? ClocksAsked::kAhead : asked;
  spec.data_parallel = request.data_parallel;
  spec.tensor_parallel = request.tensor_parallel;
  (void)make_planner(planner_of(request));
  check_planner_keeps(request.limits, planner_of(request));
  const std::int64_t operations = operations_of(request);
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
  const std::string_view common = common_name(instruction);
  if (!known || name == common) return known;
  return parse_integer(common.substr(name.size() + 1)).value_or(request.chunks) < request.chunks;
}

JobPlan::Basis::Basis(const Making& making, const std::vector<RankMeasurements>& ranks)
    : profile(merged_profile(making.job, ranks, making.fixed)),
      spec(pipeline_of(making.request, making.asked)),
      dag(build_dag(spec, profile)),
      problem(make_problem(dag, spec.blocking_powers(dag.stages(), profile), std::nullopt, CostModel::kHull,
                           making.request.noise, spec.memory_limit)) {
  const JobRequest& request = making.request;
  // Shorter computations shorten it, which a client cannot know before it has measured.
  problem.unit_time = usual_unit_time(dag, to_nanoseconds(request.unit_time));
  problem.focus = {to_nanoseconds(allowed_time(problem, pace_of(request)))};
  problem.keep_flows = expected_planning_time(request) > kWorthReplanning;
  changes.assign(static_cast<std::size_t>(dag.stages()), latency_of(request, profile).longest);
  for (const OperationProfile& operation : profile.operations) {
    if (operation.instruction != kClockChangeName || request.switch_latency) continue;
    changes[static_cast<std::size_t>(operation.stage)] = operation.options.front().time;
  }
  scattered = scattered_runs(dag, scatter_of(ranks));
  problem.threads = 1;  // --planning-threads says how many there are for all jobs
}

std::shared_ptr<const JobPlan> JobPlan::make(
    const std::string& job, const JobRequest& request, const std::vector<RankMeasurements>& ranks,
    const Progress& progress, const std::optional<AdjustedPlan>& adjusted, const std::vector<FixedStage>& fixed,
    const std::function<bool()>& out_of_time, ClocksAsked asked, OrderSeen seen, const JobPowerLimits& limits,
    const std::shared_ptr<const JobPlan>& previous, std::int64_t own_operations) {
  Making making{job, request, ranks, fixed, progress, out_of_time, asked, seen, limits};
  // Limits are those of the whole job, and executed steps those of its first pipeline.
  if (request.executed_steps && seen != OrderSeen::kNotAsScheduled)
    making.policy = executed_policy(planner_of(request));
  const bool one_plan = any_of(limits) || making.policy || !fixed.empty();
  const std::vector<int> group_of =
      one_plan ? std::vector<int>()
               : group_pipelines(ranks, request.data_parallel, most_own_plans(request, own_operations));
  const int groups = group_of.empty() ? 1 : 1 + *std::max_element(group_of.begin(), group_of.end());
  const auto basis = std::make_shared<Basis>(making, ranks);
  if (groups > 1) {
    making.part = 1.0 / (1.0 + groups);
    basis->problem.keep_flows = groups * expected_planning_time(request) > kWorthReplanning;
  }
  std::vector<TighterPlan> tighter;
  const std::shared_ptr<JobPlan> plan = make_one(making, basis, previous, tighter);
  if (groups > 1 && plan && !making.over) plan_pipelines(plan, making, group_of);
  if (plan && plan->own_.empty()) plan->settle_base(tighter, [&](double) { return making.watch(1.0); });
  if (!plan || making.cancelled) return nullptr;
  if (!making.policy) plan->take_power(request);
  if (making.policy && adjusted && adjusted->measurements == plan->measurements_) {
    plan->take_up(*adjusted, *making.policy);
  }
  return plan;
}

bool JobPlan::Making::watch(double share) {
  cancelled = cancelled || !progress(begin + part * share);
  over = over || (!cancelled && out_of_time && out_of_time());
  return !cancelled && !over;
}

std::shared_ptr<JobPlan> JobPlan::make_one(Making& making, const std::shared_ptr<Basis>& basis,
                                           const std::shared_ptr<const JobPlan>& previous,
                                           std::vector<TighterPlan>& tighter) {
  const JobRequest& request = making.request;
  const bool& cancelled = making.cancelled;
  const bool& over = making.over;
  const auto watched = [&](double share) { return making.watch(share); };
  std::shared_ptr<JobPlan> plan(new JobPlan);
  plan->basis_ = basis;
  plan->planner_ = planner_of(request);
  plan->order_warning_ = kept_order_warning(request);
  const LatencyRange latency = latency_of(request, basis->profile);
  plan->switch_latency_ = to_nanoseconds(latency.longest);
  plan->switch_spread_ = to_nanoseconds(latency.longest - latency.shortest);
  plan->min_dwell_ = to_nanoseconds(request.min_dwell);
  const std::optional<EnvPipePolicy>& policy = making.policy;
  const bool reorder = may_reorder(request, making.seen);
  const auto planner = planner_for(plan->planner_, policy.has_value(), reorder);
  const bool limited = any_of(making.limits);
  basis->realised = basis->problem;
  if (limited) {
    auto inside = plan_limited(basis->problem, std::string(planner->name()), request, making.limits,
                               !plan->is_without_cost(), watched);
    if (!inside) inside = least_power_instead(basis->problem, request, making.limits);
    plan->limits_ = inside->kept;
    if (!inside->kept.found) plan->status_ = PlanStatus::kIncomplete;
    // Few clock changes are searched for among the same options.
    basis->realised = capped_problem(basis->problem, inside->share);
    plan->result_ = std::move(inside->result);
    tighter = std::move(inside->tighter);
  } else if (auto again = plan->from_previous(previous, *planner)) {
    plan->result_ = std::move(*again);
  } else {
    plan->result_ = planner->plan(basis->problem, watched);
  }
  Frontier& frontier = plan->result_.frontier;
  const bool closable = limited || planner->name() == kMainPlanner || planner->name() == kFreeOrderPlanner;
  if (cancelled || (over && !closable)) return nullptr;
  basis->reordered = plan->result_.dag;
  basis->realised.dag = &plan->result_.dag_of(basis->problem);
  const ComputationDag& dag = *basis->realised.dag;
  if (over && !limited) {
    plan->status_ = PlanStatus::kIncomplete;
    if (!frontier.empty()) plan->reached_ = frontier.time(0);
    close_cancelled_frontier(basis->realised, frontier);
  }
  if (frontier.empty()) throw Error(fmt::format("planner {} found no plan for this pipeline", plan->planner_));
  if (basis->reordered) plan->order_ = number_of_order(dag, basis->dag);
  if (policy) {
    plan->reconfiguration_.emplace(basis->realised, *policy, frontier.plan(0));
    plan->measurements_ = fingerprint_of(making.ranks, making.fixed, reorder);
    // Executed steps show by themselves what clock changes cost.
    plan->switch_latency_ = plan->switch_spread_ = plan->min_dwell_ = 0;
  } else if (!over && frontier.bounds_are_open()) {
    const RelaxationResult relaxed =
        solve_relaxation(dag, basis->problem.hulls(), [&](const FrontierStretch&) { return watched(1.0); });
    if (cancelled || (over && !limited)) return nullptr;
    if (!over) set_lower_bounds(frontier, relaxed.bound);
  }
  const PlanSummary summary = summarise(plan->planner_, basis->problem, dag, frontier, pace_of(request), nullptr);
  plan->base_point_ = summary.selected_point;
  plan->limited_by_ = name_of(summary.selected.time > summary.allowed_time ? PaceLimit::kPower : summary.limit);
  if (const MeasurementNoise noise(dag); noise.known()) {
    plan->expected_saving_pct_ =
        expected_figures(basis->problem, noise, dag, frontier.plan(plan->base_point_), std::nullopt).saving_pct;
  }
  plan->t_min_ = summary.t_min;
  plan->allowed_time_ = summary.allowed_time;
  plan->max_clock_time_ = summary.baseline.time;
  plan->max_clock_time_in_order_ =
      to_seconds(replay(dag, basis->realised.blocking, max_clock_plan(basis->realised)).time);
  plan->max_clock_energy_ = summary.baseline.energy;
  plan->max_clock_straggler_power_ =
      straggler_power(basis->dag, max_clock_plan(basis->problem), basis->problem.blocking);
  plan->charge_scatter_at_maximum();
  return plan;
}

// Always from the plan that was made from new, lest small losses add up.
std::optional<PlannerResult> JobPlan::from_previous(const std::shared_ptr<const JobPlan>& previous,
                                                    const Planner& planner) {
  const std::shared_ptr<const JobPlan>& root = previous && previous->from_ ? previous->from_ : previous;
  if (!root || root->is_limited() || planner.name() != kMainPlanner) return std::nullopt;
  std::optional<PlannerResult> result = replan(root->basis_->problem, root->result_, basis_->problem);
  // Plans of pipelines that are no longer in force are let go.
  if (result) from_ = root->own_.empty() ? root : std::shared_ptr<const JobPlan>(new JobPlan(*root));
  return result;
}

JobPlan::JobPlan(const JobPlan& other)
    : basis_(other.basis_),
      from_(other.from_),
      result_(other.result_),
      reconfiguration_(other.reconfiguration_),
      measurements_(other.measurements_),
      base_point_(other.base_point_),
      order_(other.order_),
      planner_(other.planner_),
      order_warning_(other.order_warning_),
      limited_by_(other.limited_by_),
      status_(other.status_),
      reached_(other.reached_),
      expected_saving_pct_(other.expected_saving_pct_),
      t_min_(other.t_min_),
      max_clock_time_(other.max_clock_time_),
      max_clock_time_in_order_(other.max_clock_time_in_order_),
      max_clock_energy_(other.max_clock_energy_),
      max_clock_straggler_power_(other.max_clock_straggler_power_),
      allowed_time_(other.allowed_time_),
      switch_latency_(other.switch_latency_),
      switch_spread_(other.switch_spread_),
      min_dwell_(other.min_dwell_),
      limits_(other.limits_),
      power_(other.power_),
      least_peak_(other.least_peak_) {}

std::shared_ptr<const JobPlan> JobPlan::reconfigured(std::span<const std::vector<MeasuredTimes>> stages) const {
  const std::shared_ptr<JobPlan> next(new JobPlan(*this));
  next->reconfiguration_->learn(join_stages(*basis_->realised.dag, stages));
  next->set_only_plan(next->reconfiguration_->plan());
  return next;
}

void JobPlan::set_only_plan(const ClockPlan& plan) {
  const PlanProblem& problem = basis_->realised;
  expected_saving_pct_.reset();  // it belonged to another plan
  power_.reset();
  least_peak_ = Watts(0);
  result_.frontier = Frontier(problem.total_blocking());
  result_.frontier.add(replay(*problem.dag, problem.blocking, plan), plan);
  result_.frontier.finish();
}

std::optional<AdjustedPlan> JobPlan::adjusted() const {
  if (!reconfiguration_) return std::nullopt;
  AdjustedPlan adjusted{measurements_, !wants_steps(), {}};
  const ComputationDag& dag = *basis_->realised.dag;
  for (int stage = 0; stage < dag.stages(); ++stage) {
    std::vector<Megahertz>& clocks = adjusted.clocks.emplace_back();
    for (const int i : measured_operations(dag, stage)) {
      clocks.push_back(dag.type_of(i).options[reconfiguration_->plan()[static_cast<std::size_t>(i)]].frequency);
    }
  }
  return adjusted;
}

// A state that does not fit was reached by the rules of another version; adjusting then starts again.
void JobPlan::take_up(const AdjustedPlan& adjusted, EnvPipePolicy policy) {
  const ComputationDag& dag = *basis_->realised.dag;
  ClockPlan plan = reconfiguration_->plan();
  if (std::ssize(adjusted.clocks) != dag.stages()) return;
  for (int stage = 0; stage < dag.stages(); ++stage) {
    const std::vector<int> operations = measured_operations(dag, stage);
    const std::vector<Megahertz>& clocks = adjusted.clocks[static_cast<std::size_t>(stage)];
    if (clocks.size() != operations.size()) return;
    for (std::size_t k = 0; k < operations.size(); ++k) {
      const std::vector<ClockOption>& options = dag.type_of(operations[k]).options;
      const auto found = std::find_if(options.begin(), options.end(),
                                      [&](const ClockOption& option) { return option.frequency == clocks[k]; });
      if (found == options.end()) return;
      plan[static_cast<std::size_t>(operations[k])] = static_cast<ClockPlan::value_type>(found - options.begin());
    }
  }
  set_only_plan(plan);
  if (adjusted.finished) {
    reconfiguration_.reset();
  } else {
    reconfiguration_.emplace(basis_->realised, policy, std::move(plan));
  }
}

std::size_t JobPlan::point_for(Seconds allowed) const {
  return std::max(base_point_, result_.frontier.lookup(to_nanoseconds(allowed)));
}

bool JobPlan::is_prepared(const Run& run) const {
  if (is_without_cost()) return true;
  const std::lock_guard lock(mutex_);
  return prepared_.count(run) != 0;
}

bool JobPlan::is_prepared_at_once(const Run& run) const {
  constexpr int kMostAtOnce = 2048;  // ten emulations of up to 16 iterations take some 10 ms
  return !is_searched(run) && basis_->realised.dag->size() <= kMostAtOnce && is_prepared(base_run());
}

void JobPlan::prepare(const Run& run, const Progress& progress) const {
  if (is_prepared(run)) return;
  if (limits_ && !limits_->kept && waits_for_straggler(run)) return take_base_for(run);
  const PlanProblem& problem = basis_->realised;
  PreparedRun made;
  const Nanoseconds allowed = to_nanoseconds(run.allowed);
  const SwitchingTerms terms = terms_of(run.allowed, waits_for_straggler(run));
  if (!is_searched(run)) {
    const auto slowest = slowest_in_time(problem, frontier(), allowed, terms);
    if (!slowest || *slowest < base_point_) return take_base_for(run);
    made.plan = frontier().plan(std::min(*slowest, run.point));
    if (!is_inside(made.plan)) return take_base_for(run);
  } else {
    made = searched(problem, frontier().plan(run.point), terms, progress);
    if (!made.inside && waits_for_straggler(run)) return take_base_for(run);
  }
  keep_prepared(run, std::move(made));
}

SwitchingTerms JobPlan::terms_of(Seconds allowed, bool waits) const {
  // A point of the frontier ends up to its spacing before the time that is allowed. Where several clocks take the same
  // time but for noise, as at a power limit, a fraction of a millisecond decides which of them may be used.
  const Seconds deadline = waits ? allowed : std::max(allowed, allowed_time_);
  SwitchingTerms terms{to_nanoseconds(deadline), switch_latency_, min_dwell_};
  terms.waits_until = waits ? terms.deadline : 0;
  terms.spread = switch_spread_;
  terms.asked = asked();
  return terms;
}

JobPlan::PreparedRun JobPlan::searched(const PlanProblem& problem, ClockPlan plan, const SwitchingTerms& terms,
                                       const Progress& progress) const {
  PreparedRun made;
  std::vector<SwitchingPlan> front = std::move(switching_fronts(problem, {{plan}}, terms, progress).front());
  std::erase_if(front, [&](const SwitchingPlan& one) { return !is_inside(one.plan); });
  made.plan = front.empty() ? std::move(plan) : std::move(front[few_changes(problem, front)].plan);
  if (!limits_ && min_dwell_ == 0 && terms.waits_until == 0) hasten(made.plan);
  made.inside = !front.empty() || is_inside(made.plan);
  return made;
}

void JobPlan::keep_prepared(const Run& run, PreparedRun made) const {
  const bool inside = made.inside;
  made = emulated(std::move(made.plan), switch_latency_);
  made.inside = inside;
  if (switch_spread_ > 0) {
    made.time = std::max(made.time, emulated(made.plan, switch_latency_ - switch_spread_).time);
  }
  // Includes the energy of waiting for the straggler (Perseus eq. 3). A long dwell time may leave a slower plan so few
  // changes that the base point's run is better, even for as long as that.
  const auto total = [&](const PreparedRun& it) { return it.energy + it.straggler_power * (run.allowed - it.time); };
  const std::lock_guard lock(mutex_);
  const auto base = prepared_.find({base_point_, frontier().time(base_point_)});
  if (base != prepared_.end() && base->second.inside && total(base->second) < total(made)) made = base->second;
  prepared_[run] = std::move(made);
}

bool JobPlan::is_inside(const ClockPlan& plan) const {
  return !limits_ || !limits_->kept || keeps_late(basis_->realised, plan, *limits_, late());
}

// While a change is late, an operation draws what the clock before does. Where no plan for the base point keeps to the
// limits then, plans inside tighter limits are tried, slower points, and at last the plan of least power, which hardly
// changes a clock.
void JobPlan::settle_base(const std::vector<TighterPlan>& tighter, const Progress& progress) {
  constexpr std::size_t kMostTried = 8;
  if (limits_ && !limits_->kept && !is_without_cost()) return settle_least();
  prepare(base_run(), progress);
  if (!limits_ || is_without_cost()) return;
  const std::size_t first = base_point_;
  const auto inside = [&] { return prepared_.at(base_run()).inside; };
  for (const TighterPlan& one : tighter) {
    if (inside()) break;
    PlanProblem capped = capped_problem(basis_->problem, one.share);
    capped.dag = basis_->realised.dag;
    PreparedRun made = searched(capped, one.plan, terms_of(one.time, false), progress);
    if (!made.inside) continue;
    keep_prepared(base_run(), std::move(made));
    limited_by_ = name_of(PaceLimit::kPower);
  }
  for (std::size_t k = 1; k <= kMostTried && !inside(); ++k) {
    base_point_ = first + (frontier().size() - 1 - first) * k / kMostTried;
    prepare(base_run(), progress);
  }
  if (base_point_ != first) limited_by_ = name_of(PaceLimit::kPower);
  if (inside()) return;
  PreparedRun least;
  least.plan = least_power_plan(basis_->realised);
  limits_->kept = least.inside = is_inside(least.plan);
  prepared_.erase(base_run());
  keep_prepared(base_run(), std::move(least));
}

void JobPlan::settle_least() {
  const auto figure_of = [&](const ClockPlan& plan) {
    const PowerShape shape =
        late_shape(basis_->realised, plan, limits_->copies, late(), limits_->limits.ramp_window).shape;
    return limits_->limits.peak ? shape.peak.value() : shape.ramp_w_per_s;
  };
  PreparedRun least{least_power_plan(basis_->realised), {}, {}, {}, {}, false};
  ClockPlan planned = frontier().plan(base_point_);
  if (figure_of(planned) < figure_of(least.plan)) least.plan = std::move(planned);
  keep_prepared(base_run(), std::move(least));
}

void JobPlan::take_base_for(const Run& run) const {
  prepare(base_run());  // where it has waited for others until now
  const std::lock_guard lock(mutex_);
  prepared_[run] = prepared_.at(base_run());
}

void JobPlan::keep_only(const std::vector<Run>& runs) const {
  const std::lock_guard lock(mutex_);
  std::erase_if(prepared_, [&](const auto& entry) {
    return entry.first.point != base_point_ && entry.first.allowed != common_ &&
           !std::binary_search(runs.begin(), runs.end(), entry.first);
  });
}

Seconds JobPlan::schedule_time() const {
  if (is_without_cost()) return frontier().time(base_point_);
  const std::lock_guard lock(mutex_);
  return prepared_.at(base_run()).time;
}

// Both wait until the iteration's time is over. A plan that is made of noisy measurements looks better than it is: it
// promises what it can be expected to save, less the deviation of that.
EnergyPromise JobPlan::energy_promise(const Run& run, const Schedule& schedule) const {
  const auto with_waiting = [](Joules energy, Watts waiting, Seconds rest) {
    return energy + waiting * std::max(Seconds(0), rest);
  };
  const Joules planned = with_waiting(schedule.energy, schedule.straggler_power, run.allowed - schedule.time);
  const Joules at_maximum = with_waiting(max_clock_energy_, max_clock_straggler_power_,
                                         std::max(run.allowed, schedule.time) - max_clock_time_);
  double share = planned / at_maximum;
  if (expected_saving_pct_ && run.point == base_point_) {
    share = std::max(share, 1.0 - 0.01 * (expected_saving_pct_->mean - expected_saving_pct_->deviation));
  }
  return {share, max_clock_straggler_power_};
}

std::vector<std::string> JobPlan::warnings() const {
  std::vector<std::string> all = blocking_warnings(basis_->spec, basis_->profile, basis_->dag);
  if (!order_warning_.empty()) all.push_back(order_warning_);
  if (limits_ && power_) {
    const std::string warning = limits_warning(*limits_, power_->peak, power_->ramp_w_per_s, schedule_time());
    if (!warning.empty()) all.push_back(warning);
    return all;
  }
  if (status_ == PlanStatus::kComplete) return all;
  const std::string there =
      reached_ ? fmt::format("has what is slower than {:.4g} s", reached_->value()) : "lacks all but";
  all.push_back(
      fmt::format("planning ran out of the time that this server gives a job (--planning-time): the frontier {} {} "
                  "rougher plans for {:.4g} s and the job's pace; a longer unit_time_s, fewer microbatches or another "
                  "planner take less time",
                  there, reached_ ? "and" : "the", t_min_.value()));
  return all;
}

FrontierReport JobPlan::report() const {
  FrontierReport report;
  report.planner = planner_;
  report.plan_status = status_;
  report.t_min = t_min_;
  report.switch_latency = to_seconds(switch_latency_);
  report.t_star = frontier().time(frontier().size() - 1);
  report.t_least_total = frontier().time(frontier().least_total_energy());
  report.base_point = base_point_;
  report.limited_by = limited_by_;
  if (expected_saving_pct_) {
    report.expected_saving_pct = expected_saving_pct_->mean;
    report.expected_saving_deviation_pct = expected_saving_pct_->deviation;
  }
  report.max_clock_time = max_clock_time_;
  report.max_clock_energy = max_clock_energy_;
  report.max_clock_straggler_power = max_clock_straggler_power_;
  for (std::size_t i = 0; i < frontier().size(); ++i) {
    FrontierPointReport point{frontier().time(i), frontier().energy(i), std::nullopt};
    if (std::isfinite(frontier().lower_bound(i).value())) point.lower_bound = frontier().lower_bound(i);
    report.points.push_back(point);
  }
  return report;
}

}  // namespace flyball
