// Deletes jobs that their owners have not deleted: jobs of whose ranks nothing has been heard for long, and jobs whose
// room others need. A timer looks through all jobs. The times at which they were heard are stored in coarse steps.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/record.h"
#include "base/wall_clock.h"
#include "net/http.h"
#include "server/job_book_entry.h"

namespace flyball {
namespace {

// How exactly the database knows when a job was heard, as a share of the silence after which it expires.
constexpr double kHeardStep = 1.0 / 48.0;

// The share of that silence that is enough if another job of the same party needs the room: an hour of a day.
constexpr double kShareWhenFull = 1.0 / 24.0;

// A party that holds no more than one in so many places keeps its jobs against all others, who may have many addresses.
constexpr std::int64_t kKeptShare = 16;

// Of so many places, one is few for a party, and four are kept for the parties that hold fewer. Otherwise, where
// nobody's silence can be judged, as after a restart, strangers with some addresses would shut newcomers out.
constexpr std::int64_t kPlacesPerFew = 64;
constexpr std::int64_t kKeptForFew = 4;

constexpr double kLinesPerSecond = 10.0;

Seconds since(std::chrono::steady_clock::time_point time) {
  return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - time).count());
}

}  // namespace

void JobBook::tell(const std::string& words) {
  if (!log_) return;
  // Strangers who cause messages must not fill the server's log, nor keep it busy with writing.
  if (!lines_.admit("", kLinesPerSecond, RateLimit::Clock::now())) {
    ++lines_left_out_;
    return;
  }
  const std::uint64_t before = std::exchange(lines_left_out_, 0);
  log_(before == 0 ? words : fmt::format("{} ({} lines before this one were left out)", words, before));
}

JobBook::EntryPointer JobBook::heard(const std::string& id, int rank) {
  EntryPointer entry = find(id);
  entry->heard = Entry::Clock::now();
  if (rank >= 0) entry->job.set_ended(rank, false);
  if (JobRank* known = entry->job.find_rank(rank)) known->heard = now_seconds();
  if (!entry->job.has_ended()) set_life(*entry, Job::Life::kThere);
  return entry;
}

void JobBook::hear(const std::string& id) { (void)heard(id); }

void JobBook::forget(const EntryPointer& entry, const std::string& why) {
  const std::string id = entry->job.id();
  stop_planning(*entry);
  entry->patience.reset();
  entry->stall.reset();
  entry->notices.reset();
  entry->retry.reset();
  entries_.erase(id);
  for (auto& [rank, polls] : entry->polls) {
    counts_.polls_waiting -= polls.size();
    for (auto& poll : polls) poll.reply.fail(HttpError(404, fmt::format("job {} {}", id, why)));
  }
  entry->polls.clear();
  emit(*entry, "deleted", to_json(JobDeleted{id, why}));
  for (const auto& stream : entry->streams) stream->close();
  if (listener_) listener_(id, nullptr);
}

void JobBook::expire(const EntryPointer& entry, std::uint64_t& counter, const std::string& why) {
  entry->gone = true;
  store_.submit(DeletedJob{entry->job.stored().job}, [this, entry, &counter, why](const std::exception_ptr& error) {
    if (error) {  // the job is as silent as before, and this is tried again later
      entry->gone = false;
      return;
    }
    ++counter;
    tell(fmt::format("job {} {}", entry->job.id(), why));
    forget(entry, why);
  });
}

void JobBook::expire_silent_jobs() {
  StoredHeard stored;
  for (const auto& [id, entry] : entries_) {
    if (entry->gone || !entry->job.durable()) continue;
    if (since(entry->heard) >= limits_.silence) {
      expire(entry, counts_.expired_silent,
             fmt::format("has expired: none of its ranks has been heard for {:.0f} s", since(entry->heard).value()));
    } else if (entry->heard - entry->heard_stored > duration_of(kHeardStep * limits_.silence)) {
      entry->heard_stored = entry->heard;
      stored.jobs.push_back({entry->job.stored().job, now_seconds() - since(entry->heard).value()});
    }
  }
  // Nobody waits for this write; if it is lost, a job seems to be silent for a little longer.
  if (!stored.jobs.empty()) store_.submit(std::move(stored), [](const std::exception_ptr&) {});
}

// What jobs are counted in: one each, or operations, which plans take memory for.
struct JobBook::Share {
  std::int64_t need = 0;   // of the job that is to register
  std::int64_t limit = 0;  // for all jobs
  std::int64_t (*of)(const Entry&) = nullptr;
  std::int64_t few = 0;   // what is few for a party
  std::int64_t kept = 0;  // of the limit, for those who hold fewer than that
  std::function<std::string(std::int64_t held)> full;
};

