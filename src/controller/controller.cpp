// The order of a cycle: look, then take the reports (those of a job come before its end), then let the scheduler know,
// then decide, then act. What is wanted is in the store before the first act.
#include "controller/controller.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/monotonic_time.h"

namespace flyball {
namespace {

constexpr int kMostDecisions = 4;       // in one cycle
constexpr std::size_t kMostCauses = 3;  // told with a decision; every job that it moves shows them

std::string words_of(const GpuShape& shape) {
  if (shape.nodes.empty()) return "no GPUs";
  return fmt::format("{} GPU{} on {}", shape.gpus(), shape.gpus() == 1 ? "" : "s", fmt::join(shape.nodes, ", "));
}

}  // namespace

Controller::Controller(ClusterEngine& engine, ControllerStore& store, ControllerOptions options, Log log)
    : engine_(engine), store_(store), options_(std::move(options)), log_(std::move(log)) {
  const PolicyRegistry::Entry& policy = find_policy(options_.policy);
  const bool has_clock = options_.clock && options_.agents != nullptr;
  if (policy.setting != PolicySetting::kBudget && (policy.setting != PolicySetting::kClock || !has_clock)) {
    throw UsageError(
        fmt::format("policy {} keeps no power budget; use joule-price or powerflow, or give a clock at which all GPUs "
                    "are within it (--clock) and the agents that set it (--agent)",
                    options_.policy));
  }
  if (options_.plans != nullptr && options_.agents == nullptr) {
    throw UsageError("a planning server takes the nodes' agents, which show what a pipeline draws (--agent)");
  }
  for (JobRecord& one : store_.jobs()) kept_[one.job] = one;
  for (Transition& one : store_.transitions()) kept_wanted_[one.job] = one;
  for (ChangeTime& one : store_.change_times()) change_times_[{one.kind, one.part}] = one;
  for (ShrinkRecord& one : store_.shrinks()) kept_shrinks_[one.job] = one;
  for (NodeRecord& one : store_.nodes()) node_records_[one.node] = one;
  order_ = store_.order();
  if (options_.agents != nullptr) keeper_.emplace(*options_.agents, options_.spec.clocks, options_.spec.limit);
  status_.policy = options_.policy;
  status_.mode = name_of(options_.mode);
  status_.partition = options_.partition.value_or("");
}

Controller::~Controller() = default;

void Controller::cycle(Seconds now) {
  const Nanoseconds begin_ns = monotonic_now();
  EngineView view;
  try {
    view = engine_.observe();
  } catch (const Error& error) {
    was_away_ = true;
    failed_at_ = now;
    const std::lock_guard lock(mutex_);
    status_.trouble = error.what();
    throw;
  }
  leave_out_other_nodes(view);
  const std::lock_guard working(work_);
  view_ = std::move(view);
  if (!scheduler_) {
    begun_ = now;
    begin();
  }
  scheduler_->state().now = now - begun_;
  decided_.clear();
  read_jobs(now);
  if (options_.mode == ControllerMode::kActs) resume_nodes(now);
  find_others();
  set_nodes(now);
  adopt(now);
  set_limit(now);
  if (options_.mode != ControllerMode::kObserves) {
    decide(now);
    switch_nodes(now);
  }
  causes_.clear();
  std::vector<JobRecord> records;
  for (const std::int64_t id : std::exchange(changed_, {})) {
    if (const auto job = jobs_.find(id); job != jobs_.end()) records.push_back(job->second.record);
  }
  if (!records.empty()) store_.keep(records);
  used_on_.clear();
  for (const EngineJob& one : view_.jobs) {
    for (const NodeGpus& gpus : one.gpus) used_on_[gpus.node] += gpus.count;
  }
  keep_clocks();
  if (options_.mode == ControllerMode::kActs) act(now);
  publish(now);
  looked_at_ = now;
  const std::lock_guard lock(mutex_);
  status_.cycle = to_seconds(monotonic_now() - begin_ns);
}

// ---- the scheduler's calls

void Controller::settle(int job) {
  ClusterState& state = scheduler_->state();
  ClusterJob& one = state.jobs[at(job)];
  const Seconds passed = state.now - one.since;
  one.done = std::min(one.iterations, one.done + one.iterations_per_second * passed.value());
  one.energy += one.power * passed;
  one.gpu_time += passed * one.gpus;
  one.since = state.now;
}

void Controller::stopped(int job) {
  ClusterJob& one = scheduler_->state().jobs[at(job)];
  one.iterations_per_second = 0.0;
  one.power = Watts(0.0);
}

// Until the job is settled the policy leaves it alone.
void Controller::started(int job, bool /*resumes*/) {
  ClusterJob& one = scheduler_->state().jobs[at(job)];
  if (one.first_start.value() < 0.0) one.first_start = scheduler_->state().now;
  one.in_transition = true;
  one.iterations_per_second = 0.0;
  for (const GpuBlock& block : scheduler_->placement().blocks(job)) scheduler_->set_powered(block.node, true);
}

// ---- the decision

GpuShape Controller::target_of(const Job& job) const {
  GpuShape shape;
  for (const GpuBlock& block : scheduler_->placement().blocks(job.index)) {
    shape.nodes.push_back(node_names_[at(block.node)]);
    shape.gpus_per_node = block.count;
  }
  return shape;
}

Watts Controller::planned_power() const {
  const ClusterState& state = scheduler_->state();
  Watts planned;
  for (const auto& [id, job] : jobs_) {
    if (job.index >= 0 && state.jobs[at(job.index)].has_gpus())
      planned += power_on(job, state.jobs[at(job.index)].gpus);
  }
  for (const auto& [id, job] : pipelines_) {
    if (job.index < 0) continue;
    const ClusterJob& one = state.jobs[at(job.index)];
    planned += state.counted(one.kind, 0, at(one.speed));
  }
  return planned;
}

// Powers are of the moment when it is noted.
void Controller::note_decision(ClusterDecision what) {
  what.planned = planned_power();
  what.limit = scheduler_->state().power_limit;
  what.budget = budget_at(what.time).power;
  decisions_.push_front(std::move(what));
  if (decisions_.size() > ClusterRunStatus::kMostDecisions) decisions_.pop_back();
}

void Controller::decide(Seconds now) {
  prefer_nodes();
  for (int round = 0; round < kMostDecisions && scheduler_->is_due(); ++round) scheduler_->decide();
  if (causes_.empty()) causes_.emplace_back("what is known has changed");
  const std::size_t told = std::min(causes_.size(), kMostCauses);
  std::string cause = fmt::format("{}", fmt::join(causes_.begin(), causes_.begin() + static_cast<long>(told), ", "));
  if (told < causes_.size()) cause += fmt::format(" and {} more", causes_.size() - told);
  note_speeds(now, cause);
  std::vector<Transition> changes;
  for (auto& [id, job] : jobs_) {
    // Of a job that the engine is changing, more will be known when it has done so.
    if (job.index < 0 || (!job.wanted && job.seen.state == EngineJobState::kChanging)) continue;
    const GpuShape target = target_of(job);
    const std::optional<GpuShape> has = shape_of(job.seen);
    const bool runs = job.seen.state == EngineJobState::kRunning;
    ClusterJob& one = scheduler_->state().jobs[at(job.index)];
    if (!job.wanted && has == target && (runs || target.nodes.empty())) {
      // Other GPUs of the same node are the same to the engine.
      if (runs && std::exchange(one.in_transition, false)) one.phase = JobPhase::kRunning;
      continue;
    }
    if (job.wanted && job.wanted->target == target) continue;
    const int speed = one.speed;
    changes.push_back({id, job.seen.restarts, target, speed, now});
    const std::string change = fmt::format("from {} to {}", has ? words_of(*has) : "GPUs of its own", words_of(target));
    job.why = fmt::format("{}: {}", change, cause);
    const bool is_clocked = keeper_ && !target.nodes.empty();
    note_decision({now, id, change, cause, job.seen.gpu_count(), target.gpus(),
                   is_clocked ? std::optional(options_.spec.clocks[at(speed)]) : std::nullopt});
    decided_.push_back(fmt::format("job {}: {}", id, job.why));
  }
  if (changes.empty()) return;
  store_.want(changes);
  for (const Transition& one : changes) {
    Job& job = jobs_.at(one.job);
    job.wanted = one;
    job.started = false;
    job.no_room = now;
    job.unattended = Seconds(0.0);
    if (!job.leaving && !job.seen.gpus.empty()) job.leaving = now;
    job.taking.reset();
    scheduler_->state().jobs[at(job.index)].in_transition = true;
  }
  for (const std::string& line : decided_) log_(line);
}

// ---- what follows

int Controller::used_on(const std::string& node) const {
  const auto used = used_on_.find(node);
  return used == used_on_.end() ? 0 : used->second;
}

bool Controller::has_room(const GpuShape& target) const {
  return std::ranges::all_of(target.nodes, [&](const std::string& node) {
    return used_on(node) + target.gpus_per_node <= options_.spec.gpus_per_node;
  });
}

// A job that is to stop altogether has no speed.
Watts Controller::power_on(const Job& job, int gpus) const {
  const ClusterJob& one = scheduler_->state().jobs[at(job.index)];
  return one.has_gpus() ? power_on(job, gpus, one.speed) : options_.spec.limit * static_cast<double>(gpus);
}

Watts Controller::power_on(const Job& job, int gpus, int speed) const {
  const ClusterState& state = scheduler_->state();
  const ClusterJob& one = state.jobs[at(job.index)];
  const int size = state.kind_of(job.index).size_index(gpus);
  if (size < 0) return options_.spec.limit * static_cast<double>(gpus);
  return state.counted(one.kind, at(size), at(speed));
}

// A job of a kind of which no watts are known yet counts with a reserve. It must not wait for that alone: where nothing
// else runs, nothing would ever be metered.
bool Controller::may_be_metered(const Job& job) const {
  if (job.index < 0 || drawn_.value() > 0.0) return false;
  const ClusterState& state = scheduler_->state();
  const ClusterJob& one = state.jobs[at(job.index)];
  return one.has_gpus() && state.unmetered[at(one.kind)] &&
         state.believed_cost(job.index, one.gpus, one.speed).power() <= state.spendable_power();
}

// A job that has been released counts as if it ran: it may start at any moment.
Watts Controller::drawn_by(const Job& job) const {
  int gpus = job.seen.gpu_count();
  if (gpus == 0 && job.wanted && job.seen.state == EngineJobState::kPending && !job.seen.held) {
    gpus = job.wanted->target.gpus();
  }
  return job.index < 0 || gpus == 0 ? Watts(0.0) : power_on(job, gpus);
}

bool Controller::try_to(const char* what, const EngineJob& seen, const std::function<void()>& act) {
  return try_to(fmt::format("{} job {}", what, seen.id), act);
}

bool Controller::try_to(const std::string& what, const std::function<void()>& act) {
  struct Open {
    explicit Open(std::mutex& working) : mutex(working) { mutex.unlock(); }
    ~Open() { mutex.lock(); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    std::mutex& mutex;
  };
  try {
    const Open open(work_);
    act();
    return true;
  } catch (const SystemError& error) {
    log_(fmt::format("cannot {}: {}", what, error.what()));
    return false;
  }
}

// Kept before the job is held, and after it is released: a hold of ours is never taken for another's.
void Controller::set_held(Job& job, bool held) {
  if (std::exchange(job.record.held, held) != held) store_.keep(std::vector{job.record});
}

void Controller::hold(Job& job) {
  set_held(job, true);
  try_to("hold", job.seen, [&] { engine_.hold(job.seen); });
}

bool Controller::release(Job& job) {
  const bool done = try_to("start", job.seen, [&] { engine_.start(job.seen); });
  if (done) {
    job.record.released = job.seen.restarts;
    set_held(job, false);
  }
  return done;
}

void Controller::act(Seconds now) {
  if (!keeper_) {
    drawn_ = Watts(0.0);
    for (const auto& [id, job] : jobs_) drawn_ += drawn_by(job);
  }
  const Nanoseconds begin = monotonic_now();
  const Seconds passed = now - std::max(begun_, std::exchange(acted_at_, now));
  auto next = jobs_.upper_bound(acted_);
  bool is_over = false;
  for (std::size_t turns = 0; turns < jobs_.size(); ++turns, ++next) {
    if (next == jobs_.end()) next = jobs_.begin();
    Job& job = next->second;
    is_over |= turns > 0 && to_seconds(monotonic_now() - begin) > options_.act_within;
    if (is_over) {
      job.unattended += passed;
      continue;
    }
    acted_ = next->first;
    if (job.is_odd) continue;
    if (job.wanted) {
      step(job, now);
    } else if (job.seen.state == EngineJobState::kPending) {
      const bool ours = obstacle(job).empty();
      if (ours && !job.seen.held) hold(job);
      if (!ours && job.seen.held && job.record.held) release(job);
    }
  }
}

void Controller::step(Job& job, Seconds now) {
  const auto stop_asking = [&] {
    const std::lock_guard lock(mutex_);
    stops_.erase(job.seen.id);
  };
  if (job.seen.state == EngineJobState::kPending && job.seen.held && !job.record.held) {
    // Slurm holds a job by itself that it finds no node for; that comes of what we asked.
    if (job.seen.reason != "BadConstraints") {
      stop_asking();
      store_.settled(job.seen.id);
      job.wanted.reset();
      return leave_alone(job, obstacle(job));
    }
    set_held(job, true);
  }
  TransitionFacts facts;
  // Also when the reports came before this process was started, or before the job was last started.
  facts.asks = job.has_reported() || job.record.told == job.seen.restarts;
  check_shrink(job, now);
  facts.keeps = goes_on_with_target(job);
  facts.told = job.record.told == job.seen.restarts && !facts.keeps;
  facts.shrinks = shrinks_to_target(job);
  // The policy counts a job with the GPUs that it is to have; one that has yet to stop draws for those that it has.
  // Where it waits for clocks to be set, it needs what they now let it draw; one that was released is among what draws.
  const ClockedPower* const clocked = clocked_power(job);
  const bool pending = job.seen.state == EngineJobState::kPending;
  const bool is_counted = pending && (!job.seen.held || (clocked != nullptr && job.started));
  const Watts needed = job.index < 0 || is_counted ? Watts(0.0)
                       : clocked                   ? clocked->counted
                                                   : power_on(job, job.wanted->target.gpus());
  const bool has_watts = drawn_ + needed <= scheduler_->state().spendable_power() || may_be_metered(job);
  const bool is_sure = !failed_at_ || now - *failed_at_ >= options_.forgotten_for;
  const bool awake = is_awake(job.wanted->target);
  facts.room = awake && has_room(job.wanted->target) && has_watts && (clocked == nullptr || clocked->ready) &&
               job.not_before <= now && is_sure;
  facts.now = now;
  facts.stop_within = options_.stop_within;
  facts.asked = job.asked.value_or(now);
  // A job that runs goes on until the nodes are there.
  const bool goes_on = !awake && job.seen.state == EngineJobState::kRunning && !facts.told;
  if (goes_on || (!facts.room && pending)) {
    job.no_room = now;
    job.unattended = Seconds(0.0);
  }
  if (goes_on) {
    if (job.leaving) job.leaving = now;  // it is not asked to stop before
    return;
  }
  // What another controller had decided is not measured.
  const bool is_ours = job.wanted->since >= begun_;
  if (is_ours && awake && !job.started && !has_room(job.wanted->target)) job.taking = job.wanted->since;
  if (pending && job.seen.held) waits(job, now, facts.room);
  switch (next_step(*job.wanted, job.seen, facts)) {
    case TransitionStep::kWait: break;
    case TransitionStep::kAskToStop: {
      if (!facts.told) {
        // Kept before it is told, so that its end is not taken for the end of its work.
        job.record.told = job.seen.restarts;
        store_.keep(std::vector{job.record});
      }
      if (!job.asked) job.asked = now;
      const std::lock_guard lock(mutex_);
      stops_[job.seen.id] = {};
      break;
    }
    case TransitionStep::kAskToKeep: ask_to_keep(job, now); break;
    case TransitionStep::kTakeNodes: take_nodes(job, now); break;
    case TransitionStep::kRequeue:
      if (job.seen.state == EngineJobState::kRunning) pauses(job, now);
      stop_asking();
      set_held(job, true);
      try_to("requeue", job.seen, [&] { engine_.requeue_held(job.seen); });
      break;
    case TransitionStep::kHold: hold(job); break;
    case TransitionStep::kResize:
      try_to("resize", job.seen, [&] { engine_.resize(job.seen, job.wanted->target); });
      break;
    case TransitionStep::kStart:
      if (job.started && job.seen.reason == "BadConstraints") return failed(job, now, "no node can run it so");
      stop_asking();  // what it was told before it stopped is not for the job that starts
      if (job.taking) note_change(job, ChangePart::kChangeover, now - *std::exchange(job.taking, std::nullopt));
      // Before the engine is asked, since clocks may be raised meanwhile.
      job.started = true;
      drawn_ += needed;
      release(job);
      break;
    case TransitionStep::kSettled: return settled(job);
    case TransitionStep::kMisplaced: return failed(job, now, "it has started elsewhere");
  }
  // While there was no controller, or the job had no turn, nothing could go on.
  const Seconds begun = std::max({job.wanted->since, job.no_room, begun_}) + job.unattended;
  if (now - begun > options_.stop_within + options_.settle_within) {
    failed(job, now, fmt::format("it took more than {} s", (options_.stop_within + options_.settle_within).value()));
  }
}

void Controller::settled(Job& job) {
  has_shrunk(job);
  store_.settled(job.seen.id);
  job.wanted.reset();
  job.leaving.reset();  // it may be to stay after all
  job.taking.reset();
  if (job.index < 0) return;
  ClusterJob& one = scheduler_->state().jobs[at(job.index)];
  one.in_transition = false;
  if (!one.has_gpus()) return;
  job.settled_at = scheduler_->state().now;
  if (!job.why.empty() && job.seen.changeable) try_to("explain", job.seen, [&] { engine_.explain(job.seen, job.why); });
  settle(job.index);
  one.phase = JobPhase::kRunning;
  one.done = job.record.iteration;
  one.power = power_on(job, one.gpus);
}

// The job is left where it is, and out of the scheduler's sight, until the time to try again has come.
void Controller::failed(Job& job, Seconds now, const std::string& why) {
  const std::int64_t id = job.seen.id;
  ++job.record.failures;
  store_.keep(std::vector{job.record});
  store_.settled(id);
  const double times = static_cast<double>(1u << static_cast<unsigned>(std::clamp(job.record.failures - 1, 0, 10)));
  job.not_before = now + options_.back_off * times;
  const std::string then = is_rigid(job) ? "it is left alone from now on"
                                         : fmt::format("it is left alone for {:.0f} s", (job.not_before - now).value());
  {
    const std::lock_guard lock(mutex_);
    stops_.erase(id);
  }
  job.wanted.reset();
  job.settled_at.reset();
  leave_alone(job, fmt::format("a change came to nothing ({}), {}", why, then));
  log_(fmt::format("job {}: {}", id, job.why));
}

// ---- from and to other threads

ElasticAnswer Controller::report(std::int64_t job, std::optional<std::int64_t> user, const ElasticReport& told) {
  const std::lock_guard lock(mutex_);
  if (!has_looked_) throw ReportRefusal(503, "the controller has not seen the cluster yet; report again");
  const auto owner = users_.find(job);
  if (owner == users_.end()) throw ReportRefusal(404, fmt::format("there is no elastic job {}", job));
  if (user && *user != 0 && *user != owner->second) {
    throw ReportRefusal(403, fmt::format("job {} is another user's", job));
  }
  const auto stop = stops_.find(job);
  // One that has gone on with the nodes that it keeps says so by their number of GPUs.
  const bool is_to = stop != stops_.end() && (stop->second.keeps.empty() || stop->second.gpus != told.gpus);
  // A job that goes on may report again before the next cycle.
  TakenReport& taken = told_[job];
  taken = {told, is_to || taken.stop};
  return is_to ? ElasticAnswer{true, stop->second.keeps} : ElasticAnswer();
}

void Controller::order_budget(const BudgetOrder& order) {
  {
    const std::lock_guard lock(mutex_);
    new_orders_.push_back(order);
  }
  if (on_order_) on_order_();
}

ClusterRunStatus Controller::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

ClusterJobStatus Controller::status_of(const Job& job) const {
  ClusterJobStatus shown;
  shown.job = job.seen.id;
  shown.user = job.seen.user_name;
  shown.kind = job.option.kind;
  for (const NodeGpus& one : job.seen.gpus) {
    shown.nodes.push_back(one.node);
    shown.places.push_back({one.node, one.indices});
  }
  shown.gpus = job.seen.gpu_count();
  shown.to_gpus = job.wanted ? job.wanted->target.gpus() : shown.gpus;
  shown.iteration = job.record.iteration;
  shown.iterations = job.iterations();
  shown.step = job.step;
  shown.why = job.why;
  const bool runs = job.seen.state == EngineJobState::kRunning;
  shown.state = shrinks_to_target(job) ? "shrinking"
                : job.wanted           ? (runs || job.wanted->target.nodes.empty() ? "stopping" : "starting")
                : job.index < 0        ? "left alone"
                : runs                 ? "running"
                                       : "waiting";
  if (job.index < 0) return shown;
  const ClusterJob& one = scheduler_->state().jobs[at(job.index)];
  if (one.has_gpus()) shown.power = shrinks_to_target(job) ? drawn_by(job) : power_on(job, one.gpus);
  show_power(job, shown);
  return shown;
}

void Controller::publish(Seconds now) {
  ClusterRunStatus next;
  next.policy = options_.policy;
  next.mode = name_of(options_.mode);
  next.partition = options_.partition.value_or("");
  const Budget budget = budget_at(now);
  next.budget = budget.power;
  std::optional<Seconds> change = budget.since;
  while (order_ && (change = order_->next_change(*change))) {
    if (ordered_at(*change) == budget.power) continue;
    next.until = change;
    next.next = ordered_at(*change);
    break;
  }
  next.others = others_power_;
  next.limit = scheduler_->state().power_limit;
  next.decisions = scheduler_->decisions();
  std::set<std::string> kinds;
  for (const auto& [id, job] : jobs_) kinds.insert(job.option.kind);
  for (const auto& [key, time] : change_times_) kinds.insert(key.first);
  for (const std::string& kind : kinds) {
    ClusterKindStatus& shown = next.kinds.emplace_back();
    shown.kind = kind;
    shown.restart = options_.spec.restart;
    const auto show = [&](ChangePart part, Seconds& mean, int& measured) {
      const ChangeTime time = change_time(kind, part);
      if (time.measured > 0) mean = Seconds(time.mean_s);
      measured = time.measured;
    };
    show(ChangePart::kRestart, shown.restart, shown.measured);
    show(ChangePart::kStop, shown.stop, shown.stops);
    show(ChangePart::kChangeover, shown.changeover, shown.changeovers);
    show(ChangePart::kShrink, shown.shrink, shown.shrinks);
  }
  std::map<std::int64_t, std::int64_t> users;
  for (const auto& [id, job] : jobs_) {
    users[id] = job.seen.user;
    next.jobs.push_back(status_of(job));
    next.power += next.jobs.back().power;
  }
  for (const auto& [id, job] : pipelines_) {
    users[id] = job.seen.user;
    next.jobs.push_back(status_of(job));
  }
  if (keeper_) next.power = keeper_->counted();
  for (const EngineNode& node : view_.nodes) {
    if (node.gpus == 0) continue;
    const auto index = node_index_.find(node.name);
    const bool ours = index != node_index_.end() && !scheduler_->placement().is_away(index->second);
    next.nodes.push_back({node.name, node.state, node.gpus, used_on(node.name), ours});
    show_agent(next.nodes.back());
    show_wake(node, next.nodes.back());
  }
  next.last_decisions.assign(decisions_.begin(), decisions_.end());
  const std::lock_guard lock(mutex_);
  next.cycle = status_.cycle;
  status_ = std::move(next);
  users_ = std::move(users);
  has_looked_ = true;
  std::erase_if(stops_, [&](const auto& one) { return users_.count(one.first) == 0; });
}

}  // namespace flyball
