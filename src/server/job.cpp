// Ranks are kept by number and by place, with counts of those profiled in all and by stage. Schedules are made as text
// once for each different run of the plan and shared by the pipelines and ranks that have the same. A fingerprint of
// all texts tells whether a deployment is new.
#include "server/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/fingerprint.h"
#include "base/record.h"
#include "net/http.h"
#include "pipeline/instruction.h"
#include "pipeline/pipeline_spec.h"
#include "server/schedule_text.h"
#include "server/straggler_degrees.h"
#include "wire/iteration_messages.h"

namespace flyball {
namespace {

constexpr std::size_t kMostStragglers = 4096;
constexpr std::size_t kMostAnnounced = 16;   // of one straggler
constexpr std::size_t kMostRanksShown = 16;  // missing ranks in a status
constexpr Seconds kBetweenMeasured{30.0};    // iterations, about

std::string place_text(const RankRequest& rank) {
  return fmt::format("dp_rank {}, pp_rank {}, tp_rank {}", rank.dp_rank, rank.pp_rank, rank.tp_rank);
}

// The tails are read by RankSchedule (wire/job_messages.h). A plan inside limits on power makes no promise, since ranks
// that find a promise broken go to maximum clocks.
// `allowed` is what all pipelines wait for, and `max_clock_time` what they wait for at maximum clocks, which the run of
// one of them does not know.
std::shared_ptr<const Deployment::Texts> texts_of(const JobPlan& plan, const JobPlan::Run& run,
                                                  const std::vector<int>& raised, Seconds allowed,
                                                  Seconds max_clock_time, JobKind kind, bool at_maximum,
                                                  const std::map<int, RemeasureOrder>& remeasured) {
  const JobPlan::Schedule schedule = plan.schedule(run, raised);
  const Seconds promised = std::max(schedule.time, allowed + schedule.lateness);
  const Seconds promised_against = plan.is_limited() ? Seconds(0) : max_clock_time;
  const auto texts = std::make_shared<Deployment::Texts>();
  for (const auto& computations : schedule.stages) {
    const auto order = remeasured.find(static_cast<int>(texts->tails.size()));
    const std::string again = order == remeasured.end() ? "null" : to_json(order->second).dump();
    texts->tails.push_back(fmt::format(
        R"("stage":{},"point":{},"iteration_time_s":{},"iteration_energy_j":{},"straggler_power_w":{},)"
        R"("allowed_time_s":{},"max_clock_time_s":{},"at_maximum":{},"report_steps":{},"limited":{},"order":{},)"
        R"("remeasure":{},"computations":{}}})",
        texts->tails.size(), run.point, schedule.time.value(), schedule.energy.value(),
        schedule.straggler_power.value(), promised.value(), promised_against.value(), at_maximum,
        plan.wants_steps() && !at_maximum, plan.is_limited(), plan.order(), again, computations_text(computations)));
    if (kind == JobKind::kZeus) texts->zeus_tails.push_back(zeus_tail(computations));
  }
  // Never each: a rank whose GPU has not done one yet leaves out the next.
  if (!plan.wants_steps() && static_cast<std::size_t>(plan.dag().size()) <= kMostIterationOperations) {
    texts->measured_every = std::max<std::int64_t>(2, std::llround(std::min(1e6, kBetweenMeasured / promised)));
  }
  texts->promised_time = promised;
  texts->own_time = schedule.time;
  texts->own_energy = schedule.energy + schedule.straggler_power * std::max(Seconds(0), run.allowed - schedule.time);
  if (promised_against > Seconds(0)) texts->energy = plan.energy_promise(run, schedule);
  return texts;
}

// The means of waiting measurements that pass are within the same bounds, far inside what a profile may hold.
void check_waiting(const InstructionMeasurement& one, std::size_t index) {
  const double power = (one.energy / one.time).value();
  if (power >= kLeastWaitingWatts && power <= kMostWaitingWatts) return;
  throw HttpError(
      400, fmt::format("measurements[{}].energy_j: {} J in {} s are {:.3g} W, out of range; a GPU that waits draws "
                       "from {} to {:.0f} W: give the energy and the time of the same waiting",
                       index, one.energy.value(), one.time.value(), power, kLeastWaitingWatts, kMostWaitingWatts));
}

std::pair<int, std::pair<int, int>> place_of(const RankRequest& rank) {
  return {rank.pp_rank, {rank.dp_rank, rank.tp_rank}};
}

}  // namespace

void add_savings(RankSavings& to, const RankSavings& more) {
  to.iterations += more.iterations;
  to.energy += more.energy;
  to.energy_at_maximum += more.energy_at_maximum;
  to.time += more.time;
  to.time_at_maximum += more.time_at_maximum;
  // Errors of different counters, and of different times, have nothing to do with each other.
  to.energy_error = Joules(std::hypot(to.energy_error.value(), more.energy_error.value()));
  to.time_error = Seconds(std::hypot(to.time_error.value(), more.time_error.value()));
}

// --- Ranks -------------------------------------------------------------------------------------------------------

JobRank* Job::find_rank(int rank) {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? nullptr : &found->second;
}

const JobRank& Job::registered_rank(int rank) const {
  const auto found = ranks_.find(rank);
  if (found != ranks_.end() && found->second.durable) return found->second;
  throw HttpError(409, fmt::format("rank {} of job {} has not registered; register it first", rank, id()));
}

void Job::check_rank(const RankRequest& rank) const {
  const JobRequest& job = request();
  const auto refuse = [&](const char* field, int value, std::int64_t limit) {
    throw HttpError(400, fmt::format("{} is {}, but job {} has only {} (counted from 0)", field, value, id(), limit));
  };
  if (rank.rank >= job.ranks()) refuse("rank", rank.rank, job.ranks());
  if (rank.pp_rank >= job.stages) refuse("pp_rank", rank.pp_rank, job.stages);
  if (rank.dp_rank >= job.data_parallel) refuse("dp_rank", rank.dp_rank, job.data_parallel);
  if (rank.tp_rank >= job.tensor_parallel) refuse("tp_rank", rank.tp_rank, job.tensor_parallel);
  const auto known = ranks_.find(rank.rank);
  if (known != ranks_.end() && place_of(known->second.request) != place_of(rank)) {
    throw HttpError(409, fmt::format("rank {} has registered as {}, not as {}", rank.rank,
                                     place_text(known->second.request), place_text(rank)));
  }
  const auto holder = places_.find(place_of(rank));
  if (holder != places_.end() && holder->second != rank.rank) {
    throw HttpError(409, fmt::format("{} is rank {} already", place_text(rank), holder->second));
  }
}

JobRank& Job::add_rank(const RankRequest& rank) {
  places_[place_of(rank)] = rank.rank;
  JobRank& added = ranks_[rank.rank];
  renew_rank(added, rank);
  return added;
}

void Job::renew_rank(JobRank& rank, const RankRequest& request) {
  rank.request = request;
  measured_limit_is_old_ = true;
}

void Job::remove_rank(int rank) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return;
  set_ended(rank, false);
  set_profiled(found->second, false);
  places_.erase(place_of(found->second.request));
  ranks_.erase(found);
  measured_limit_is_old_ = true;
}

