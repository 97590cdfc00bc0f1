// What ranks say about themselves while they train: what fits into their memory, why they do not measure themselves,
// that they compute or transfer slower than before, that they have ended, or, by their silence, that they are lost.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/record.h"
#include "server/job_book_entry.h"

namespace flyball {
namespace {

constexpr Seconds kDriftTogether{1.0};

}  // namespace

// A plan may be in force, or on its way, for more microbatches in flight than the rank now says to fit, or for fewer.
void JobBook::renew_rank(const EntryPointer& entry, JobRank& rank, const RankRequest& request) {
  Job& job = entry->job;
  const std::string told = rank.request.unprofiled_cause;
  const std::vector<int> limit = job.measured_limit();
  job.renew_rank(rank, request);
  tell_of_unprofiled(*entry, rank, told);
  if ((!entry->task && !job.plan()) || job.measured_limit() == limit) return;
  tell(fmt::format("job {}: planned again, since the memory that its ranks have measured now holds {} microbatches",
                   job.id(), fmt::join(job.measured_limit(), ", ")));
  stop_planning(*entry);
  start_planning(entry, std::nullopt, job.plan() && !job.all_profiled());
}

// What a rank has told before is known, and one that has been profiled lacks nothing.
void JobBook::tell_of_unprofiled(Entry& entry, const JobRank& rank, const std::string& told) {
  const RankRequest& says = rank.request;
  if (says.unprofiled_cause == told || rank.profiled) return;
  if (!says.unprofiled_cause.empty()) {
    return announce_trouble(entry, text_of(UnprofiledRank{says.rank, says.dp_rank, says.pp_rank, says.unprofiled_since,
                                                          says.unprofiled_cause}));
  }
  tell(fmt::format("job {}: rank {} profiles itself now", entry.job.id(), says.rank));
  emit_state(entry);
}

// Other ranks and stages may have drifted at the same time, and are waited for.
void JobBook::arm_drift(const EntryPointer& entry) {
  if (entry->drift) return;
  entry->drift = loop_.after(kDriftTogether, [this, weak = std::weak_ptr(entry)] {
    const EntryPointer alive = weak.lock();
    if (!alive) return;
    alive->drift.reset();
    follow_drift(alive);
  });
}

void JobBook::follow_drift(const EntryPointer& entry) {
  Job& job = entry->job;
  if (entry->gone || !job.current() || job.plan()->wants_steps() || job.stored().kind == JobKind::kZeus) return;
  // What is on its way now is soon there.
  if (entry->task || entry->versions_in_flight > 0 || !job.all_profiled()) return arm_drift(entry);
  if (!job.order_remeasuring()) return;
  tell(
      fmt::format("job {}: operations have drifted from their profile; it is corrected, and measured again unless "
                  "that was done lately",
                  job.id()));
  deploy(entry, false);
}

void JobBook::take_pace(const std::string& id, const PaceReport& report) {
  const EntryPointer entry = heard(id, report.rank);
  Job& job = entry->job;
  const int stage = job.registered_rank(report.rank).request.pp_rank;
  if (job.drifted().take(report, stage)) arm_drift(entry);
  const bool was_known = job.found().all().count(report.rank) != 0;
  if (!job.found().take(report, now_seconds())) return;
  if (report.of != PaceOf::kComputing) return tell_of_link(*entry, report);
  FoundStraggler found{report.rank, 1.0, 1.0, false, report.since, now_seconds(), report.cause, report.detail};
  for (const FoundStraggler& one : job.found_stragglers()) {
    if (one.rank == report.rank) found = one;
  }
  if (!was_known) {
    ++counts_.stragglers_found;
    tell(fmt::format("job {}: rank {} computes {:.3g} times as long as when it was profiled ({})", id, report.rank,
                     report.slowdown, name_of(report.cause)));
  }
  job.excuse_plan();
  emit(*entry, "found_straggler", to_json(found));
  emit_state(*entry);
  deploy(entry, false);
}

// A slow link changes no plan: all pipelines wait for it as it is.
void JobBook::tell_of_link(Entry& entry, const PaceReport& report) {
  entry.job.explain_promise();
  const SlowLink link =
      entry.job.slow_link({report.rank, report.of}, {report.slowdown, report.since, now_seconds(), report.cause, {}});
  if (link.slowdown > 1.0) tell(fmt::format("job {}: {}", entry.job.id(), text_of(link)));
  emit(entry, "slow_link", to_json(link));
  emit_state(entry);
}

void JobBook::end_rank(const std::string& id, int rank) {
  const EntryPointer entry = find(id);
  entry->heard = Entry::Clock::now();
  (void)entry->job.registered_rank(rank);
  entry->job.set_ended(rank, true);
  if (entry->job.has_ended()) set_life(*entry, Job::Life::kEnded);
}

void JobBook::set_life(Entry& entry, Job::Life life) {
  if (entry.job.life() == life) return;
  entry.job.set_life(life);
  emit_state(entry);
}

// A rank that waits for a schedule is there. What an earlier server heard does not count: ranks have as long to come
// back as they may be silent.
void JobBook::find_lost_jobs() {
  const auto silent_since = Entry::Clock::now() - duration_of(limits_.lost_after);
  if (begin_ > silent_since) return;
  for (const auto& [id, entry] : entries_) {
    Job& job = entry->job;
    if (job.life() != Job::Life::kThere || job.ranks().empty() || entry->gone) continue;
    // Zeus's clients have nothing to say once they have their clocks.
    if (job.stored().kind == JobKind::kZeus) continue;
    const bool waited_for =
        std::any_of(entry->polls.begin(), entry->polls.end(), [](const auto& polls) { return !polls.second.empty(); });
    if (waited_for) entry->waited = Entry::Clock::now();
    if (std::max(entry->heard, entry->waited) > silent_since) continue;
    ++counts_.jobs_lost;
    tell(fmt::format("job {} is lost: none of its ranks has been heard for {:.0f} s", id, limits_.lost_after.value()));
    set_life(*entry, Job::Life::kLost);
  }
}

}  // namespace flyball