void JobBook::make_room(const std::string& party, std::int64_t operations) {
  const auto jobs = static_cast<std::int64_t>(limits_.jobs);
  Share places{1, jobs, [](const Entry&) { return std::int64_t{1}; }, jobs / kPlacesPerFew, 0, {}};
  places.kept = kKeptForFew * places.few;
  places.full = [&](std::int64_t held) {
    if (held >= jobs) return fmt::format("the server holds {} jobs, the most it may; delete one that has ended", jobs);
    return fmt::format(
        "the server holds {} jobs, and keeps its last {} places for those who hold fewer than {}; delete one that has "
        "ended",
        held, places.kept, places.few);
  };
  std::unordered_set<EntryPointer> going;
  make_room(party, places, going);
  Share memory{
      operations, limits_.total_operations, [](const Entry& e) { return operations_of(e.job.request()); }, 0, 0, {}};
  memory.full = [&](std::int64_t held) {
    return fmt::format(
        "an iteration of this job may have {} operations, those of all jobs have {}, and the server holds {} "
        "(--total-operations); delete a job that has ended",
        operations, held, limits_.total_operations);
  };
  make_room(party, memory, going);
  for (const EntryPointer& entry : going) {
    if (entry->job.ranks().empty()) {
      expire(entry, counts_.expired_unstarted,
             "has expired: the server was full, and no rank had registered in this job; register it again");
    } else {
      expire(entry, counts_.expired_silent,
             fmt::format("has expired: the server was full, and none of its ranks had been heard for {:.0f} s",
                         since(entry->heard).value()));
    }
  }
}

// Adds to `going` the jobs that have to go. Jobs are counted by who registered them, so that a party that fills the
// table makes room for the others, and nobody loses a job with ranks to a party that holds as many. The party that
// holds the most loses the job that has been silent longest: one without a rank before one that has ranks, whose
// silence must be long enough for its ranks to have gone. Counted in operations, it loses its largest job.
void JobBook::make_room(const std::string& party, const Share& share, std::unordered_set<EntryPointer>& going) const {
  const auto now = Entry::Clock::now();
  std::int64_t held = 0;
  std::unordered_map<std::string_view, std::int64_t> held_by;
  const auto goes = [&](const EntryPointer& entry) { return entry->gone || going.contains(entry); };
  const auto cannot_go = [&](const EntryPointer& entry) { return goes(entry) || !entry->job.durable(); };
  for (const auto& [id, entry] : entries_) {
    if (goes(entry)) continue;
    held += share.of(*entry);
    held_by[entry->job.stored().party] += share.of(*entry);
  }
  const std::int64_t& own = held_by[party];
  const std::int64_t places = own < share.few ? share.limit : share.limit - share.kept;
  if (held + share.need <= places) return;

  const Seconds own_silence = std::max(limits_.least_silence_when_full, kShareWhenFull * limits_.silence);
  // Whether a job with ranks may go.
  const auto is_left = [&](const Entry& entry) {
    if (!(limits_.silence > Seconds(0))) return false;
    if (entry.heard < begin_ && since(begin_) < limits_.return_grace) return false;
    const std::string& holder = entry.job.stored().party;
    if (holder == party) return since(entry.heard) >= own_silence;
    const std::int64_t count = held_by[holder];
    // A job whose party is not known was registered under an older server.
    return !holder.empty() && count > own + share.need && count * kKeptShare > share.limit &&
           since(entry.heard) >= limits_.least_silence_when_full;
  };
  const auto drop = [&](const EntryPointer& entry) {
    held -= share.of(*entry);
    held_by[entry->job.stored().party] -= share.of(*entry);
    going.insert(entry);
  };

  for (const auto& [id, entry] : entries_) {
    if (cannot_go(entry) || !entry->job.ranks().empty()) continue;
    if (since(entry->heard) >= limits_.unstarted) drop(entry);
  }
  // More than one job goes if the limit is lower than it was.
  const std::int64_t before = held;
  while (held + share.need > share.limit || (held + share.need > places && held == before)) {
    EntryPointer next;
    std::tuple<std::int64_t, std::int64_t, bool, Entry::Clock::duration> most;
    for (const auto& [id, entry] : entries_) {
      if (cannot_go(entry)) continue;
      const bool unstarted = entry->job.ranks().empty();
      const std::string& holder = entry->job.stored().party;
      const std::int64_t count = held_by[holder];
      if (unstarted ? holder != party && count <= own : !is_left(*entry)) continue;
      const std::tuple order(count, share.of(*entry), unstarted, now - entry->heard);
      if (next && order <= most) continue;
      next = entry;
      most = order;
    }
    if (!next) throw HttpError(429, share.full(held));
    drop(next);
  }
}

}  // namespace flyball
