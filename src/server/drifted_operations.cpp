// The newest report of each rank is kept. Ranks of a stage are compared by the smallest and the greatest ratio.
#include "server/drifted_operations.h"

#include <algorithm>
#include <utility>

namespace flyball {
namespace {

constexpr double kAlike = 1.015;         // of the ranks of a stage
constexpr std::int64_t kSoonAgain = 10;  // pauses, within which another drift doubles them

}  // namespace

bool DriftedOperations::take(const PaceReport& report, int stage) {
  if (report.cause != PaceCause::kComputation || report.operations.empty()) {
    forget(report.rank);
    return false;
  }
  of_ranks_[report.rank] = {stage, report.step, report.operations};
  return true;
}

std::int64_t DriftedOperations::newest_step() const {
  std::int64_t newest = 0;
  for (const auto& [rank, found] : of_ranks_) newest = std::max(newest, found.step);
  return newest;
}

std::vector<DriftedOperations::Drift> DriftedOperations::to_measure(int ranks_of_stage) const {
  // Ranks that have been started anew count from 0.
  const std::int64_t since = newest_step() - ordered_at_;
  if (pause_ > 0 && since >= 0 && since < pause_) return {};
  struct Found {
    int ranks = 0;
    double least = 0.0;
    double most = 0.0;
  };
  std::map<int, std::map<std::string, Found>> stages;
  for (const auto& [rank, of_rank] : of_ranks_) {
    for (const DriftedOperation& one : of_rank.operations) {
      Found& found = stages[of_rank.stage][one.instruction];
      found.least = found.ranks == 0 ? one.ratio : std::min(found.least, one.ratio);
      found.most = std::max(found.most, one.ratio);
      ++found.ranks;
    }
  }
  std::vector<Drift> all;
  for (const auto& [stage, instructions] : stages) {
    Drift drift{stage, {}};
    for (const auto& [instruction, found] : instructions) {
      if (found.ranks == ranks_of_stage && found.most <= kAlike * found.least)
        drift.instructions.push_back(instruction);
    }
    if (!drift.instructions.empty()) all.push_back(std::move(drift));
  }
  return all;
}

void DriftedOperations::ordered() {
  const std::int64_t now = newest_step();
  const bool soon = pause_ > 0 && now >= ordered_at_ && now - ordered_at_ < kSoonAgain * pause_;
  pause_ = soon ? std::min(2 * pause_, kMostPause) : kLeastPause;
  ordered_at_ = now;
}

}  // namespace flyball
