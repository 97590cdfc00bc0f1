// The random search of rounding (clock_rounding.h): a few neighbouring operations are sped up, then operations are
// slowed down into the slack that this leaves, and what comes of it is kept unless it is dearer. Internal to plan/.
//
// A plan is full when no operation can be slowed down. After a trial, only operations that were sped up, or whose
// window has changed since the last full plan, may be slowed down, and only their windows lead to further changes. A
// trial therefore looks at these alone, in the order of a pass over all operations, and ends where that pass would.
//
// Cost of a trial: linear in the operations of changed windows (some dozens), and a 64th of a step for each operation.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/units.h"
#include "plan/gates.h"

namespace flyball {

// xorshift64 (Marsaglia 2003): the same numbers, whatever was planned before.
class RoundingRandom {
 public:
  std::uint32_t draw() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::uint32_t>(state_ >> 24);
  }

 private:
  std::uint64_t state_ = 0x9E3779B97F4A7C15u;
};

// Not thread-safe. What it is made from must outlive it.
class NeighbourhoodSearch {
 public:
  NeighbourhoodSearch(const ComputationDag& dag, const GateGraph& graph, std::span<const ClockLadder> ladders);

  // Improves a plan, which must meet the deadline, by so many trials. Fills its slack first.
  void improve(std::vector<Level>& level, Nanoseconds deadline, int trials, RoundingRandom& random);

 private:
  enum class Pass { kPlace, kFill };  // whether windows are only computed anew, or operations slowed down into them

  // The times of the gates that are earliest (forwards) and latest (backwards), computed anew where they may have
  // changed. Of the operations that could be slowed down, `skip_eighths` eighths, drawn at random, keep their clock.
  void forwards(Pass pass, std::uint32_t skip_eighths = 0);
  void backwards(Pass pass, std::uint32_t skip_eighths = 0);
  void raise(std::int32_t i, std::uint32_t skip_eighths);
  void speed_some_up();
  void keep();
  void undo();
  [[nodiscard]] double joules_more() const;
  void touch(std::int32_t i) { touched_[static_cast<std::size_t>(i) / 64] |= std::uint64_t{1} << (i % 64); }
  template <class Visit>
  void for_each_touched(Visit visit) const;
  [[nodiscard]] Nanoseconds duration(std::int32_t i) const;

  const ComputationDag& dag_;
  const GateGraph& graph_;
  std::span<const ClockLadder> ladder_;  // by operation
  Level* level_ = nullptr;               // the plan of the present trial, by operation
  RoundingRandom* random_ = nullptr;
  std::vector<Level> kept_;             // the best plan, which is full
  std::vector<Nanoseconds> early_;      // by gate: the earliest time that the plan allows
  std::vector<Nanoseconds> late_;       // by gate: the latest time that the deadline allows
  std::vector<std::uint64_t> touched_;  // a bit for each operation that may differ from the best plan, or its window
  std::vector<std::int32_t> region_;
  // What the gates were in the best plan, in the order in which they were changed.
  std::vector<std::pair<Nanoseconds*, Nanoseconds>> old_times_;
};

}  // namespace flyball
