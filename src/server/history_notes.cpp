// Compares what counts of a job, or of a node, with what was seen of it before.
#include "server/history_notes.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace flyball {
namespace {

std::string text_of(int rank, const FoundStragglers::Found& found) {
  return fmt::format("rank {} computes {:.2f} times as long as when it was profiled: {}{}{}", rank, found.slowdown,
                     name_of(found.cause), found.detail.empty() ? "" : ", ", found.detail);
}

std::string text_of(const Deployment& deployment) {
  Seconds slowest;
  for (const Deployment::Pipeline& pipeline : deployment.pipelines) slowest = std::max(slowest, pipeline.waited_for);
  return fmt::format("schedules {}, of iterations that take {:.4g} s", deployment.version, slowest.value());
}

const char* words_of(GpuHealth health) {
  switch (health) {
    case GpuHealth::kWell: return "is well again";
    case GpuHealth::kUnwell: return "is unwell";
    case GpuHealth::kLost: return "is lost";
    case GpuHealth::kRestoring: return "is not yet restored";
  }
  return "";
}

std::string with_cause(const std::string& what, std::string_view cause) {
  constexpr std::size_t kLongestCause = 200;  // bytes; what an agent says of a GPU is kept for a month
  return cause.empty() ? what : fmt::format("{}: {}", what, cut_between_characters(cause, kLongestCause));
}

}  // namespace

std::vector<HistoryNote> JobNotes::look(const Job& job) {
  const JobPromise& promise = job.promise().known();
  const std::shared_ptr<const Deployment>& current = job.current();
  const Seen now{job.state(), current ? current->version : 0, promise.verdict, job.stored().ordered_maximum};
  std::vector<HistoryNote> notes;
  if (!seen_) {
    if (now.state == JobState::kRegistering) notes.push_back({"state", std::string(name_of(now.state))});
    seen_ = now;
    for (const auto& [rank, found] : job.found().all()) slow_.emplace(rank, found.slowdown);
    return notes;
  }
  if (now.state != seen_->state) notes.push_back({"state", std::string(name_of(now.state))});
  if (now.version != seen_->version && current) notes.push_back({"schedule", text_of(*current)});
  if (now.ordered_maximum != seen_->ordered_maximum) {
    notes.push_back(
        {"schedule", now.ordered_maximum ? "ordered to maximum clocks" : "ordered back to the plan's clocks"});
  }
  note_stragglers(job.found().all(), notes);
  if (now.promise != seen_->promise) {
    notes.push_back({"promise", with_cause(std::string(name_of(now.promise)), promise.cause)});
  }
  seen_ = now;
  return notes;
}

void JobNotes::note_stragglers(const std::map<int, FoundStragglers::Found>& now, std::vector<HistoryNote>& notes) {
  auto old = slow_.begin();
  const auto recovered = [&] {
    notes.push_back({"straggler", fmt::format("rank {} computes as fast as usual again", old->first)});
    old = slow_.erase(old);
  };
  for (const auto& [rank, found] : now) {
    while (old != slow_.end() && old->first < rank) recovered();
    if (old == slow_.end() || old->first != rank) old = slow_.emplace_hint(old, rank, 0.0);
    if (old->second != found.slowdown) notes.push_back({"straggler", text_of(rank, found)});
    old->second = found.slowdown;
    ++old;
  }
  while (old != slow_.end()) recovered();
}

std::vector<HistoryNote> NodeNotes::look(const WatchedNode& node) {
  std::vector<HistoryNote> notes;
  if (node.silent) {
    if (answers_) notes.push_back({"state", with_cause("silent", node.trouble)});
    answers_ = false;
    return notes;
  }
  if (!answers_) notes.push_back({"state", "answers"});
  answers_ = true;
  std::map<std::size_t, Health> now;
  for (const WatchedGpu& gpu : node.gpus) {
    const auto before = health_.find(gpu.index);
    const Health old = before == health_.end() ? Health() : before->second;
    // Every lease that ends is undone, most within milliseconds.
    const bool is_passing = gpu.health == GpuHealth::kRestoring && old.seen != GpuHealth::kRestoring;
    const Health& health = now[gpu.index] = {gpu.health, is_passing ? old.told : gpu.health};
    if (health.told == old.told) continue;
    notes.push_back({"gpu", with_cause(fmt::format("GPU {} {}", gpu.index, words_of(health.told)), gpu.trouble)});
  }
  for (const auto& [index, old] : health_) {
    if (!now.contains(index)) notes.push_back({"gpu", fmt::format("GPU {} is not there any more", index)});
  }
  health_ = std::move(now);
  return notes;
}

}  // namespace flyball
