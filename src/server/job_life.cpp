// What a job's ranks say about themselves while they train: who computes slower than it was profiled, what that makes
// of its pipeline, whose links are slow, and who has ended.
#include <algorithm>
#include <variant>

#include "server/job.h"

namespace flyball {
namespace {

constexpr double kLeastDegree = 1.005;  // of a pipeline that is found to be slow
constexpr std::size_t kMostKnown = 256;

}  // namespace

// Of the ranks of a stage the slowest counts.
std::map<int, Job::FoundPipeline> Job::found_pipelines() const {
  std::map<int, FoundPipeline> pipelines;
  for (const auto& [number, found] : found_.all()) {
    const auto rank = ranks_.find(number);
    if (rank == ranks_.end()) continue;
    FoundPipeline& pipeline = pipelines[rank->second.request.dp_rank];
    pipeline.slowdowns.resize(static_cast<std::size_t>(request().stages), 1.0);
    double& slowdown = pipeline.slowdowns[static_cast<std::size_t>(rank->second.request.pp_rank)];
    slowdown = std::max(slowdown, found.slowdown);
  }
  for (const auto& [id, straggler] : stragglers_) {
    const auto* number = std::get_if<int>(&id);
    const auto rank = number == nullptr ? ranks_.end() : ranks_.find(*number);
    if (rank == ranks_.end() || !(straggler.degree > 1.0)) continue;
    const auto pipeline = pipelines.find(rank->second.request.dp_rank);
    if (pipeline != pipelines.end()) pipeline->second.announced = true;
  }
  if (known_slowed_.size() > kMostKnown) known_slowed_.clear();
  for (auto& [number, pipeline] : pipelines) {
    if (!plan_) continue;
    const JobPlan& plan = plan_->of_pipeline(number);
    const auto [known, is_new] = known_slowed_.try_emplace({&plan, pipeline.slowdowns});
    if (is_new) known->second = plan.slowed(pipeline.slowdowns);
    pipeline.slowed = known->second;
    if (pipeline.slowed.degree < kLeastDegree) pipeline.slowed.degree = 1.0;
  }
  return pipelines;
}

std::vector<FoundStraggler> Job::found_stragglers() const {
  std::vector<FoundStraggler> all;
  const auto pipelines = found_pipelines();
  for (const auto& [number, found] : found_.all()) {
    const auto rank = ranks_.find(number);
    if (rank == ranks_.end()) continue;
    const FoundPipeline& pipeline = pipelines.at(rank->second.request.dp_rank);
    all.push_back({number, found.slowdown, pipeline.slowed.degree, !pipeline.announced, found.since, found.found_unix,
                   found.cause, found.detail});
  }
  return all;
}

SlowLink Job::slow_link(const FoundStragglers::Transfer& transfer, const FoundStragglers::Found& found) const {
  const auto& [number, kind] = transfer;
  const RankRequest& rank = ranks_.at(number).request;
  const int stages = request().stages;
  const int by = kind == PaceOf::kTransfer ? 1 : kind == PaceOf::kTransferBack ? stages - 1 : 0;
  return {number,         kind,        rank.dp_rank,    rank.pp_rank, (rank.pp_rank + by) % stages,
          found.slowdown, found.since, found.found_unix};
}

std::vector<SlowLink> Job::slow_links() const {
  std::vector<SlowLink> all;
  for (const auto& [transfer, found] : found_.transfers()) {
    if (ranks_.count(transfer.first) != 0) all.push_back(slow_link(transfer, found));
  }
  return all;
}

void Job::explain_promise() {
  const std::vector<SlowLink> links = slow_links();
  const auto slowest = std::max_element(links.begin(), links.end(),
                                        [](const SlowLink& a, const SlowLink& b) { return a.slowdown < b.slowdown; });
  if (slowest != links.end()) {
    promise_.explain("communication: " + text_of(*slowest));
  }
}

void Job::set_ended(int rank, bool ended) {
  if (!ended) {
    ended_.erase(rank);
  } else if (ranks_.count(rank) != 0) {
    ended_.insert(rank);
  }
}

}  // namespace flyball
