// Compares what counts of a job with what was seen of it before.
#include "server/job_notes.h"

#include <fmt/format.h>

#include <utility>

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

}  // namespace

std::vector<JobNotes::Note> JobNotes::look(const Job& job) {
  const JobPromise& promise = job.promise().known();
  const std::shared_ptr<const Deployment>& current = job.current();
  Seen now{job.state(), current ? current->version : 0, promise.verdict, job.stored().ordered_maximum,
           job.found().all()};
  std::vector<Note> notes;
  if (!seen_) {
    if (now.state == JobState::kRegistering) notes.push_back({"state", std::string(name_of(now.state))});
    seen_ = std::move(now);
    return notes;
  }
  if (now.state != seen_->state) notes.push_back({"state", std::string(name_of(now.state))});
  if (now.version != seen_->version && current) notes.push_back({"schedule", text_of(*current)});
  if (now.ordered_maximum != seen_->ordered_maximum) {
    notes.push_back(
        {"schedule", now.ordered_maximum ? "ordered to maximum clocks" : "ordered back to the plan's clocks"});
  }
  for (const auto& [rank, found] : now.slow) {
    const auto before = seen_->slow.find(rank);
    const bool is_known = before != seen_->slow.end() && before->second.slowdown == found.slowdown;
    if (!is_known) notes.push_back({"straggler", text_of(rank, found)});
  }
  for (const auto& [rank, found] : seen_->slow) {
    if (!now.slow.contains(rank)) {
      notes.push_back({"straggler", fmt::format("rank {} computes as fast as usual again", rank)});
    }
  }
  if (now.promise != seen_->promise) {
    const std::string cause = promise.cause.empty() ? "" : ": " + promise.cause;
    notes.push_back({"promise", std::string(name_of(now.promise)) + cause});
  }
  seen_ = std::move(now);
  return notes;
}

}  // namespace flyball
