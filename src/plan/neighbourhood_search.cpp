// Passes over a set of operations that grows ahead of them: forwards, an operation that ends at another time adds those
// that start there; backwards, one that must start at another time adds those that end there.
#include "plan/neighbourhood_search.h"

#include <algorithm>
#include <bit>

#include "base/index.h"

namespace flyball {
NeighbourhoodSearch::NeighbourhoodSearch(const ComputationDag& dag, const GateGraph& graph,
                                         std::span<const ClockLadder> ladders)
    : dag_(dag), graph_(graph), ladder_(ladders) {
  early_.assign(graph.size(), 0);
  late_.assign(graph.size(), 0);
  touched_.assign(at(dag.size()) / 64 + 1, 0);
}

void NeighbourhoodSearch::improve(std::vector<Level>& level, Nanoseconds deadline, int trials, RoundingRandom& random) {
  level_ = level.data();
  random_ = &random;
  late_[GateGraph::kEnd] = deadline;
  for (std::int32_t i = 0; i < dag_.size(); ++i) touch(i);
  backwards(Pass::kPlace);
  forwards(Pass::kFill);
  backwards(Pass::kPlace);
  kept_ = level;
  keep();
  for (int trial = 0; trial < trials; ++trial) {
    speed_some_up();
    const std::uint32_t way = random.draw() % 4;
    switch (way) {
      case 0:
        backwards(Pass::kPlace);
        forwards(Pass::kFill, 4);
        backwards(Pass::kFill);
        break;
      case 1:
        forwards(Pass::kPlace);
        backwards(Pass::kFill, 4);
        forwards(Pass::kFill);
        break;
      case 2:
        backwards(Pass::kPlace);
        forwards(Pass::kFill);
        break;
      default:
        forwards(Pass::kPlace);
        backwards(Pass::kFill);
        break;
    }
    if (joules_more() > kSameJoules) {
      undo();
      continue;
    }
    // The last pass has changed durations, which the times of the other direction do not know of yet.
    way == 0 || way == 3 ? forwards(Pass::kPlace) : backwards(Pass::kPlace);
    keep();
  }
}

void NeighbourhoodSearch::speed_some_up() {
  region_.assign(1, static_cast<std::int32_t>(random_->draw() % static_cast<std::uint32_t>(dag_.size())));
  const std::size_t size = 2 + random_->draw() % 10;
  for (std::size_t r = 0; r < region_.size() && region_.size() < size; ++r) {
    const std::int32_t centre = region_[r];
    for (const std::int32_t p : dag_.predecessors(centre)) region_.push_back(p);
    for (const std::int32_t s : dag_.successors(centre)) region_.push_back(s);
  }
  for (const std::int32_t i : region_) {
    if (random_->draw() % 4 == 0) continue;
    level_[i] = std::max(0, level_[i] - (random_->draw() % 4 == 0 ? 2 : 1));
    touch(i);
  }
}

void NeighbourhoodSearch::forwards(Pass pass, std::uint32_t skip_eighths) {
  for (std::size_t word = 0; word < touched_.size(); ++word) {
    // Operations are added behind the present one only.
    for (std::uint64_t left = touched_[word]; left != 0;) {
      const int bit = std::countr_zero(left);
      const auto i = static_cast<std::int32_t>(64 * word) + bit;
      if (pass == Pass::kFill) raise(i, skip_eighths);
      const Gate gate = graph_.end_of(i);
      Nanoseconds end = 0;
      for (const std::int32_t k : graph_.ending(gate))
        end = std::max(end, graph_.start(early_.data(), k) + duration(k));
      Nanoseconds& early = early_[at(gate)];
      if (end != early) {
        old_times_.emplace_back(&early, early);
        early = end;
        for (const std::int32_t k : graph_.starting(gate)) touch(k);
      }
      left = bit == 63 ? 0 : touched_[word] & (~std::uint64_t{0} << (bit + 1));
    }
  }
}

void NeighbourhoodSearch::backwards(Pass pass, std::uint32_t skip_eighths) {
  for (std::size_t word = touched_.size(); word-- > 0;) {
    for (std::uint64_t left = touched_[word]; left != 0;) {
      const int bit = 63 - std::countl_zero(left);
      const auto i = static_cast<std::int32_t>(64 * word) + bit;
      if (pass == Pass::kFill) raise(i, skip_eighths);
      for (const Gate gate : graph_.before(i)) {
        Nanoseconds begin = late_[GateGraph::kEnd];
        for (const std::int32_t k : graph_.starting(gate)) {
          begin = std::min(begin, late_[at(graph_.end_of(k))] - duration(k));
        }
        Nanoseconds& late = late_[at(gate)];
        if (begin == late) continue;
        old_times_.emplace_back(&late, late);
        late = begin;
        for (const std::int32_t k : graph_.ending(gate)) touch(k);
      }
      left = touched_[word] & ((std::uint64_t{1} << bit) - 1);
    }
  }
}

inline void NeighbourhoodSearch::raise(std::int32_t i, std::uint32_t skip_eighths) {
  const ClockLadder& ladder = ladder_[at(i)];
  const Nanoseconds room = late_[at(graph_.end_of(i))] - graph_.start(early_.data(), i);
  if (ladder.time[level_[i] + 1] > room) return;
  if (skip_eighths > 0 && (random_->draw() & 7) < skip_eighths) return;
  level_[i] = ladder.slowest_within(room, level_[i]);
}

template <class Visit>
void NeighbourhoodSearch::for_each_touched(Visit visit) const {
  for (std::size_t word = 0; word < touched_.size(); ++word) {
    for (std::uint64_t left = touched_[word]; left != 0; left &= left - 1) {
      visit(64 * word + at(std::countr_zero(left)));
    }
  }
}

double NeighbourhoodSearch::joules_more() const {
  double joules = 0.0;
  for_each_touched([&](std::size_t i) { joules += ladder_[i].net[level_[i]] - ladder_[i].net[kept_[i]]; });
  return joules;
}

void NeighbourhoodSearch::keep() {
  for_each_touched([&](std::size_t i) { kept_[i] = level_[i]; });
  std::fill(touched_.begin(), touched_.end(), 0);
  old_times_.clear();
}

void NeighbourhoodSearch::undo() {
  for_each_touched([&](std::size_t i) { level_[i] = kept_[i]; });
  std::fill(touched_.begin(), touched_.end(), 0);
  for (; !old_times_.empty(); old_times_.pop_back()) *old_times_.back().first = old_times_.back().second;
}

inline Nanoseconds NeighbourhoodSearch::duration(std::int32_t i) const { return ladder_[at(i)].time[level_[i]]; }

}  // namespace flyball