void Job::restore(const StoredSavings& savings) { saved_[savings.rank] = savings; }

void Job::restore(LoadedRank loaded) {
  JobRank& rank = add_rank(loaded.rank.rank);
  rank.durable = true;
  rank.last_sequence = rank.enqueued_sequence = loaded.rank.last_sequence;
  rank.sums = std::make_shared<MeasurementSums>(std::move(loaded.sums));
  rank.collected = std::move(loaded.collected);
  set_profiled(rank, loaded.rank.profiled);
}

bool Job::all_registered() const {
  return std::ssize(ranks_) == request().ranks() &&
         std::all_of(ranks_.begin(), ranks_.end(), [](const auto& entry) { return entry.second.durable; });
}

bool Job::all_profiled() const { return static_cast<std::int64_t>(profiled_count_) == request().ranks(); }
bool Job::any_profiled() const { return profiled_count_ > 0; }

bool Job::every_stage_profiled() const {
  return std::all_of(profiled_of_stage_.begin(), profiled_of_stage_.end(), [](int count) { return count > 0; });
}

std::vector<int> Job::unprofiled_stages() const {
  std::vector<int> stages;
  for (int stage = 0; stage < request().stages; ++stage) {
    if (profiled_of_stage_[static_cast<std::size_t>(stage)] == 0) stages.push_back(stage);
  }
  return stages;
}

