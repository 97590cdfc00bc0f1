// Serves the clients that wait for a job: ranks that wait for their next schedule, and streams of events. Waiting
// requests are kept by rank, a few for each; one timer ends those that are overdue.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/record.h"
#include "net/http.h"
#include "server/job_book_entry.h"

namespace flyball {
namespace {

Response schedule_response(ScheduleText text) {
  Response response;
  response.body = std::move(text.head);
  response.tail = std::move(text.tail);
  return response;
}

HttpError unavailable() { return {503, "the server is stopping; ask again in a moment", {}, {{"Retry-After", "1"}}}; }

}  // namespace

void JobBook::publish(Entry& entry, Deployment deployment) {
  Job& job = entry.job;
  const bool is_new = !job.current() || deployment.version > job.current()->version;
  job.publish(std::make_shared<Deployment>(std::move(deployment)));
  if (!is_new) return emit_state(entry);
  ++counts_.deployments;
  for (auto& [rank, polls] : entry.polls) {
    for (auto poll = polls.begin(); poll != polls.end();) {
      auto text = look_up(job, poll->rank, poll->after_version);
      if (!text) {
        ++poll;
        continue;
      }
      poll->reply.send(schedule_response(std::move(*text)));
      poll = polls.erase(poll);
      --counts_.polls_waiting;
    }
  }
  const Deployment& current = *job.current();
  emit(entry, "schedule",
       to_json(SchedulesReplaced{job.id(), current.version, current.frontier_version,
                                 current.pipelines.front().waited_for}));
  emit_state(entry);
  changed(entry);
}

// --- Waiting -----------------------------------------------------------------------------------------------------

std::optional<ScheduleText> JobBook::look_up(const Job& job, const RankPlace& rank, std::int64_t after_version) {
  const auto begin = std::chrono::steady_clock::now();
  auto text = job.schedule_for(rank, after_version);
  if (!text) return text;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto bucket = std::lower_bound(kLookupBounds.begin(), kLookupBounds.end(), seconds) - kLookupBounds.begin();
  ++counts_.lookup_buckets[static_cast<std::size_t>(bucket)];
  counts_.lookup_seconds += seconds;
  ++counts_.schedules_sent;
  return text;
}

void JobBook::wait_for_schedule(const std::string& id, int rank, std::int64_t after_version, Seconds wait,
                                const Reply& reply) {
  const EntryPointer entry = heard(id, rank);
  const JobRank* known = entry->job.find_rank(rank);
  if (known == nullptr || !known->durable) {
    throw HttpError(404, fmt::format("rank {} of job {} has not registered", rank, id));
  }
  const RankPlace place(known->request);
  if (auto text = look_up(entry->job, place, after_version)) return reply.send(schedule_response(std::move(*text)));
  const Response nothing = empty_response();
  if (wait <= Seconds(0)) return reply.send(nothing);
  auto& polls = entry->polls[rank];
  if (polls.size() >= limits_.polls) {
    polls.front().reply.send(nothing);
    polls.pop_front();
    --counts_.polls_waiting;
  }
  const auto longest = std::chrono::duration<double>(std::min(wait, limits_.longest_wait).value());
  polls.push_back(
      {reply, place, after_version,
       std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(longest)});
  ++counts_.polls_waiting;
}

void JobBook::end_overdue_polls() {
  if (counts_.polls_waiting == 0) return;
  const auto now = std::chrono::steady_clock::now();
  const Response nothing = empty_response();
  for (auto& [id, entry] : entries_) {
    for (auto& [rank, polls] : entry->polls) {
      counts_.polls_waiting -= polls.remove_if([&](const Entry::Poll& poll) {
        if (poll.deadline > now && !poll.reply.abandoned()) return false;
        poll.reply.send(nothing);
        return true;
      });
    }
  }
}

void JobBook::release_waiting() {
  for (auto& [id, entry] : entries_) {
    for (auto& [rank, polls] : entry->polls) {
      for (auto& poll : polls) poll.reply.fail(unavailable());
    }
    entry->polls.clear();
  }
  counts_.polls_waiting = 0;
}

// --- Events ------------------------------------------------------------------------------------------------------

void JobBook::changed(Entry& entry) {
  if (listener_ && !entry.gone) listener_(entry.job.id(), &entry.job);
}

void JobBook::emit(Entry& entry, std::string_view name, const nlohmann::ordered_json& data) {
  if (entry.streams.empty()) return;
  const std::string text = dump_json(data);
  std::erase_if(entry.streams, [&](const auto& stream) { return !stream->send(name, text); });
}

void JobBook::emit_state(Entry& entry) {
  if (state_listener_ && !entry.gone) state_listener_(entry.job);
  if (entry.streams.empty() || std::exchange(entry.state_due, true)) return;
  // Everything else that the same commit has completed is reported in one event.
  loop_.post([this, weak = entry.weak_from_this()] {
    const EntryPointer alive = weak.lock();
    if (!alive) return;
    alive->state_due = false;
    emit(*alive, "state", to_json(alive->job.status(now_seconds())));
  });
}

void JobBook::check_subscribe(const std::string& id) {
  if (find(id)->streams.size() >= limits_.event_streams) {
    throw HttpError(
        429, fmt::format("{} event streams of job {} are open, the most there may be", limits_.event_streams, id));
  }
}

void JobBook::subscribe(const std::string& id, std::shared_ptr<EventStream> stream) {
  const EntryPointer entry = find(id);
  stream->on_close([weak = std::weak_ptr(entry), raw = stream.get()] {
    const EntryPointer alive = weak.lock();
    if (alive) std::erase_if(alive->streams, [raw](const auto& open) { return open.get() == raw; });
  });
  stream->send("state", dump_json(to_json(entry->job.status(now_seconds()))));
  entry->streams.push_back(std::move(stream));
}

}  // namespace flyball
