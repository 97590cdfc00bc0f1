// The newest report of each rank is kept. Ranks of a stage are compared by the smallest and the greatest ratio.
#include "server/drifted_operations.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace flyball {
namespace {

constexpr double kAlike = 1.015;         // of the ranks of a stage
constexpr std::int64_t kSoonAgain = 10;  // pauses, within which another drift doubles them

}  // namespace

bool DriftedOperations::take(const PaceReport& report, int stage) {
  if (report.of != PaceOf::kComputing) return false;
  if (report.cause != PaceCause::kComputation || report.operations.empty()) {
    forget(report.rank);
    return false;
  }
  of_ranks_[report.rank] = {stage, report.step, report.operations};
  return true;
}

std::int64_t DriftedOperations::newest_step(int stage) const {
  std::int64_t newest = 0;
  for (const auto& [rank, found] : of_ranks_) {
    if (found.stage == stage) newest = std::max(newest, found.step);
  }
  return newest;
}

std::vector<DriftedOperations::Drift> DriftedOperations::to_measure(int ranks_of_stage) const {
  struct Found {
    int ranks = 0;
    double least = 0.0;
    double most = 0.0;
  };
  std::map<int, std::map<std::string, Found>> stages;
  for (const auto& [rank, of_rank] : of_ranks_) {
    std::set<std::string_view> told;
    for (const DriftedOperation& one : of_rank.operations) {
      if (!told.insert(one.instruction).second) continue;  // a rank counts once
      Found& found = stages[of_rank.stage][one.instruction];
      found.least = found.ranks == 0 ? one.ratio : std::min(found.least, one.ratio);
      found.most = std::max(found.most, one.ratio);
      ++found.ranks;
    }
  }
  std::vector<Drift> all;
  for (const auto& [stage, instructions] : stages) {
    const auto known = pauses_.find(stage);
    const Pauses pauses = known == pauses_.end() ? Pauses() : known->second;
    const std::int64_t step = newest_step(stage);
    if (!pauses.correction.is_over(step)) continue;
    Drift drift{stage, {}, pauses.sweep.is_over(step)};
    for (const auto& [instruction, found] : instructions) {
      if (found.ranks == ranks_of_stage && found.most <= kAlike * found.least)
        drift.instructions.push_back(instruction);
    }
    if (!drift.instructions.empty()) all.push_back(std::move(drift));
  }
  return all;
}

void DriftedOperations::ordered(const Drift& drift) {
  const std::int64_t step = newest_step(drift.stage);
  Pauses& pauses = pauses_[drift.stage];
  if (drift.sweep) pauses.sweep.begin(step, kLeastPause);
  pauses.correction.begin(step, kLeastCorrectionPause);
}

// Ranks that have been started anew count from 0.
bool DriftedOperations::Pause::is_over(std::int64_t step) const {
  return since < 0 || step < since || step - since >= length;
}

void DriftedOperations::Pause::begin(std::int64_t step, std::int64_t least) {
  const bool soon = since >= 0 && step >= since && step - since < kSoonAgain * length;
  length = soon ? std::min(2 * length, kMostPause) : least;
  since = step;
}

}  // namespace flyball
