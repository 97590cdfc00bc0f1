// What a job's ranks say about themselves while they train: who does not measure itself, what fits into memory, who
// computes slower than it was profiled, what that makes of its pipeline, whose links are slow, and who has ended.
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <variant>

#include "pipeline/instruction.h"
#include "server/job.h"
#include "server/memory_limit.h"

namespace flyball {
namespace {

constexpr double kLeastDegree = 1.005;  // of a pipeline that is found to be slow
constexpr std::size_t kMostKnown = 256;
constexpr std::size_t kMostMeasuredAgain = 6;  // clocks of an operation that has drifted

// The highest clock that was measured, those that the plan sets and the next ones around, but no more than
// kMostMeasuredAgain: then they are evenly spaced.
std::set<int, std::greater<>> clocks_to_measure(const MeasurementSums& sums, const std::string& instruction,
                                                const std::set<int>& planned) {
  std::vector<int> known;  // highest first
  for (const MeasurementSum& sum : sums) {
    if (sum.instruction == instruction) known.push_back(static_cast<int>(std::lround(sum.clock.value())));
  }
  std::set<int, std::greater<>> chosen;
  if (known.empty()) return chosen;
  chosen.insert(known.front());
  const std::size_t last = known.size() - 1;
  std::size_t from = last;
  std::size_t to = 0;
  for (std::size_t i = 0; i <= last; ++i) {
    if (planned.count(known[i]) == 0) continue;
    from = std::min(from, i == 0 ? 0 : i - 1);
    to = std::min(last, i + 1);
  }
  if (to < from) return chosen;
  const std::size_t count = std::min(kMostMeasuredAgain - 1, to - from + 1);
  for (std::size_t k = 0; k < count; ++k) {
    chosen.insert(known[count == 1 ? from : from + k * (to - from) / (count - 1)]);
  }
  return chosen;
}

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

double Job::slowed_by_found() const {
  double slowest = 1.0;
  for (const auto& [number, pipeline] : found_pipelines()) slowest = std::max(slowest, pipeline.slowed.degree);
  return slowest;
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

std::vector<UnprofiledRank> Job::unprofiled_ranks(std::size_t most) const {
  std::vector<UnprofiledRank> unprofiled;
  for (const auto& [number, rank] : ranks_) {
    const RankRequest& says = rank.request;
    if (unprofiled.size() == most) break;
    if (rank.profiled || says.unprofiled_cause.empty()) continue;
    unprofiled.push_back({number, says.dp_rank, says.pp_rank, says.unprofiled_since, says.unprofiled_cause});
  }
  return unprofiled;
}

const std::vector<int>& Job::measured_limit() const {
  if (!std::exchange(measured_limit_is_old_, false)) return measured_limit_;
  std::vector<RankRequest> ranks;
  for (const auto& [number, rank] : ranks_) ranks.push_back(rank.request);
  return measured_limit_ = limit_of_memory(request(), ranks);
}

JobRequest Job::planned_request() const {
  JobRequest planned = request();
  if (planned.memory_limit.empty()) planned.memory_limit = measured_limit();
  return planned;
}

void Job::set_ended(int rank, bool ended) {
  if (!ended) {
    ended_.erase(rank);
  } else if (ranks_.count(rank) != 0) {
    ended_.insert(rank);
  }
}

// A rank that follows an order reports all that it knows, corrected, and once more what it has measured.
void Job::trust_new_plan() {
  slowed_at_maximum_ = 1.0;  // what is slow was measured as such
  trust(!remeasured_.empty() && plan_ && !plan_->is_limited());
  std::erase_if(remeasured_, [this](const auto& order) {
    const int sweeps = order.second.clocks_mhz.empty() ? 1 : 2;
    return std::all_of(ranks_.begin(), ranks_.end(), [&](const auto& one) {
      return one.second.request.pp_rank != order.first || one.second.sweeps_since_order >= sweeps;
    });
  });
}

bool Job::order_remeasuring() {
  const auto is_slow = [](const auto& one) { return one.second.degree > 1.0; };
  if (std::any_of(stragglers_.begin(), stragglers_.end(), is_slow)) return false;
  const auto drifts = drifted_.to_measure(request().data_parallel * request().tensor_parallel);
  const JobPlan::Run run = runs().of_pipelines.front();
  const JobPlan& plan = plan_->of_pipeline(0);
  if (drifts.empty() || !plan.is_prepared(run)) return false;
  const JobPlan::Schedule schedule = plan.schedule(run);
  for (const DriftedOperations::Drift& drift : drifts) {
    const auto rank = std::find_if(ranks_.begin(), ranks_.end(),
                                   [&](const auto& one) { return one.second.request.pp_rank == drift.stage; });
    RemeasureOrder& order = remeasured_[drift.stage];
    order = {stored_.version + 1, drift.instructions, {}};
    std::set<int, std::greater<>> clocks;
    for (const std::string& instruction : drift.instructions) {
      if (!drift.sweep) break;
      std::set<int> planned;
      for (const ScheduledComputation& one : schedule.stages[static_cast<std::size_t>(drift.stage)]) {
        if (name_of_chunk(one.instruction, one.chunk) == instruction) planned.insert(one.clock_mhz);
      }
      clocks.merge(clocks_to_measure(*rank->second.sums, instruction, planned));
    }
    order.clocks_mhz.assign(clocks.begin(), clocks.end());
    for (auto& [number, one] : ranks_) {
      if (one.request.pp_rank == drift.stage) one.sweeps_since_order = 0;
    }
    drifted_.ordered(drift);
  }
  return true;
}

JobListing listing_of(const Job& job, bool with_figures) {
  JobListing listing;
  listing.job = job.id();
  listing.name = job.request().name;
  listing.state = job.state();
  listing.ranks = job.request().ranks();
  listing.ranks_registered = std::ssize(job.ranks());
  listing.promise.verdict = job.promise().known().verdict;
  listing.slow_ranks = std::ssize(job.found().all());
  listing.ordered_maximum = job.stored().ordered_maximum;
  if (with_figures) {
    listing.promise = job.promise().known();
    const RankSavings savings = job.savings();
    listing.saved = savings.energy_at_maximum - savings.energy;
    listing.promised_saved = savings.energy_at_maximum - job.promised_energy();
  }
  if (!job.current()) return listing;
  listing.version = job.current()->version;
  listing.plan_status = job.current()->plan->status();
  return listing;
}

}  // namespace flyball