bool Job::is_measuring() const {
  return !any_profiled() &&
         std::any_of(ranks_.begin(), ranks_.end(), [](const auto& entry) { return !entry.second.collected.empty(); });
}

std::vector<RankMeasurements> Job::measured_ranks(bool finished_only) const {
  std::vector<RankMeasurements> all;
  for (const auto& [number, rank] : ranks_) {
    const bool stands_in = profiled_of_stage_[static_cast<std::size_t>(rank.request.pp_rank)] == 0;
    const bool counts = finished_only && !stands_in ? rank.profiled : !rank.sums->empty();
    if (counts) all.push_back({number, rank.request.pp_rank, rank.sums, rank.request.dp_rank});
  }
  return all;
}

std::vector<FixedStage> Job::fixed_stages(const std::vector<RankMeasurements>& measured) const {
  std::vector<bool> known(static_cast<std::size_t>(request().stages));
  for (const RankMeasurements& rank : measured) known[static_cast<std::size_t>(rank.stage)] = true;
  std::vector<FixedStage> fixed;
  for (int stage = 0; stage < request().stages; ++stage) {
    if (!known[static_cast<std::size_t>(stage)]) fixed.push_back({stage, Megahertz(0), {}});
  }
  if (fixed.empty()) return fixed;
  for (const auto& [number, rank] : ranks_) {
    for (FixedStage& one : fixed) {
      if (one.stage != rank.request.pp_rank) continue;
      for (const int clock : rank.request.clocks_mhz) one.clock = std::max(one.clock, Megahertz(clock));
      if (one.measured.empty()) one.measured = rank.collected;
    }
  }
  return fixed;
}

std::vector<int> Job::missing_ranks(std::size_t most) const {
  std::vector<int> missing;
  for (int rank = 0; rank < request().ranks() && missing.size() < most; ++rank) {
    const auto found = ranks_.find(rank);
    if (found == ranks_.end() || !found->second.profiled) missing.push_back(rank);
  }
  return missing;
}

// --- Measurements ------------------------------------------------------------------------------------------------

void Job::check_report(const JobRank& rank, const MeasurementReport& report) const {
  const std::size_t collected = report.begins_sweep ? 0 : rank.collected.size();
  if (collected + report.measurements.size() > kMostSums) {
    throw HttpError(400, fmt::format("rank {} reports more than {} instructions and clocks", report.rank, kMostSums));
  }
  for (std::size_t i = 0; i < report.measurements.size(); ++i) {
    const InstructionMeasurement& one = report.measurements[i];
    if (!is_known_instruction(request(), one.instruction)) {
      throw HttpError(400, fmt::format("measurements[{}].instruction: '{}' is no instruction of this job; there are "
                                       "forward, backward, recompute, backward_input, backward_weight (a model chunk's "
                                       "own as forward.1, a first or last microbatch's as backward.first), p2p, "
                                       "p2p_back, data_load, gradient_sync, optimizer_step, waiting and "
                                       "clock_change",
                                       i, one.instruction));
    }
    const std::vector<int>& clocks = rank.request.clocks_mhz;
    if (one.instruction == kWaitingName) check_waiting(one, i);
    if (clocks.empty() || is_constant_operation(one.instruction)) continue;
    const bool offered = std::any_of(clocks.begin(), clocks.end(),
                                     [&](int clock) { return static_cast<double>(clock) == one.clock.value(); });
    if (offered) continue;
    throw HttpError(400, fmt::format("measurements[{}].clock_mhz: {} is no clock that rank {} has registered", i,
                                     one.clock.value(), report.rank));
  }
}

