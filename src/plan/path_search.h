// The best times of the gates along one path of operations, all other gates held where they are.
//
// Why paths. What rounding loses sits in loops through two stages that leave no slack: slowing one operation down pays
// only if the operations around its gate make room together, over several microbatches in turn. A path along a stage
// holds all gates at which that stage meets its neighbours; choosing their times together, with the neighbours' clocks
// fitted to every choice, finds such changes at once, where moves of single operations find none.
//
// How. Dynamic programming along the path: at each gate, for some times near the present one, the least energy of the
// path up to there and of the neighbours whose windows end or start at those gates. A state that is no earlier and no
// cheaper than another is dropped, since waiting is free. What keeps it short: times reach as far as the longest
// step between neighbouring options of any operation on the path, and of the states in each of twelve slots of time the
// cheapest is kept. (The mean step is not enough: measured profiles have flat tops, where one step is worth ten.) The
// present times always survive. Where a neighbour hangs on two gates of the path, its cost is only estimated; the
// outcome is checked and dropped if it is no better. What it brings: clock_rounding.h.
//
// Cost: operations of the path times about 0.1 us. Memory linear in the longest path.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/gates.h"

namespace flyball {

// Not thread-safe; what it refers to must outlive it.
class PathSearch {
 public:
  PathSearch(const ComputationDag& dag, const GateGraph& graph, const std::vector<ClockChoices>& choices);

  // Moves the gates at which the operations of `path` end (each after the one before it), and refits all operations
  // around them. Never costs energy.
  void improve(std::span<const std::int32_t> path, GateSchedule& schedule);

 private:
  // A way to reach a gate: when, at what cost so far, from which state of the gate before (index into states_).
  struct State {
    Nanoseconds at;
    double cost;
    std::int32_t from;
  };
  // A neighbour that ends at the gate has a cheaper option if the gate passes at `at` or later.
  struct Gain {
    Nanoseconds at;
    double joules;
  };
  // The best way so far to reach a slot of time: from which state of the gate before, by which option.
  struct Slot {
    double cost;
    std::int32_t from;
    Level level;
  };
  // A neighbour that starts at the gate, and its option as the gate passes later and later.
  struct Follower {
    ClockLadder ladder;
    Nanoseconds end;
    Nanoseconds other_start;  // it waits for another gate until then
    Level level;
  };
  // Where the gate may go, and what it costs the neighbours.
  struct Surroundings {
    Nanoseconds earliest, latest;
    double cost;  // of neighbours that end at the gate, if it passes at `earliest`
  };

  [[nodiscard]] const ClockLadder& ladder(std::int32_t i) const { return ladder_[static_cast<std::size_t>(i)]; }
  bool find_states(std::span<const std::int32_t> path, const GateSchedule& schedule);
  bool reach_end(std::int32_t i, Nanoseconds not_before, const GateSchedule& schedule);
  void extend_states(const ClockLadder& ladder, Nanoseconds not_before, Nanoseconds present, Level hint);
  Surroundings look_around(Gate gate, std::int32_t on_path, std::int32_t next, const GateSchedule& schedule);
  void keep_states(const Surroundings& around);
  void refit(std::int32_t i, GateSchedule& schedule);

  const GateGraph& graph_;
  std::vector<ClockLadder> ladder_;        // by operation
  std::vector<Nanoseconds> longest_step_;  // by operation, between neighbouring options

  Nanoseconds reach_ = 0;           // how far a gate may move
  std::vector<State> states_;       // of all gates of the path
  std::vector<std::size_t> begin_;  // where the states of each gate begin
  std::vector<State> reached_;      // the cheapest of each slot of time at one gate
  std::vector<Gain> gains_;
  std::vector<Follower> followers_;
  // Undo.
  std::vector<Nanoseconds> old_passes_;
  struct Refitted {
    std::int32_t operation;
    Level old_level;
  };
  std::vector<Refitted> refitted_;
  std::vector<std::int64_t> refit_mark_;  // by operation
  std::int64_t mark_ = 0;
  double change_ = 0.0;  // J, of the operations refitted
  bool fits_ = true;
};

}  // namespace flyball
