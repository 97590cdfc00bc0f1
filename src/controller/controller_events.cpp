// What the engine shows and what jobs report, as events of the scheduler.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "controller/controller.h"

namespace flyball {
namespace {

constexpr double kNominalBatch = 65'536.0;  // samples: at least one for each GPU, and the same for all kinds
constexpr int kReportsToLearn = 3;          // the first steps of a start are slow
constexpr int kChangesInMean = 20;          // so that what has changed since counts for little
constexpr Seconds kFirstReadings{2.0};      // how long the first cycle waits for the agents
constexpr double kSmallChange = 0.005;      // of the limit, that is no reason to decide again

bool has_ended(EngineJobState state) {
  return state == EngineJobState::kCompleted || state == EngineJobState::kFailed || state == EngineJobState::kCancelled;
}

const char* end_of(EngineJobState state) {
  if (state == EngineJobState::kCompleted) return "has finished";
  return state == EngineJobState::kFailed ? "has failed" : "was cancelled";
}

}  // namespace

// The nodes are those that have the most usual number of GPUs.
void Controller::begin() {
  std::map<int, int> count;
  for (const EngineNode& node : view_.nodes) {
    if (node.gpus > 0 && node.gpus <= 64 && std::has_single_bit(static_cast<unsigned>(node.gpus))) ++count[node.gpus];
  }
  if (count.empty()) {
    throw UsageError(fmt::format("{} has no node with 1, 2, 4, 8, ... GPUs",
                                 options_.partition ? "partition " + *options_.partition : "the cluster"));
  }
  // First, since an address may be wrong; then nothing has been begun.
  for (const EngineNode& node : view_.nodes) {
    if (options_.agents != nullptr && node.gpus > 0) options_.agents->add(node.name);
  }
  const int gpus = std::ranges::max_element(count, {}, [](const auto& one) { return one.second; })->first;
  for (const EngineNode& node : view_.nodes) {
    if (node.gpus == gpus) {
      node_index_[node.name] = static_cast<int>(node_names_.size());
      node_names_.push_back(node.name);
    } else if (node.gpus > 0) {
      log_(fmt::format("node {} is left alone: it has {} GPUs, others have {}", node.name, node.gpus, gpus));
    }
  }
  ClusterSpec& spec = options_.spec;
  spec.nodes = static_cast<int>(node_names_.size());
  spec.gpus_per_node = gpus;
  spec.node_shutdown = options_.nodes_off_after.has_value();
  spec.nodes_kept_on = options_.nodes_kept_on;
  scheduler_.emplace(spec, budget_at(begun_).power, options_.policy, PolicyOptions{.clock = options_.clock},
                     static_cast<SchedulerHost&>(*this));
  Scheduler::Knowledge knowledge;
  knowledge.models = true;
  scheduler_->begin(knowledge);
  set_wake();
  if (options_.agents != nullptr) options_.agents->wait_for_readings(kFirstReadings);
}

// Whether the job has ended because it was told to, with work left.
bool Controller::stopped_for_us(const Job& job) const {
  return job.seen.state == EngineJobState::kCompleted && job.record.told == job.seen.restarts &&
         job.record.iteration < job.iterations();
}

void Controller::read_jobs(Seconds now) {
  std::set<std::int64_t> there;
  std::map<std::int64_t, ElasticOption> pipelines;  // that run
  for (const EngineJob& seen : view_.jobs) {
    std::optional<ElasticOption> option;
    try {
      option = parse_elastic_option(seen.comment);
    } catch (const InputError& error) {
      if (refused_.insert(seen.id).second) log_(fmt::format("job {} is left alone: {}", seen.id, error.what()));
    }
    if (!option || is_elsewhere(seen)) continue;
    if (option->pipeline) {
      if (options_.plans != nullptr && !seen.gpus.empty()) pipelines[seen.id] = *option;
      continue;
    }
    there.insert(seen.id);
    auto known = jobs_.find(seen.id);
    if (known == jobs_.end()) {
      Job job;
      job.seen = seen;
      job.option = *option;
      const auto record = kept_.find(seen.id);
      const bool is_new = record == kept_.end();
      job.record = is_new ? JobRecord{seen.id} : record->second;
      // The engine shows jobs that have ended for a while.
      const bool goes_on = stopped_for_us(job) || has_failed_start(job);
      if (has_ended(seen.state) && kept_wanted_.count(seen.id) == 0 && !goes_on) continue;
      if (!is_new) kept_.erase(record);
      if (const auto shrink = kept_shrinks_.extract(seen.id)) job.shrink = shrink.mapped();
      const auto wanted = kept_wanted_.extract(seen.id);
      if (is_new && seen.held && seen.comment.find(kHeldForUs) != std::string::npos) {
        job.record.held = true;
        changed_.insert(seen.id);
      }
      if (wanted) job.wanted = wanted.mapped();
      known = jobs_.emplace(seen.id, std::move(job)).first;
      note_cause(fmt::format("job {} has come", seen.id));
    }
    Job& job = known->second;
    job.is_odd = false;
    if (job.seen.restarts != seen.restarts || has_ended(seen.state)) {
      job.reports = 0;
      job.learned = false;
      job.asked.reset();
      job.settled_at.reset();
    }
    job.seen = seen;
    if (job.leaving && job.seen.gpus.empty()) note_left(job, now);
    note_start(job, now);
    if (seen.state == EngineJobState::kPending) waits(job, now, job.wanted.has_value());
  }
  for (const OddEntry& odd : view_.odd) {
    const std::string what = odd.job > 0 ? fmt::format("job {}", odd.job) : "what the engine shows";
    const std::string words = fmt::format("{} cannot be read, and is left out: {}", what, odd.words);
    if (odd_.insert(words).second) log_(words);
    there.insert(odd.job);
    if (const auto known = jobs_.find(odd.job); known != jobs_.end()) known->second.is_odd = true;
  }
  was_away_ = false;
  follow_pipelines(pipelines);
  take_reports(now);
  std::vector<std::pair<std::int64_t, std::string>> ended;
  for (auto& [id, job] : jobs_) {
    if (there.count(id) == 0) ended.emplace_back(id, how_gone(job));
    if (there.count(id) == 0 || job.is_odd) continue;
    if (has_failed_start(job) && !job.record.held) {
      failed(job, now,
             job.seen.engine_failed ? "the cluster engine could not start it" : "it failed before its first report");
      if (!is_rigid(job)) set_held(job, true);  // by the engine or, if it has ended, soon by us
    }
    if (!has_ended(job.seen.state)) continue;
    if (!stopped_for_us(job) && !has_failed_start(job)) {
      ended.emplace_back(id, end_of(job.seen.state));
    } else if (!job.wanted && options_.mode == ControllerMode::kActs) {
      job.wanted = Transition{id, job.seen.restarts, {}, 0, now};
      job.started = false;
      store_.want({*job.wanted});
    }
  }
  for (const auto& [id, how] : ended) end(id, how);
  // What is left has ended, or is no longer elastic.
  for (const auto& [id, wanted] : std::exchange(kept_wanted_, {})) store_.settled(id);
  std::erase_if(kept_, [&](const auto& one) {
    const bool over = there.count(one.first) == 0 && let_go(one.second);
    if (over) {
      store_.forget(one.first);
      kept_shrinks_.erase(one.first);
    }
    return over;
  });
}

// Releases a job that is no longer elastic, where we hold it. Returns whether nothing is left to be done for it.
bool Controller::let_go(const JobRecord& record) {
  const auto seen = std::ranges::find(view_.jobs, record.job, &EngineJob::id);
  if (seen == view_.jobs.end() || !seen->held || !record.held) return true;
  return options_.mode == ControllerMode::kActs && try_to("release", *seen, [&] { engine_.start(*seen); });
}

void Controller::end(std::int64_t id, const std::string& how) {
  Job& job = jobs_.at(id);
  if (job.seen.state == EngineJobState::kFailed) {  // and is not asked about again
    job.record.reported = job.seen.restarts;
    store_.keep(std::vector{job.record});
  }
  if (job.index >= 0) {
    if (job.seen.state == EngineJobState::kCompleted) {
      scheduler_->finished(job.index);
    } else {
      scheduler_->cancelled(job.index);
    }
  }
  log_(fmt::format("job {} {}", id, how));
  note_cause(fmt::format("job {} {}", id, how));
  if (job.wanted) store_.settled(id);
  kept_[id] = job.record;
  kept_shrinks_[id] = job.shrink;
  jobs_.erase(id);
}

void Controller::take_reports(Seconds now) {
  std::map<std::int64_t, TakenReport> told;
  {
    const std::lock_guard lock(mutex_);
    told.swap(told_);
  }
  for (const auto& [id, taken] : told) {
    if (const auto job = jobs_.find(id); job != jobs_.end()) take_report(job->second, taken, now);
    if (const auto job = pipelines_.find(id); job != pipelines_.end()) take_report(job->second, taken.report);
  }
  take_order();
}

bool Controller::take_order() {
  std::vector<BudgetOrder> orders;
  {
    const std::lock_guard lock(mutex_);
    orders.swap(new_orders_);
  }
  if (orders.empty()) return false;
  PowerOrder all = order_.value_or(PowerOrder());
  for (const BudgetOrder& one : orders) {
    // Periods and an order for a while leave what counts afterwards as it was.
    if (!one.periods.empty()) {
      all.periods = one.periods;
    } else if (one.until) {
      all = {one.budget, one.until, all.until ? all.afterwards : all.budget, std::move(all.periods)};
    } else {
      all = {one.budget, std::nullopt, one.budget, {}};
    }
  }
  store_.keep(all);
  order_ = std::move(all);
  ahead_ = Seconds(0.0);
  return true;
}

void Controller::take_report(Job& job, const TakenReport& taken, Seconds now) {
  const ElasticReport& told = taken.report;
  job.record.iteration = told.iteration;
  if (told.iterations > 0.0) job.record.iterations = told.iterations;
  changed_.insert(job.seen.id);
  if (taken.stop) pauses(job, now);
  if (job.seen.state != EngineJobState::kRunning) return;
  if (told.gpus != job.seen.gpu_count()) return take_word(job, told, now);
  ++job.reports;
  job.record.reported = job.seen.restarts;
  if (job.settled_at) forgive(job);
  goes_on(job, told, now);
  goes_on_shrunk(job, told, now);
  if (told.step.value() > 0.0) job.step = told.step;
  if (job.index < 0 || job.wanted) return;
  ClusterJob& one = scheduler_->state().jobs[at(job.index)];
  settle(job.index);
  one.iterations = std::max(job.iterations(), told.iteration);
  one.done = told.iteration;
  one.iterations_per_second = told.step.value() > 0.0 ? 1.0 / told.step.value() : 0.0;
  if (job.reports >= kReportsToLearn && !job.learned && told.step.value() > 0.0) job.learned = learn(job);
}

// What a change costs is counted from the report that was answered "stop", or from when the job was put back, to the
// first report of the new start. Both are taken in a cycle, each up to a period late, which evens out in the mean.
void Controller::pauses(Job& job, Seconds now) {
  if (job.pause && !job.pause->has_stopped && !job.pause->goes_on) return;
  job.pause = Pause{now, job.record.iteration};
}

// While a job waits that may not start yet, for GPUs or for watts, that is no cost of the change.
void Controller::waits(Job& job, Seconds now, bool could_start) {
  if (!job.pause) return;
  if (!job.pause->has_stopped) {
    job.pause->stopping = now - job.pause->since;
    job.pause->has_stopped = true;
  } else if (could_start) {
    return;
  }
  job.pause->since = now;
}

// Iterations that were done meanwhile are no part of the cost; those that were lost, since the job began again at an
// older checkpoint, are.
void Controller::goes_on(Job& job, const ElasticReport& told, Seconds now) {
  if (!job.pause || !job.pause->has_stopped) return;
  count_lost(job, ChangePart::kRestart, told, job.pause->stopping + (now - job.pause->since));
}

void Controller::count_lost(Job& job, ChangePart part, const ElasticReport& told, Seconds all) {
  const Seconds cost = std::max(Seconds(0.0), all - told.step * (told.iteration - job.pause->iteration));
  job.pause.reset();
  const ChangeTime& kept = note_change(job, part, cost);
  for (ClusterJobKind& kind : scheduler_->state().kinds) set_costs(kind);
  log_(fmt::format("job {} lost {:.1f} s by {}; kind {} loses {:.1f} s in the mean", job.seen.id, cost.value(),
                   part == ChangePart::kShrink ? "giving nodes back" : "the change of its GPUs", kept.kind,
                   kept.mean_s));
}

// One that fails or is cancelled meanwhile leaves in another way than by its stop.
void Controller::note_left(Job& job, Seconds now) {
  const Seconds took = now - *std::exchange(job.leaving, std::nullopt);
  if (job.seen.state == EngineJobState::kFailed || job.seen.state == EngineJobState::kCancelled) return;
  note_change(job, ChangePart::kStop, took);
}

const ChangeTime& Controller::note_change(const Job& job, ChangePart part, Seconds took) {
  ChangeTime& kept = change_times_[{job.option.kind, part}];
  kept.kind = job.option.kind;
  kept.part = part;
  ++kept.measured;
  kept.mean_s += (took.value() - kept.mean_s) / std::min(kept.measured, kChangesInMean);
  store_.keep(kept);
  return kept;
}

ChangeTime Controller::change_time(const std::string& kind, ChangePart part) const {
  const auto found = change_times_.find({kind, part});
  return found == change_times_.end() ? ChangeTime() : found->second;
}

// Jobs of the same model may shrink or not.
void Controller::set_costs(ClusterJobKind& kind) const {
  const ChangeTime restart = change_time(kind.model, ChangePart::kRestart);
  const ChangeTime shrink = change_time(kind.model, ChangePart::kShrink);
  if (restart.measured > 0) kind.restart = Seconds(restart.mean_s);
  if (kind.shrinks && shrink.measured > 0) kind.shrink = Seconds(shrink.mean_s);
}

// Energy is the measured power's over the time that was measured, where agents tell it, and else the believed power's.
bool Controller::learn(Job& job) {
  const ClusterState& state = scheduler_->state();
  const ClusterJob& one = state.jobs[at(job.index)];
  const ClusterJobKind& kind = state.kind_of(job.index);
  const ClockedPower* const clocked = clocked_power(job);
  if (clocked != nullptr && clocked->speed != one.speed) return false;  // not at the clock that it is to have
  const bool metered = clocked != nullptr && clocked->settled;
  const Watts power = metered ? *clocked->measured : state.believed_cost(job.index, one.gpus, one.speed).power();
  const MeasuredCost cost{job.option.kind,
                          one.gpus,
                          scheduler_->placement().nodes_of(job.index),
                          kind.clocks[at(one.speed)].value(),
                          job.step.value(),
                          (power * job.step).value()};
  scheduler_->learn(job.index, {one.speed}, [&](const ProfiledSize&, int) {
    return IterationCost{job.step, power * job.step};
  });
  note_measured(one.kind);
  store_.keep(cost);
  scheduler_->limit_changed(state.power_limit);  // decide with what is known now
  note_cause(fmt::format("job {} was measured on {} GPUs", job.seen.id, one.gpus));
  return true;
}

int Controller::kind_of(const ElasticOption& option) {
  ElasticOption key = option;
  key.iterations = 0.0;
  const auto [entry, is_new] = kinds_.try_emplace(key.text(), static_cast<int>(scheduler_->state().kinds.size()));
  if (!is_new) return entry->second;
  const ClusterSpec& spec = scheduler_->state().spec;
  ClusterJobKind kind;
  kind.model = option.kind;
  kind.batch_size = kNominalBatch;
  for (int gpus = 1; gpus <= std::min(option.max, spec.gpus()); gpus *= 2) {
    if (gpus >= option.min) kind.sizes.push_back(gpus);
  }
  kind.clocks = spec.clocks;
  kind.speeds = spec.clocks.size();
  kind.memory_gib.resize(kind.sizes.size());
  if (kind.sizes.empty()) return entry->second = -1;  // no job of it can be scheduled
  kind.shrinks = option.shrinks;
  set_costs(kind);
  const int index = scheduler_->add_kind(kind, CostSheet(kind.sizes.size(), kind.speeds));
  for (const MeasuredCost& cost : store_.costs()) {
    const int size = kind.size_index(cost.gpus);
    const auto clock = std::ranges::find(kind.clocks, Megahertz(cost.clock_mhz));
    if (cost.kind != kind.model || size < 0 || clock == kind.clocks.end()) continue;
    scheduler_->learn({{index, size, cost.nodes}, {static_cast<int>(clock - kind.clocks.begin())}},
                      [&](const ProfiledSize&, int) {
                        return IterationCost{Seconds(cost.time_s), Joules(cost.energy_j)};
                      });
    note_measured(index);
  }
  return index;
}

// Policies weigh joules by what a busy GPU draws at the highest clock. That of the kinds that run here counts, once
// something of them was measured; until then, that of the GPU model.
void Controller::note_measured(int kind) {
  measured_.insert(kind);
  ClusterState& state = scheduler_->state();
  Watts sum;
  for (const int one : measured_) {
    const ClusterJobKind& of = state.kinds[at(one)];
    sum += state.believed[at(one)].at(0, of.speeds - 1).power() / static_cast<double>(of.sizes.front());
  }
  state.spec.p_max = sum / static_cast<double>(measured_.size());
}

int Controller::add_job(const Job& job) {
  ClusterJob one;
  one.kind = kind_of(job.option);
  one.requested_gpus = scheduler_->state().kinds[at(one.kind)].sizes.front();
  one.submit = one.since = scheduler_->state().now;
  one.iterations = job.iterations();
  one.done = job.record.iteration;
  return scheduler_->add_job(one);
}

std::optional<std::vector<int>> Controller::indices_of(const GpuShape& shape) const {
  std::vector<int> nodes;
  for (const std::string& name : shape.nodes) {
    const auto found = node_index_.find(name);
    if (found == node_index_.end()) return std::nullopt;
    nodes.push_back(found->second);
  }
  return nodes;
}

// Whether the scheduler could have placed the job as it lies.
bool Controller::is_eligible(const Job& job) const {
  if (is_rigid(job) || !job.seen.resizable || !unlike_partition(job.seen).empty()) return false;
  const std::optional<GpuShape> shape = shape_of(job.seen);
  if (!shape || shape->nodes.empty()) return false;
  const auto nodes = indices_of(*shape);
  const int gpus = shape->gpus_per_node;
  if (!nodes || !std::has_single_bit(static_cast<unsigned>(gpus)) ||
      !std::has_single_bit(static_cast<unsigned>(shape->nodes.size()))) {
    return false;
  }
  if (shape->gpus() < job.option.min || shape->gpus() > job.option.max) return false;
  if (shape->nodes.size() > 1 && gpus < options_.spec.gpus_per_node) return false;
  return !job.misfit ||
         std::ranges::all_of(*nodes, [&](int node) { return scheduler_->placement().used_on(node) == 0; });
}

// Why nothing can be decided for a job that waits; empty where it can.
std::string Controller::obstacle(const Job& job) {
  if (is_rigid(job)) return job.why.empty() ? "too many changes came to nothing" : job.why;
  if (kind_of(job.option) < 0)
    return "no number of GPUs from its min to its max is a power of two that the cluster has";
  if (!job.seen.resizable) {
    return "its GPUs were not asked for by --gpus-per-node, it is part of an array, or it cannot be put back into the "
           "queue";
  }
  if (std::string why = unlike_partition(job.seen); !why.empty()) return why;
  if (job.seen.depends) return "it waits for other jobs";
  return job.seen.held && !job.record.held ? "it is held by someone else" : "";
}

void Controller::leave_alone(Job& job, const std::string& why) {
  if (job.index >= 0) scheduler_->cancelled(job.index);
  job.pause.reset();
  job.leaving.reset();
  job.taking.reset();
  job.index = -1;
  job.why = why;
}

bool Controller::adopt(Job& job, const GpuShape& shape, int speed) {
  const auto nodes = indices_of(shape);
  if (!nodes) return false;
  const bool away = std::ranges::any_of(*nodes, [&](int node) { return scheduler_->placement().is_away(node); });
  const int index = away ? -1 : add_job(job);
  if (away || !scheduler_->adopted(index, *nodes, shape.gpus_per_node, speed)) return false;
  job.index = index;
  ClusterJob& one = scheduler_->state().jobs[at(index)];
  one.power = power_on(job, one.gpus);
  for (const int node : *nodes) scheduler_->set_powered(node, true);
  return true;
}

// Jobs that are on their way come first, as they will lie; then those that run, large ones first, since they need whole
// nodes; then those that wait.
void Controller::adopt(Seconds now) {
  std::vector<Job*> order;
  for (auto& [id, job] : jobs_) {
    if (job.index < 0 && !is_rigid(job) && job.not_before <= now) order.push_back(&job);
  }
  const auto weight = [](const Job* job) {
    if (job->wanted) return 1'000'000 + job->wanted->target.gpus();
    const std::optional<GpuShape> shape = shape_of(job->seen);
    return shape ? shape->gpus() : 0;
  };
  std::ranges::stable_sort(order, std::greater(), weight);
  const int top = static_cast<int>(options_.spec.clocks.size()) - 1;
  for (Job* job : order) {
    if (kind_of(job->option) < 0) {
      job->why = obstacle(*job);
      continue;
    }
    if (job->wanted && !job->wanted->target.nodes.empty()) {
      if (adopt(*job, job->wanted->target, std::min(job->wanted->speed, top))) {
        scheduler_->state().jobs[at(job->index)].in_transition = true;
        continue;
      }
      store_.settled(job->seen.id);  // undone: its nodes are gone
      job->wanted.reset();
    }
    const bool runs = job->seen.state == EngineJobState::kRunning;
    if (!job->wanted && runs) {
      const std::optional<GpuShape> shape = shape_of(job->seen);
      if (is_beside_others(*job) || !is_eligible(*job)) {
        if (job->why.empty()) job->why = unlike_partition(job->seen);
        if (job->why.empty()) job->why = "it lies where the scheduler would not put it, or beside other jobs";
        continue;
      }
      job->misfit = !adopt(*job, *shape, top);
      if (!job->misfit) job->why = "it was found running so";
    } else if (options_.mode != ControllerMode::kObserves && job->seen.state != EngineJobState::kChanging) {
      if (std::string why = job->wanted ? "" : obstacle(*job); !why.empty()) {
        job->why = std::move(why);
        continue;
      }
      job->index = add_job(*job);
      scheduler_->arrived(job->index);
      job->why = "it waits";
    }
  }
  for (auto& [id, job] : jobs_) undo_shrink(job, now);
  // A job that the scheduler knows and that is not where it belongs, by no transition: Slurm or a user has moved it.
  for (auto& [id, job] : jobs_) {
    if (job.index < 0 || job.wanted) continue;
    const bool has_gpus = scheduler_->state().jobs[at(job.index)].has_gpus();
    if (job.seen.state == EngineJobState::kPending && has_gpus) {
      scheduler_->preempted(job.index);
      note_cause(fmt::format("job {} was put back into the queue", id));
    } else if (job.seen.state == EngineJobState::kRunning && has_gpus && shape_of(job.seen) != target_of(job)) {
      leave_alone(job, "it runs where it was not put");
    }
    if (job.index < 0 || job.seen.state != EngineJobState::kPending) continue;
    if (const std::string why = obstacle(job); !why.empty()) leave_alone(job, why);
  }
}

Watts Controller::ordered_at(Seconds time) const {
  const Watts ordered = order_ ? order_->at(time) : Watts(0.0);
  return ordered.value() > 0.0 ? ordered : options_.budget;
}

Controller::Budget Controller::budget_at(Seconds now) const {
  Budget least{ordered_at(now), now};
  std::optional<Seconds> change = now;
  while (order_ && (change = order_->next_change(*change)) && *change <= ahead_) {
    if (ordered_at(*change) < least.power) least = {ordered_at(*change), *change};
  }
  return least;
}

// What counts already goes on to count: jobs that have stopped for it do not start again before it begins.
void Controller::look_ahead(Seconds now) {
  const Seconds by_clocks = now + options_.lower_before;
  ahead_ = std::max(ahead_, by_clocks);
  std::optional<Seconds> change = by_clocks;
  while (order_ && (change = order_->next_change(*change)) && *change <= by_clocks + options_.stop_within) {
    const bool clocks_do = keeper_ && keeper_->lowest() + others_power_ <= ordered_at(*change);
    if (!clocks_do) ahead_ = std::max(ahead_, *change);
  }
}

// GPUs without jobs draw what idle ones do.
void Controller::set_limit(Seconds now) {
  Watts drawn;
  for (const EngineJob& one : view_.jobs) {
    const auto job = jobs_.find(one.id);
    if (job != jobs_.end() && job->second.index >= 0) continue;
    if (!is_paced(one.id)) drawn += drawn_by_other(one);
  }
  others_power_ = drawn + options_.spec.idle * static_cast<double>(idle_gpus());
  look_ahead(now);
  const Watts limit = std::max(Watts(1.0), budget_at(now).power - others_power_);
  const Watts before = scheduler_->state().power_limit;
  if (std::abs(limit / before - 1.0) <= kSmallChange) return;
  note_cause(fmt::format("{:.0f} W are for elastic jobs", limit.value()));
  scheduler_->limit_changed(limit);
}

}  // namespace flyball