void Job::count_report(JobRank& rank, const MeasurementReport& report) {
  rank.last_sequence = report.sequence;
  // After a finished sweep, this report is the first of a new one.
  take_up_sweep(rank);
  set_profiled(rank, false);
  if (report.begins_sweep) rank.collected.clear();
  add_measurements(rank.collected, report.measurements);
}

bool Job::take_up_sweep(JobRank& rank) {
  if (!rank.profiled || rank.collected.empty()) return false;
  // A planner may still be reading the old sums.
  rank.sums = std::make_shared<MeasurementSums>(with_sweep(*rank.sums, std::move(rank.collected)));
  rank.collected.clear();
  ++rank.sweeps_since_order;
  return true;
}

std::vector<int> Job::take_up_sweeps() {
  std::vector<int> taken;
  for (auto& [number, rank] : ranks_) {
    if (take_up_sweep(rank)) taken.push_back(number);
  }
  return taken;
}

bool Job::has_new_sweeps() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const auto& entry) { return entry.second.profiled && !entry.second.collected.empty(); });
}

void Job::set_profiled(JobRank& rank, bool profiled) {
  if (rank.profiled == profiled) return;
  rank.profiled = profiled;
  const int change = profiled ? 1 : -1;
  profiled_of_stage_[static_cast<std::size_t>(rank.request.pp_rank)] += change;
  profiled_count_ = profiled ? profiled_count_ + 1 : profiled_count_ - 1;
}

// --- Stragglers --------------------------------------------------------------------------------------------------

JobStraggler& Job::straggler(const StragglerId& id) {
  if (const auto* rank = std::get_if<int>(&id); rank != nullptr && *rank >= request().ranks()) {
    throw HttpError(400, fmt::format("straggler: {} is no rank of job {}, which has {}; give a name for what lies "
                                     "outside of it",
                                     *rank, this->id(), request().ranks()));
  }
  const auto found = stragglers_.find(id);
  if (found == stragglers_.end() && stragglers_.size() >= kMostStragglers) {
    throw HttpError(429, fmt::format("job {} knows {} stragglers, the most there may be", this->id(), kMostStragglers));
  }
  JobStraggler& straggler = stragglers_[id];
  if (straggler.announced.size() >= kMostAnnounced) {
    throw HttpError(
        429, fmt::format("{} notices about this straggler wait for their time, the most there may be", kMostAnnounced));
  }
  return straggler;
}

void Job::take_back(const StragglerId& id, std::int64_t sequence, std::int64_t seen_before) {
  const auto found = stragglers_.find(id);
  if (found == stragglers_.end() || found->second.newest_seen != sequence) return;
  if (seen_before < 0) {
    stragglers_.erase(found);
  } else {
    found->second.newest_seen = seen_before;
  }
}

bool Job::put_in_force(const StragglerId& id, std::int64_t sequence, double degree) {
  JobStraggler& straggler = stragglers_[id];
  straggler.newest_seen = std::max(straggler.newest_seen, sequence);
  straggler.announced.erase(straggler.announced.begin(), straggler.announced.upper_bound(sequence));
  if (sequence <= straggler.sequence) return false;
  straggler.sequence = sequence;
  straggler.degree = degree;
  return true;
}

void Job::announce(const StragglerId& id, std::int64_t sequence, double degree, double due) {
  JobStraggler& straggler = stragglers_[id];
  straggler.newest_seen = std::max(straggler.newest_seen, sequence);
  straggler.announced[sequence] = {degree, due};
}

