// A change goes to the store together with two functions: one makes the change in memory and replies, the other undoes
// what was noted. The store's thread posts the first to the loop once the write is on the disk, or the second where it
// fails. Numbers that are on their way to the disk are remembered, so that a repeated request is recognised before it
// is written.
#include "server/job_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/random_digits.h"
#include "base/record.h"
#include "net/http.h"
#include "server/job_book_entry.h"
#include "server/token.h"

namespace flyball {
namespace {

constexpr Seconds kShortestExpirySweep{0.02};
constexpr Seconds kLongestExpirySweep{10.0};
constexpr Seconds kPollSweep{0.1};  // a timer for each of thousands of polls would cost too much

// The part in which two registrations of one job must agree.
std::string agreed_part(JobRequest request) {
  request.token.clear();
  request.planner = planner_of(request);
  return to_json(request).dump();
}

// Checks what may be wrong with a job although its rows are not damaged: anything for which its request would have been
// refused. Throws HttpError and UsageError.
void check_loaded(const LoadedJob& loaded) {
  (void)pipeline_of(loaded.job.request);
  Job job(loaded.job, true);
  for (const LoadedRank& rank : loaded.ranks) {
    job.check_rank(rank.rank.rank);
    job.add_rank(rank.rank.rank);
    for (const MeasurementSums* sums : {&rank.sums, &rank.collected}) {
      for (const MeasurementSum& sum : *sums) {
        if (is_known_instruction(loaded.job.request, sum.instruction)) continue;
        throw UsageError(fmt::format("rank {} has measured '{}', which is no instruction of the job",
                                     rank.rank.rank.rank, sum.instruction));
      }
    }
  }
}

std::string left_out_text(const std::string& id) {
  return fmt::format(
      "job {} is in the server's database, but could not be read when the server started; its "
      "administrator finds the reason in the server's output",
      id);
}

}  // namespace

JobBook::JobBook(EventLoop& loop, const std::string& database, Limits limits, Log log)
    : loop_(loop),
      limits_(limits),
      post_([&loop](std::function<void()> action) { loop.post(std::move(action)); }),
      store_(database, post_),
      planning_(
          std::make_unique<PlanningQueue>(post_, PlanningQueue::Limits{limits.planning_threads, limits.planning_time})),
      log_(std::move(log)) {
  for (LoadedJob& loaded : store_.load()) {
    last_number_ = std::max(last_number_, loaded.job.job);
    const std::string id = loaded.job.request.id;
    try {
      if (loaded.trouble.empty()) check_loaded(loaded);
      if (loaded.trouble.empty() && entries_.count(id) != 0) throw UsageError("an earlier row has the same id");
    } catch (const Error& error) {  // the other jobs must run
      loaded.trouble = fmt::format("{}: table jobs, job {} ({}): {}", database, loaded.job.job, id, error.what());
    }
    if (loaded.trouble.empty()) {
      restore(std::move(loaded));
    } else {
      troubles_.push_back("left out: " + loaded.trouble);
      if (entries_.count(id) == 0) left_out_.insert(id);
    }
  }
  begin_ = Entry::Clock::now();
  sweep_ = loop_.every(kPollSweep, [this] { end_overdue_polls(); });
  if (limits_.lost_after > Seconds(0)) {
    losses_ = loop_.every(std::clamp(limits_.lost_after / 20.0, kPollSweep, kLongestExpirySweep),
                          [this] { find_lost_jobs(); });
  }
  if (!(limits_.silence > Seconds(0))) return;
  const Seconds period = std::min(limits_.silence, limits_.return_grace) / 50.0;
  expiry_ =
      loop_.every(std::clamp(period, kShortestExpirySweep, kLongestExpirySweep), [this] { expire_silent_jobs(); });
}

JobBook::~JobBook() { planning_.reset(); }

// --- Jobs --------------------------------------------------------------------------------------------------------

JobBook::EntryPointer JobBook::find(const std::string& id) const {
  const auto found = entries_.find(id);
  // A job that is still on its way to the disk does not count, since it may never get there.
  const bool there = found != entries_.end() && !found->second->gone && found->second->job.durable();
  if (!there && left_out_.count(id) != 0) throw HttpError(404, left_out_text(id));
  if (!there) {
    throw HttpError(404, fmt::format("there is no job {}; it may have been deleted, or have expired in silence", id));
  }
  return found->second;
}

Job& JobBook::job(const std::string& id) { return find(id)->job; }

const Job* JobBook::find_job(const std::string& id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() || found->second->gone || !found->second->job.durable() ? nullptr
                                                                                         : &found->second->job;
}

std::vector<const Job*> JobBook::jobs() const {
  std::vector<const Job*> all;
  for (const auto& [id, entry] : entries_) {
    if (!entry->gone && entry->job.durable()) all.push_back(&entry->job);
  }
  return all;
}

Store::Done JobBook::acknowledged(const Reply& reply, std::function<void()> then, std::function<void()> undo) {
  return [reply, then = std::move(then), undo = std::move(undo)](const std::exception_ptr& error) {
    if (!error) return then();
    if (undo) undo();
    reply.fail(error);
  };
}

void JobBook::store(StoreWrite write, const Reply& reply, std::function<void()> then, std::function<void()> undo) {
  store_.submit(std::move(write), acknowledged(reply, std::move(then), std::move(undo)));
}

void JobBook::restore(LoadedJob loaded) {
  const std::string id = loaded.job.request.id;
  const auto entry = std::make_shared<Entry>(std::move(loaded.job), true);
  entries_[id] = entry;
  for (LoadedRank& rank : loaded.ranks) entry->job.restore(std::move(rank));
  for (const StoredSavings& savings : loaded.savings) entry->job.restore(savings);
  const double now = now_seconds();
  for (const StoredNotice& notice : loaded.notices) {
    if (notice.due <= now) {
      entry->job.put_in_force(notice.straggler, notice.sequence, notice.degree);
    } else {
      entry->job.announce(notice.straggler, notice.sequence, notice.degree, notice.due);
    }
  }
  arm_notices(entry);
  // A silence that began before this server started counts only after ranks have had some time to come back.
  const Seconds grace = std::min(limits_.silence, limits_.return_grace);
  const Seconds before(std::clamp(now - entry->job.stored().heard, 0.0, (limits_.silence - grace).value()));
  if (entry->job.stored().heard > 0.0) entry->heard -= duration_of(before);
  entry->heard_stored = entry->heard;
  // If the job had been planned, its ranks run that plan and need no patience. Ranks that were measuring again count
  // with what they had measured before.
  entry->patience_over = entry->restoring = entry->job.stored().frontier_version > 0;
  if (entry->restoring) {
    start_planning(entry, std::move(loaded.adjusted));
    // Sweeps that were finished meanwhile are planned next.
    entry->measured_since = entry->job.has_new_sweeps();
    return;
  }
  plan_if_ready(entry);
  if (entry->job.is_measuring()) watch_measuring(entry, entry->job.request().patience);
}

void JobBook::create_job(Registration registration, const Answer<JobRegistered>& answer) {
  JobRequest& request = registration.request;
  (void)pipeline_of(request);
  if (operations_of(request) > limits_.operations) {
    throw UsageError(
        fmt::format("an iteration of {} stages, {} microbatches and {} chunks may have {} operations; this "
                    "server takes jobs of up to {} (--most-operations)",
                    request.stages, request.microbatches, request.chunks, operations_of(request), limits_.operations));
  }
  if (request.id.empty()) request.id = "job-" + random_digits(16);
  // A second row of that id would hide the first for good.
  if (left_out_.count(request.id) != 0) throw HttpError(409, left_out_text(request.id));
  const auto found = entries_.find(request.id);
  if (found != entries_.end()) {
    const EntryPointer entry = found->second;
    if (entry->gone) {
      throw HttpError(503, fmt::format("job {} is being deleted; ask again in a moment", request.id), {},
                      {{"Retry-After", "1"}});
    }
    if (entry->job.stored().kind != registration.kind || agreed_part(entry->job.request()) != agreed_part(request)) {
      throw HttpError(409, fmt::format("there is another job {}; choose another id", request.id));
    }
    const bool proven = registration.administrator || same_hash(hash_token(request.token), entry->job.stored().token) ||
                        same_hash(hash_token(registration.shown_token), entry->job.stored().token);
    if (!proven) {
      throw HttpError(401, fmt::format("job {} is there already; show its token to register it again", request.id), {},
                      {{"WWW-Authenticate", "Bearer"}});
    }
    entry->heard = Entry::Clock::now();
    return store(StoreBarrier{entry->job.stored().job}, answer.reply, [answer, entry, token = request.token] {
      if (entry->gone) return answer.reply.fail(HttpError(409, "the job is being deleted; try again"));
      answer.send({entry->job.id(), token, false});
    });
  }
  make_room(registration.party, operations_of(request));
  const std::string token = request.token.empty() ? random_token() : request.token;
  StoredJob stored;
  stored.job = ++last_number_;
  stored.kind = registration.kind;
  stored.given_plan = registration.given_plan;
  stored.request = std::move(request);
  stored.request.token.clear();
  stored.token = hash_token(token);
  stored.heard = now_seconds();
  stored.party = std::move(registration.party);
  const auto entry = std::make_shared<Entry>(stored, false);
  entries_[entry->job.id()] = entry;
  store(
      stored, answer.reply,
      [this, entry, token, answer] {
        entry->job.set_durable();
        ++counts_.jobs_created;
        answer.send({entry->job.id(), token, true});
      },
      [this, entry] {
        entry->gone = true;
        entries_.erase(entry->job.id());
      });
}

void JobBook::set_given_plan(const std::string& id, std::uint64_t identity) {
  Job& job = find(id)->job;
  job.set_given_plan(identity);
  store_.submit(StoredGivenPlan{job.stored().job, identity}, [](const std::exception_ptr&) {});
}

void JobBook::delete_job(const std::string& id, const Answer<std::string>& answer) {
  const EntryPointer entry = find(id);
  entry->gone = true;
  store(
      DeletedJob{entry->job.stored().job}, answer.reply,
      [this, entry, id, answer] {
        forget(entry, "has been deleted");
        answer.send(id);
      },
      [entry] { entry->gone = false; });
}

// --- Ranks and measurements --------------------------------------------------------------------------------------

void JobBook::register_rank(const std::string& id, const RankRequest& request, const Answer<RankRegistered>& answer) {
  const EntryPointer entry = heard(id, request.rank);
  entry->job.check_rank(request);
  const JobRank* known = entry->job.find_rank(request.rank);
  const auto reply_of = [](const JobRank& rank, bool created) {
    return RankRegistered{rank.request.rank, created, rank.last_sequence, rank.profiled};
  };
  if (known != nullptr && known->request == request) {
    return store(StoreBarrier{entry->job.stored().job}, answer.reply, [entry, answer, request, reply_of] {
      const JobRank* rank = entry->job.find_rank(request.rank);
      if (rank == nullptr) return answer.reply.fail(HttpError(503, "the first registration failed; send it again"));
      answer.send(reply_of(*rank, false));
    });
  }
  const StoredRank stored{entry->job.stored().job, request, -1, false};
  if (known != nullptr) {  // it has other clocks now, or knows more of itself
    return store(stored, answer.reply, [this, entry, answer, request, reply_of] {
      JobRank* rank = entry->job.find_rank(request.rank);
      if (rank == nullptr) return answer.reply.fail(HttpError(503, "the first registration failed; send it again"));
      rank->durable = true;
      renew_rank(entry, *rank, request);
      answer.send(reply_of(*rank, false));
    });
  }
  entry->job.add_rank(request);
  store(
      stored, answer.reply,
      [this, entry, answer, request, reply_of] {
        JobRank& rank = *entry->job.find_rank(request.rank);
        rank.durable = true;
        ++counts_.ranks_registered;
        answer.send(reply_of(rank, true));
        tell_of_unprofiled(*entry, rank, {});
        emit_state(*entry);
        changed(*entry);
        plan_if_ready(entry);
      },
      [entry, request] { entry->job.remove_rank(request.rank); });
}

void JobBook::take_report(const std::string& id, MeasurementReport report, const Answer<MeasurementsTaken>& answer) {
  const EntryPointer entry = heard(id, report.rank);
  JobRank* rank = entry->job.find_rank(report.rank);
  if (rank == nullptr || !rank->durable) {
    throw HttpError(409, fmt::format("rank {} of job {} has not registered; register it first", report.rank, id));
  }
  const std::int64_t sequence = report.sequence;
  if (sequence <= rank->enqueued_sequence) {
    return store(StoreBarrier{entry->job.stored().job}, answer.reply,
                 [this, entry, answer, sequence, number = report.rank] {
                   const JobRank* again = entry->job.find_rank(number);
                   if (again == nullptr || again->last_sequence < sequence) {
                     return answer.reply.fail(HttpError(503, "the first report failed; send it again"));
                   }
                   ++counts_.duplicate_reports;
                   answer.send({again->last_sequence, true});
                 });
  }
  // Only one report may be on its way: if an earlier one failed, a later one would hide that.
  if (rank->enqueued_sequence > rank->last_sequence) {
    throw HttpError(409, fmt::format("report {} of rank {} is under way; send one at a time", rank->enqueued_sequence,
                                     report.rank));
  }
  entry->job.check_report(*rank, report);
  rank->enqueued_sequence = sequence;
  const auto shared = std::make_shared<MeasurementReport>(std::move(report));
  store(
      StoredReport{entry->job.stored().job, *shared}, answer.reply,
      [this, entry, answer, shared] {
        JobRank* taker = entry->job.find_rank(shared->rank);
        if (taker == nullptr) return answer.reply.fail(HttpError(503, "the rank's registration failed; send it again"));
        const bool had_finished = taker->profiled;
        // A rank that measures itself anew is no longer compared with what it had measured.
        if (had_finished || shared->begins_sweep) {
          entry->handovers.begin_anew();
          entry->job.drifted().forget(shared->rank);
          if (entry->job.found().forget(shared->rank)) deploy(entry, false);
        }
        entry->job.count_report(*taker, *shared);
        entry->last_report = Entry::Clock::now();
        ++counts_.reports;
        counts_.measurements += shared->measurements.size();
        // A plan that is being made with this rank is out of date, but better than none if there is no other.
        entry->measured_since = true;
        if (!entry->restoring && had_finished) {
          stop_planning(*entry);
          follow_limits(entry);
        }
        if (!entry->job.plan() && !entry->task) {
          // Other ranks may have finished, and wait no longer than the job's patience.
          if (!entry->patience_over) plan_if_ready(entry);
          if (!entry->stall && entry->job.is_measuring()) watch_measuring(entry, entry->job.request().patience);
        }
        answer.send({taker->last_sequence, false});
        emit_state(*entry);
        changed(*entry);
      },
      [entry, shared] {
        JobRank* taker = entry->job.find_rank(shared->rank);
        if (taker != nullptr && taker->enqueued_sequence == shared->sequence) {
          taker->enqueued_sequence = taker->last_sequence;
        }
      });
}

void JobBook::mark_profiled(const std::string& id, const std::vector<int>& ranks, const Answer<std::string>& answer) {
  const EntryPointer entry = heard(id);
  for (const int number : ranks) {
    entry->job.set_ended(number, false);
    const JobRank* rank = entry->job.find_rank(number);
    if (rank == nullptr || !rank->durable) {
      throw HttpError(409, fmt::format("rank {} of job {} has not registered", number, id));
    }
    if (rank->enqueued_sequence < 0) throw HttpError(409, fmt::format("rank {} has reported no measurement", number));
  }
  store(StoredProfiled{entry->job.stored().job, ranks}, answer.reply, [this, entry, answer, ranks, id] {
    for (const int number : ranks) {
      JobRank* rank = entry->job.find_rank(number);
      if (rank == nullptr || rank->profiled) continue;
      entry->job.set_profiled(*rank, true);
      entry->profiled_since = true;
    }
    answer.send(id);
    emit_state(*entry);
    plan_if_ready(entry);
  });
}

// --- Stragglers --------------------------------------------------------------------------------------------------

void JobBook::set_straggler(const std::string& id, const StragglerNotice& notice,
                            const Answer<StragglerTaken>& answer) {
  const EntryPointer entry = heard(id);
  JobStraggler& straggler = entry->job.straggler(notice.straggler);
  // Earlier versions accepted the largest number of all.
  if (!notice.sequence && straggler.newest_seen >= INT64_MAX - 1) {
    throw HttpError(409, "no number is left above the last notice's; use another name for this straggler");
  }
  const std::int64_t sequence = notice.sequence ? *notice.sequence : straggler.newest_seen + 1;
  ++counts_.notices;
  if (sequence <= straggler.newest_seen) {
    ++counts_.stale_notices;
    return store(StoreBarrier{entry->job.stored().job, true}, answer.reply, [answer, sequence] {
      answer.send({sequence, true});
    });
  }
  StoredNotice stored{entry->job.stored().job, notice.straggler, sequence, notice.degree,
                      now_seconds() + notice.delay.value()};
  if (notice.lasts) stored.until = stored.due + notice.lasts->value();
  const std::int64_t newest = sequence + (notice.lasts ? 1 : 0);
  const std::int64_t seen_before = std::exchange(straggler.newest_seen, newest);
  // If nothing else is under way, the resulting schedule goes into the same transaction, so that ranks wait for one
  // flush of the disk instead of two.
  std::optional<Deployment> next;
  const bool alone = entry->notices_in_flight++ == 0 && entry->versions_in_flight == 0 && !entry->frontier_due;
  if (alone && notice.delay <= Seconds(0) && entry->job.plan()) {
    next = entry->job.deployment_with(notice.straggler, notice.degree);
    if (next && next->fingerprint == entry->job.stored().fingerprint) next.reset();
  }
  const auto in_force = std::make_shared<bool>(false);
  std::optional<Store::Entry> version;
  if (next) version = numbered(entry, std::move(*next), [in_force] { return *in_force; });
  const std::int64_t number = version ? entry->job.stored().version : -1;
  Store::Entry write{
      stored,
      acknowledged(
          answer.reply,
          [this, entry, answer, stored, in_force, number, lasts = notice.lasts] {
            --entry->notices_in_flight;
            answer.send({stored.sequence, false});
            if (stored.until) entry->job.announce(stored.straggler, stored.sequence + 1, 1.0, *stored.until);
            if (stored.due > now_seconds()) {
              entry->job.announce(stored.straggler, stored.sequence, stored.degree, stored.due);
            } else if (entry->job.put_in_force(stored.straggler, stored.sequence, stored.degree)) {
              *in_force = true;
              // Meanwhile another deployment may have been numbered without this notice.
              if (entry->job.stored().version != number) deploy(entry, false);
            }
            arm_notices(entry);
            emit(*entry, "straggler",
                 to_json(StragglerNotice{stored.straggler, stored.degree,
                                         Seconds(std::max(0.0, stored.due - now_seconds())), stored.sequence, lasts}));
          },
          [entry, id = notice.straggler, newest, seen_before] {
            --entry->notices_in_flight;
            entry->job.take_back(id, newest, seen_before);
          })};
  if (version) return store_.submit(std::move(write), std::move(*version));
  store_.submit(std::move(write.write), std::move(write.done));
}

void JobBook::arm_notices(const EntryPointer& entry) {
  entry->notices.reset();
  const auto due = entry->job.next_due();
  if (!due) return;
  entry->notices = loop_.after(Seconds(std::max(0.0, *due - now_seconds())), [this, weak = std::weak_ptr(entry)] {
    const EntryPointer alive = weak.lock();
    if (!alive || alive->gone) return;
    if (alive->job.put_due_in_force(now_seconds())) deploy(alive, false);
    arm_notices(alive);
  });
}

}  // namespace flyball
