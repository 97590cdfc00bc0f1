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
    for (const DriftedOperation& one : of_rank.operations) {
      Found& found = stages[of_rank.stage][one.instruction];
      found.least = found.ranks == 0 ? one.ratio : std::min(found.least, one.ratio);
      found.most = std::max(found.most, one.ratio);
      ++found.ranks;
    }
  }
  std::vector<Drift> all;
  for (const auto& [stage, instructions] : stages) {
    const auto order = orders_.find(stage);
    // Ranks that have been started anew count from 0.
    const std::int64_t since = order == orders_.end() ? -1 : newest_step(stage) - order->second.step;
    if (since >= 0 && since < order->second.pause) continue;
    Drift drift{stage, {}};
    for (const auto& [instruction, found] : instructions) {
      if (found.ranks == ranks_of_stage && found.most <= kAlike * found.least)
        drift.instructions.push_back(instruction);
    }
    if (!drift.instructions.empty()) all.push_back(std::move(drift));
  }
  return all;
}

void DriftedOperations::ordered(int stage) {
  const std::int64_t now = newest_step(stage);
  const auto [place, is_first] = orders_.try_emplace(stage);
  Order& order = place->second;
  const bool soon = !is_first && now >= order.step && now - order.step < kSoonAgain * order.pause;
  order = {now, soon ? std::min(2 * order.pause, kMostPause) : kLeastPause};
}

}  // namespace flyball