bool Job::put_due_in_force(double now) {
  bool changed = false;
  for (auto& [id, straggler] : stragglers_) {
    auto& announced = straggler.announced;
    while (!announced.empty()) {
      // The newest notice that is due; older ones are dropped with it.
      const auto due = std::find_if(announced.rbegin(), announced.rend(),
                                    [&](const auto& entry) { return entry.second.due <= now; });
      if (due == announced.rend()) break;
      changed = put_in_force(id, due->first, due->second.degree) || changed;
    }
  }
  return changed;
}

std::optional<double> Job::next_due() const {
  std::optional<double> next;
  for (const auto& [id, straggler] : stragglers_) {
    for (const auto& [sequence, announced] : straggler.announced)
      next = std::min(next.value_or(announced.due), announced.due);
  }
  return next;
}

std::vector<StragglerState> Job::straggler_states(double now) const {
  std::vector<StragglerState> states;
  for (const auto& [id, straggler] : stragglers_) {
    StragglerState state{id, straggler.degree, straggler.sequence, {}};
    for (const auto& [sequence, announced] : straggler.announced) {
      state.announced.push_back({announced.degree, sequence, Seconds(std::max(0.0, announced.due - now))});
    }
    states.push_back(std::move(state));
  }
  return states;
}

std::vector<double> Job::degrees_of_pipelines(const std::map<int, FoundPipeline>& slow) const {
  std::vector<double> degrees(static_cast<std::size_t>(request().data_parallel), 1.0);
  for (const auto& [id, straggler] : stragglers_) {
    const auto* rank = std::get_if<int>(&id);
    const auto found = rank == nullptr ? ranks_.end() : ranks_.find(*rank);
    if (found == ranks_.end()) continue;
    double& degree = degrees[static_cast<std::size_t>(found->second.request.dp_rank)];
    degree = std::max(degree, straggler.degree);
  }
  for (const auto& [number, pipeline] : slow) {
    if (!pipeline.announced) degrees[static_cast<std::size_t>(number)] = pipeline.slowed.degree;
  }
  const auto plans = static_cast<std::int64_t>(plan_->plans());
  share_degrees(degrees, most_degrees(plans * operations_of(request())));
  return degrees;
}

// --- Plans -------------------------------------------------------------------------------------------------------

JobState Job::state() const {
  if (planning_) return JobState::kPlanning;
  if (life_ != Life::kThere) return life_ == Life::kEnded ? JobState::kEnded : JobState::kLost;
  if (!failure_.empty()) return JobState::kFailed;
  if (current_) return JobState::kReady;
  return all_registered() ? JobState::kProfiling : JobState::kRegistering;
}

Deployment Job::deployment() const {
  struct Made {
    std::shared_ptr<const Deployment::Texts> texts;
    std::string mark;
  };
  Deployment next;
  next.plan = plan_;
  Fingerprint fingerprint;
  std::map<std::pair<std::pair<const JobPlan*, JobPlan::Run>, std::vector<int>>, Made> made;
  const Runs wanted = runs();
  const Seconds at_maximum = max_clock_time(*plan_);
  for (const auto& [plan, of_plan] : by_plan(wanted)) plan->keep_only(of_plan);
  next.pipelines.reserve(wanted.of_pipelines.size());
  for (std::size_t i = 0; i < wanted.of_pipelines.size(); ++i) {
    const JobPlan::Run& run = wanted.of_pipelines[i];
    const std::vector<int>& raised = wanted.raised[i];
    const JobPlan& plan = plan_->of_pipeline(static_cast<int>(i));
    Made& shared = made[{{&plan, run}, raised}];
    if (!shared.texts) {
      shared = {
          texts_of(plan, run, raised, wanted.slowest, at_maximum, stored_.kind, runs_at_maximum(plan), remeasured_),
          fmt::format("{} {} {}", run.point, run.allowed.value(), fmt::join(raised, " "))};
      for (const std::string& text : shared.texts->tails) fingerprint.add(text);
    }
    fingerprint.add(shared.mark);
    next.pipelines.push_back({run.point, run.allowed, wanted.slowest, raised, shared.texts});
  }
  next.fingerprint = fingerprint.value();
  return next;
}

