// Decides when a job is planned and from which measurements, and gives its ranks their schedules. Planning starts when
// all ranks have finished measuring, or the job's patience is over; new measurements cancel it. A deployment is first
// stored with its version and published afterwards.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/contain.h"
#include "base/record.h"
#include "net/http.h"
#include "server/job_book_entry.h"

namespace flyball {
namespace {

constexpr Seconds kStoreRetry{1.0};
// The share of a job's planning time that the search for few clock changes (switching_fronts()) takes for a run, about.
constexpr double kShareToPrepare = 1.0;

constexpr std::size_t kMostNamed = 8;

constexpr Seconds kLeastLead{1.0};
constexpr Seconds kLongestBudgetWait{3600.0};  // the wall clock may be set meanwhile

// Writes "stage 2", "stages 2, 3", or "stages 0, 1, 2, 3, 4, 5, 6, 7 and 4 more".
std::string stages_text(const std::vector<int>& stages) {
  const std::size_t shown = std::min(stages.size(), kMostNamed);
  std::string text = fmt::format("{} {}", stages.size() == 1 ? "stage" : "stages",
                                 fmt::join(stages.begin(), stages.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (stages.size() > shown) text += fmt::format(" and {} more", stages.size() - shown);
  return text;
}

// Throws HttpError 409 for a job of Zeus's clients, which know nothing of `what`.
void need_sessions(const Job& job, std::string_view what) {
  if (job.stored().kind != JobKind::kZeus) return;
  throw HttpError(
      409, fmt::format("job {} is one of Zeus's clients; {} are for jobs of Flyball's sessions", job.id(), what));
}

// The text of what a planner threw. An exception that is no Error is a fault of the planner, and is noted.
std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& why) {
    return why.what();
  } catch (const std::exception& why) {
    note_contained("a planner", error);
    return why.what();
  } catch (...) {
    note_contained("a planner", error);
    return "an exception of an unknown kind";
  }
}

}  // namespace

void JobBook::plan_if_ready(const EntryPointer& entry) {
  Job& job = entry->job;
  if (entry->gone || entry->task || !job.any_profiled()) return;
  if (job.all_profiled()) {
    entry->patience.reset();
    entry->patience_over = false;
    return start_planning(entry);
  }
  // A plan of all stages stays in force while some of them measure again, however long that takes.
  const bool may_fix = !job.plan() || entry->has_fixed_stages;
  if (entry->patience_over && (job.every_stage_profiled() || may_fix)) return start_planning(entry);
  if (entry->patience || entry->patience_over) return;
  entry->patience = loop_.after(job.request().patience, [this, weak = std::weak_ptr(entry)] {
    const EntryPointer alive = weak.lock();
    if (!alive) return;
    alive->patience.reset();
    alive->patience_over = true;
    if (alive->gone) return;
    if (!alive->job.every_stage_profiled()) {
      tell_trouble(*alive,
                   fmt::format("none of the ranks of {} has finished measuring in {} s, the job's patience",
                               stages_text(alive->job.unprofiled_stages()), alive->job.request().patience.value()));
    }
    plan_if_ready(alive);
  });
}

void JobBook::watch_measuring(const EntryPointer& entry, Seconds wait) {
  entry->stall = loop_.after(wait, [this, weak = std::weak_ptr(entry)] {
    const EntryPointer alive = weak.lock();
    if (!alive) return;
    alive->stall.reset();
    if (alive->gone || alive->job.any_profiled() || alive->job.plan()) return;
    const Seconds patience = alive->job.request().patience;
    const Seconds silent(std::chrono::duration<double>(Entry::Clock::now() - alive->last_report).count());
    if (silent < patience) return watch_measuring(alive, patience - silent);
    tell_trouble(*alive, fmt::format("no rank has finished measuring, and none has reported anything for {} s, the "
                                     "job's patience",
                                     patience.value()));
  });
}

void JobBook::tell_trouble(Entry& entry, const std::string& words) {
  ++counts_.stages_missed;
  entry.job.set_left_out(words);
  announce_trouble(entry, words);
}

// To the administrator and to those who watch the job.
void JobBook::announce_trouble(Entry& entry, const std::string& words) {
  tell(fmt::format("job {}: {}", entry.job.id(), words));
  emit(entry, "trouble", to_json(JobTrouble{entry.job.id(), words}));
  emit_state(entry);
}

void JobBook::start_planning(const EntryPointer& entry, std::optional<AdjustedPlan> adjusted, bool as_known) {
  Job& job = entry->job;
  if (!entry->restoring && !as_known) {
    // Nobody waits for this write; if it fails, a restarted server takes the sweeps up.
    if (auto taken = job.take_up_sweeps(); !taken.empty()) {
      store_.submit(StoredSweeps{job.stored().job, std::move(taken)}, [](const std::exception_ptr&) {});
      // Ranks that measure anew may be those of a new training, with another engine.
      if (job.stored().order_seen != OrderSeen::kAsTold) set_order_seen(*entry, OrderSeen::kAsTold);
    }
  }
  job.set_failure({});
  if (!as_known) job.set_left_out({});
  entry->measured_since = entry->profiled_since = false;
  std::vector<RankMeasurements> ranks = job.measured_ranks(!entry->restoring && !as_known);
  std::vector<FixedStage> fixed = job.fixed_stages(ranks);
  entry->has_fixed_stages = !fixed.empty();
  if (!job.all_profiled() && !as_known) {
    std::string left_out =
        fmt::format("planned without the ranks that have not finished measuring, the first of them {}",
                    fmt::join(job.missing_ranks(kMostNamed), ", "));
    if (!fixed.empty()) {
      std::vector<int> stages;
      for (const FixedStage& one : fixed) stages.push_back(one.stage);
      left_out += fmt::format("; at the highest clock until one of its ranks has finished: {}", stages_text(stages));
    }
    job.set_left_out(std::move(left_out));
  }
  job.set_planning(true);
  job.set_progress(0.0);
  emit_state(*entry);
  const std::weak_ptr<Entry> weak = entry;
  PlanningQueue::Order order{job.id(), job.planned_request(), std::move(ranks), {},
                             {},       std::move(adjusted),   std::move(fixed)};
  if (job.stored().kind == JobKind::kZeus) order.asked = ClocksAsked::kAtBegin;
  order.seen = job.stored().order_seen;
  if (entry->lead <= Seconds(0)) entry->lead = kLeastLead + 2.0 * expected_planning_time(order.request, true);
  order.limits = entry->task_limits = limits_between(job.limits(), now_seconds(), entry->lead);
  order.previous = job.plan();
  order.own_operations = limits_.total_operations;
  for (const auto& [id, other] : entries_) {
    if (other != entry && other->job.plan()) order.own_operations -= other->job.plan()->own_operations();
  }
  entry->task_began = Entry::Clock::now();
  order.progress = [this, weak](double share) {
    const EntryPointer alive = weak.lock();
    if (!alive) return;
    alive->job.set_progress(share);
    emit(*alive, "progress", to_json(PlanningProgress{alive->job.id(), share}));
  };
  order.done = [this, weak](std::shared_ptr<const JobPlan> plan, const std::exception_ptr& error) {
    if (const EntryPointer alive = weak.lock()) planned(alive, std::move(plan), error);
  };
  entry->task = planning_->submit(std::move(order));
  if (!job.limits().budget.empty()) arm_budget(entry);
}

void JobBook::follow_limits(const EntryPointer& entry) {
  Job& job = entry->job;
  if (entry->gone) return;
  const JobPowerLimits wanted = limits_between(job.limits(), now_seconds(), entry->lead);
  if (entry->task && !same_limits(entry->task_limits, wanted)) {
    stop_planning(*entry);
    start_planning(entry, std::nullopt, job.plan() && !job.all_profiled());
  } else if (!entry->task && job.plan() && !same_limits(job.plan()->limits(), wanted)) {
    start_planning(entry, std::nullopt, !job.all_profiled());
  }
  arm_budget(entry);
}

void JobBook::set_limits(const std::string& id, JobLimits limits, const Answer<JobLimits>& answer) {
  const EntryPointer entry = find(id);
  need_sessions(entry->job, "limits");
  check_planner_keeps(limits, planner_of(entry->job.request()));
  StoredLimits stored{entry->job.stored().job, std::move(limits)};
  store(stored, answer.reply, [this, entry, answer, limits = stored.limits] {
    entry->job.set_limits(limits);
    answer.send(limits);
    follow_limits(entry);
    emit_state(*entry);
  });
}

void JobBook::set_clocks_order(const std::string& id, const ClocksOrder& order, const Answer<ClocksOrder>& answer) {
  const EntryPointer entry = find(id);
  need_sessions(entry->job, "orders of clocks");
  store(StoredClocksOrder{entry->job.stored().job, order}, answer.reply, [this, entry, answer, order] {
    entry->job.set_clocks_order(order);
    answer.send(order);
    deploy(entry, false);
    emit_state(*entry);
  });
}

void JobBook::arm_budget(const EntryPointer& entry) {
  entry->budget.reset();
  const double now = now_seconds();
  const auto next = next_change(entry->job.limits(), now, entry->lead);
  if (!next) return;
  entry->budget = loop_.after(std::min(Seconds(*next - now), kLongestBudgetWait), [this, weak = std::weak_ptr(entry)] {
    if (const EntryPointer alive = weak.lock()) follow_limits(alive);
  });
}

void JobBook::stop_planning(Entry& entry) {
  if (!entry.task) return;
  entry.task->cancel();
  entry.task.reset();
  entry.job.set_planning(false);
}

void JobBook::planned(const EntryPointer& entry, std::shared_ptr<const JobPlan> plan, const std::exception_ptr& error) {
  entry->task.reset();
  entry->job.set_planning(false);
  const bool restored = std::exchange(entry->restoring, false);
  // Whether another plan has to follow, of what was measured while this one was made.
  const bool again = (restored && entry->measured_since) || std::exchange(entry->profiled_since, false);
  if (entry->gone) return;
  if (error) {
    entry->job.set_failure(text_of(error));
    emit_state(*entry);
    changed(*entry);
  } else {
    const std::vector<std::string> warnings = plan->warnings();
    entry->job.set_warnings(fmt::format("{}", fmt::join(warnings, "; ")));
    if (!plan->keeps_limits()) {
      announce_trouble(*entry, warnings.back());
    } else if (plan->status() == PlanStatus::kIncomplete) {
      tell(fmt::format("job {}: {}", entry->job.id(), warnings.back()));
    }
    entry->job.set_plan(std::move(plan));
    entry->job.trust_new_plan();
    deploy(entry, true);
  }
  const Seconds took(std::chrono::duration<double>(Entry::Clock::now() - entry->task_began).count());
  entry->lead = std::max(entry->lead, kLeastLead + 2.0 * took);
  if (again) plan_if_ready(entry);
  // What could not be planned is not tried again and again.
  error ? arm_budget(entry) : follow_limits(entry);
}

void JobBook::deploy(const EntryPointer& entry, bool new_frontier) {
  Job& job = entry->job;
  if (!job.plan() || entry->gone) return;
  entry->frontier_due = entry->frontier_due || new_frontier;
  if (auto runs = job.unprepared_runs(); !runs.empty()) {
    // Of all the notices that come meanwhile, only the runs of the last will be needed.
    entry->prepare_again = entry->preparing;
    if (std::exchange(entry->preparing, true)) return;
    return planning_->run(
        kShareToPrepare * expected_planning_time(job.request()),
        [plan = job.plan(), runs = std::move(runs)] {
          for (const auto& [own, of_own] : runs) {
            for (const JobPlan::Run& run : of_own) own->prepare(run);
          }
        },
        [this, weak = std::weak_ptr(entry)](const std::exception_ptr& error) {
          const EntryPointer alive = weak.lock();
          if (!alive) return;
          alive->preparing = false;
          if (error) {
            alive->job.set_failure(text_of(error));  // its ranks continue with their schedules
            emit_state(*alive);
          }
          if (!error || std::exchange(alive->prepare_again, false)) deploy(alive, false);
        });
  }
  Deployment next = job.deployment();
  if (next.fingerprint == job.stored().fingerprint) {
    // The texts equal those of the newest version, which is published again after a restart. Otherwise at most the plan
    // behind them is new.
    if (entry->versions_in_flight > 0) return;
    entry->frontier_due = false;
    next.version = job.stored().version;
    next.frontier_version = job.stored().frontier_version;
    return publish(*entry, std::move(next));
  }
  Store::Entry write = numbered(entry, std::move(next), [] { return true; });
  store_.submit(std::move(write.write), std::move(write.done));
}

void JobBook::run_beside(Seconds expected, std::function<void()> work, std::function<void(std::exception_ptr)> done) {
  planning_->run(expected, std::move(work), std::move(done));
}

Store::Entry JobBook::numbered(const EntryPointer& entry, Deployment next, std::function<bool()> wanted) {
  const bool new_frontier = std::exchange(entry->frontier_due, false);
  entry->job.assign_version(next, new_frontier);
  ++entry->versions_in_flight;
  StoredVersion stored{entry->job.stored().job, next.version, next.frontier_version, next.fingerprint};
  if (new_frontier) stored.adjusted = next.plan->adjusted();
  const auto shared = std::make_shared<Deployment>(std::move(next));
  return {stored, [this, entry, shared, new_frontier, wanted = std::move(wanted)](const std::exception_ptr& error) {
            --entry->versions_in_flight;
            if (entry->gone) return;
            if (!error && wanted()) return publish(*entry, std::move(*shared));
            // A version that a restart would forget must not be seen by anybody.
            entry->job.forget_fingerprint();
            entry->retry = loop_.after(kStoreRetry, [this, new_frontier, weak = std::weak_ptr(entry)] {
              if (const EntryPointer alive = weak.lock()) deploy(alive, new_frontier);
            });
          }};
}

// Nobody waits for this write; if it fails, a restarted server is told again.
void JobBook::set_order_seen(Entry& entry, OrderSeen seen) {
  entry.job.set_order_seen(seen);
  store_.submit(StoredOrderSeen{entry.job.stored().job, seen}, [](const std::exception_ptr&) {});
}

void JobBook::take_order(const std::string& id, const OrderReport& report) {
  const EntryPointer entry = heard(id, report.rank);
  Job& job = entry->job;
  const RankRequest& rank = job.registered_rank(report.rank).request;
  const auto& current = job.current();
  // Ranks report again from time to time, so that what is passed over here is not lost.
  if (!current || current->version != report.version || entry->versions_in_flight > 0 || entry->task) return;
  const std::int64_t planned = current->plan->of_pipeline(rank.dp_rank).order();
  const OrderSeen seen = order_seen_in(job.request(), rank.pp_rank, planned, report.instructions);
  if (seen <= job.stored().order_seen) return;
  set_order_seen(*entry, seen);
  announce_trouble(*entry, fmt::format("{} (rank {}, stage {})", order_trouble(job.planned_request(), seen),
                                       report.rank, rank.pp_rank));
  if (planned != 0 || current->plan->wants_steps()) start_planning(entry);
}

void JobBook::take_promise(const std::string& id, const PromiseReport& report) {
  const EntryPointer entry = heard(id, report.rank);
  Job& job = entry->job;
  (void)job.registered_rank(report.rank);
  // Nobody waits for this write: the rank's next report tells the same and more.
  if (const auto saved = job.set_savings(report.rank, report.session, report.savings)) {
    store_.submit(*saved, [](const std::exception_ptr&) {});
  }
  const auto& current = job.current();
  // Reports of what no longer runs tell nothing; ranks report again from time to time.
  if (!current || current->version != report.version || entry->versions_in_flight > 0 || entry->task) return;
  const bool was_fine = job.promise().trouble().empty();
  const bool changes = job.take_promise(report);
  if (report.slower) job.explain_promise();
  const std::string trouble = job.promise().trouble();
  if (was_fine && !trouble.empty()) announce_trouble(*entry, trouble);
  if (changes) deploy(entry, false);
}

StepTaken JobBook::take_step(const std::string& id, const StepReport& report) {
  const EntryPointer entry = heard(id, report.rank);
  if (report.version == 0) return entry->handovers.add(entry->job, report);
  // While a newer version is on its way to the disk, this step is out of date.
  if (entry->versions_in_flight > 0) return {};
  Job& job = entry->job;
  auto step = entry->executed.add(job, report);
  if (!step) return {};
  std::shared_ptr<const JobPlan> next;
  if (job.current()->plan->wants_steps() && job.current()->plan == job.plan()) {
    next = job.plan()->reconfigured(step->stages);
  }
  entry->iteration.keep(*job.current(), std::move(*step), Seconds(now_seconds()));
  if (!next) return {};
  job.set_plan(std::move(next));
  deploy(entry, true);
  return {};
}

std::shared_ptr<const std::string> JobBook::last_iteration(const std::string& id) const {
  const EntryPointer entry = find(id);
  return entry->iteration.text(entry->job);
}

}  // namespace flyball