std::optional<Deployment> Job::deployment_with(const StragglerId& id, double degree) {
  JobStraggler& straggler = stragglers_[id];
  const double in_force = std::exchange(straggler.degree, degree);
  std::optional<Deployment> next;
  if (unprepared_runs().empty()) next = deployment();
  straggler.degree = in_force;
  return next;
}

void Job::assign_version(Deployment& deployment, bool new_frontier) {
  ++stored_.version;
  if (new_frontier) stored_.frontier_version = stored_.version;
  stored_.fingerprint = deployment.fingerprint;
  deployment.version = stored_.version;
  deployment.frontier_version = stored_.frontier_version;
}

std::optional<ScheduleText> Job::schedule_for(const RankPlace& rank, std::int64_t after_version) const {
  if (!current_ || current_->version <= after_version) return std::nullopt;
  const auto& texts = current_->pipelines[static_cast<std::size_t>(rank.dp_rank)].texts;
  const bool counts = rank.dp_rank == 0 && rank.tp_rank == 0;
  return ScheduleText{fmt::format(R"({{"job":"{}","version":{},"rank":{},"measured_every":{},)", id(),
                                  current_->version, rank.rank, counts ? texts->measured_every : 0),
                      {texts, &texts->tails[static_cast<std::size_t>(rank.pp_rank)]}};
}

std::shared_ptr<const std::string> Job::zeus_tail_for(const RankPlace& rank) const {
  if (!current_ || stored_.kind != JobKind::kZeus) return nullptr;
  const auto& texts = current_->pipelines[static_cast<std::size_t>(rank.dp_rank)].texts;
  return {texts, &texts->zeus_tails[static_cast<std::size_t>(rank.pp_rank)]};
}

std::string Job::clocks_trouble() const {
  if (!stored_.ordered_maximum || !current_ || !current_->plan->is_limited()) return {};
  return "maximum clocks are ordered, but the limits on the job's power hold, and its plan runs; take the limits back "
         "for the order to take effect";
}

void Job::excuse_plan() {
  if (promise_.at_maximum() && promise_.trouble().empty()) return trust_anew();
  promise_.excuse();
}

bool Job::take_promise(const PromiseReport& report) {
  const RankRequest& rank = registered_rank(report.rank).request;
  ranks_.at(report.rank).iteration_time = report.time;
  const Deployment::Pipeline& pipeline = current_->pipelines[static_cast<std::size_t>(rank.dp_rank)];
  if (current_->plan->is_limited()) {
    promise_.take_limited(report, pipeline.texts->promised_time);
    return false;
  }
  // What iterations take as ordered is no measure of the plan, which continues where it was when the order is over.
  if (stored_.ordered_maximum) return false;
  const bool at_maximum = promise_.at_maximum();
  if (at_maximum) slowed_at_maximum_ = slowed_by_found();
  energy_.take(report, rank.dp_rank, rank.pp_rank, at_maximum);
  const double ratio = pipeline.texts->promised_time / max_clock_time(*current_->plan);
  // The ranks report at about the same time, and adding all up at each report would take long with thousands of them.
  constexpr int kMostLooks = 256;
  const auto every = static_cast<int>(1 + request().ranks() / kMostLooks);
  if (report.rank % every != 0) return !promise_.compares_energies() && promise_.take(report, ratio);
  const auto energy =
      energy_.energy(request().stages, at_maximum ? report.version : 0, [&](int number) -> const EnergyPromise& {
        return current_->pipelines[static_cast<std::size_t>(number)].texts->energy;
      });
  return promise_.take(report, ratio, energy);
}

std::optional<StoredSavings> Job::set_savings(int rank, std::int64_t session, const RankSavings& savings) {
  StoredSavings& saved = saved_[rank];
  saved.job = stored_.job;
  saved.rank = rank;
  if (session == saved.session && savings.iterations == saved.now.iterations) return std::nullopt;
  if (session != saved.session || savings.iterations < saved.now.iterations) {
    add_savings(saved.earlier, saved.now);
    saved.now = {};
  }
  // What is new was compared by the schedule in force, or by the one before while maximum clocks are measured.
  double share = 1.0;
  const auto found = ranks_.find(rank);
  if (current_ && found != ranks_.end()) {
    const double known =
        current_->pipelines[static_cast<std::size_t>(found->second.request.dp_rank)].texts->energy.share;
    if (known > 0.0) share = known;
  }
  saved.promised += share * (savings.energy_at_maximum - saved.now.energy_at_maximum);
  saved.session = session;
  saved.now = savings;
  return saved;
}

JobSavings Job::savings() const {
  JobSavings all;
  RankSavings longest;
  for (const auto& [rank, saved] : saved_) {
    RankSavings whole = saved.earlier;
    add_savings(whole, saved.now);
    add_savings(all, whole);
    if (whole.iterations > longest.iterations) longest = whole;
  }
  all.iterations = longest.iterations;
  all.time = longest.time;
  all.time_at_maximum = longest.time_at_maximum;
  all.time_error = longest.time_error;
  return all;
}

Joules Job::promised_energy() const {
  Joules all;
  for (const auto& [rank, saved] : saved_) all += saved.promised;
  return all;
}

JobStatus Job::status(double now) const {
  JobStatus status;
  status.job = id();
  status.name = request().name;
  status.state = state();
  const JobRequest planned = planned_request();
  status.planner = planner_of(planned);
  status.schedule = request().schedule;
  status.stages = request().stages;
  status.microbatches = request().microbatches;
  status.data_parallel = request().data_parallel;
  status.tensor_parallel = request().tensor_parallel;
  status.ranks = request().ranks();
  status.ranks_registered = std::ssize(ranks_);
  status.ranks_profiled = static_cast<std::int64_t>(profiled_count_);
  if (!all_profiled()) status.waiting_for = missing_ranks(kMostRanksShown);
  status.planning_progress = planning_ ? progress_ : current_ ? 1.0 : 0.0;
  status.version = current_ ? current_->version : 0;
  status.frontier_version = current_ ? current_->frontier_version : 0;
  if (current_) status.plan_status = current_->plan->status();
  status.unprofiled = unprofiled_ranks(kMostRanksShown);
  const std::string unprofiled = status.unprofiled.empty() ? "" : text_of(status.unprofiled.front());
  std::vector<std::string> troubles = {unprofiled,       left_out_,          order_trouble(planned, stored_.order_seen),
                                       clocks_trouble(), promise_.trouble(), warnings_};
  if (current_) troubles.push_back(budget_warning(limits(), now, current_->plan->least_peak()));
  std::erase(troubles, "");
  status.trouble = failure_.empty() ? fmt::format("{}", fmt::join(troubles, "; ")) : failure_;
  status.stragglers = straggler_states(now);
  status.found_stragglers = found_stragglers();
  status.slow_links = slow_links();
  status.memory_limit = planned.memory_limit;
  status.memory_limit_from = planned.memory_limit.empty()     ? MemoryLimitFrom::kNothing
                             : request().memory_limit.empty() ? MemoryLimitFrom::kMeasured
                                                              : MemoryLimitFrom::kRequest;
  status.ordered_maximum = stored_.ordered_maximum;
  status.promise = promise_.known();
  status.plans = pipeline_plans();
  status.savings = savings();
  status.promised_energy = promised_energy();
  if (!current_) return status;
  status.power = current_->plan->power();
  const auto next = next_change(limits(), now, Seconds(0));
  if (status.power && next) status.power->limit_changes_after = Seconds(*next - now);
  return status;
}

}  // namespace flyball
