// Finds the best times of the gates (gates.h) along one path of operations while all other gates stay where they are.
// Internal to plan/.
//
// Why paths: rounding loses most in chains of operations over two stages that leave no slack. There, slowing one
// operation down pays only if the operations around its gate make room together, over several microbatches in turn. A
// path along a stage contains all gates at which that stage meets its neighbours. Choosing the times of all these gates
// together, with the neighbours' clocks fitted to each choice, finds such changes; moving one gate at a time does not.
//
// How: dynamic programming along the path. For each gate and some times near its present one, a state holds the least
// energy of the path up to that gate and of the neighbours whose windows end or start at the gates passed. A state that
// is no earlier and no cheaper than another is dropped, since waiting is free. Two limits keep this fast. A gate moves
// by at most the longest step between neighbouring options of an operation on the path; the mean step would be too
// short, since in measured profiles a single step near the highest clocks can be as long as ten others. Of the states
// in each slot of time only the cheapest is kept; the present times always survive. Where a neighbour starts or ends at
// two gates of the path, its cost is an estimate, so that the outcome is checked, and undone if it saves nothing.
// clock_rounding.h says what the search saves.
//
// Points of a frontier have few slots. Plans that are searched further have many: where no slack is left, it matters
// which clocks fill a window to its end, and the states that tell are too close to each other for few slots.
//
// Cost: with few slots 0.2 to 0.4 us per operation of the path (27 and 65 options), with many twice that. Memory:
// linear in the longest path.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/gates.h"

namespace flyball {

// Not thread-safe. `graph` and `choices` must outlive it.
class PathSearch {
 public:
  PathSearch(const ComputationDag& dag, const GateGraph& graph, const std::vector<ClockChoices>& choices);

  // So many slots before the present time of a gate, and as many after it. Twice the few save 0.005 points of energy
  // along the frontier and take a fifth more time; half of them cost 0.010, up to 0.61. Where a time was asked for, the
  // many save 0.05 to 0.1 points on GPT-3 175B (A40), and twice as many nothing more
  // (docs/decisions/0087-plans-that-were-asked-for.md).
  enum class Slots : std::size_t { kFew = 6, kMany = 24 };

  // Moves the gates at which the operations of `path` end, and refits the levels of all operations around them. Each
  // operation of `path` must be a successor of the one before it. Never raises the energy.
  void improve(std::span<const std::int32_t> path, GateSchedule& schedule, Slots slots = Slots::kFew);

 private:
  // One way to reach a gate: at what time, at what cost so far, and from which state of the gate before (index into
  // states_).
  struct State {
    Nanoseconds at;
    double cost;
    std::int32_t from;
  };
  // If the gate passes at `at` or later, a neighbour that ends there can take a slower option, which changes its energy
  // by `joules`.
  struct Gain {
    Nanoseconds at;
    double joules;
  };
  // A neighbour that starts at the gate, with the option that fits as the gate's time is moved later.
  struct Follower {
    ClockLadder ladder;
    Nanoseconds end;
    Nanoseconds other_start;  // also waits for another gate until then
    Level level;
  };
  // Between which times the gate may pass, and what its neighbours cost.
  struct Surroundings {
    Nanoseconds earliest, latest;
    double cost;  // of the neighbours that end at the gate, if it passes at `earliest`
  };

  [[nodiscard]] const ClockLadder& ladder(std::int32_t i) const { return ladder_[static_cast<std::size_t>(i)]; }
  bool find_states(std::span<const std::int32_t> path, const GateSchedule& schedule);
  bool reach_end(std::int32_t i, Nanoseconds not_before, const GateSchedule& schedule);
  template <std::size_t Half>
  void extend_states(const ClockLadder& ladder, Nanoseconds not_before, Nanoseconds present, Level hint);
  Surroundings look_around(Gate gate, std::int32_t on_path, std::int32_t next, const GateSchedule& schedule);
  void keep_states(const Surroundings& around);
  void refit(std::int32_t i, GateSchedule& schedule);

  const GateGraph& graph_;
  std::vector<ClockLadder> ladder_;        // by operation
  std::vector<Nanoseconds> longest_step_;  // by operation, between neighbouring options

  Nanoseconds reach_ = 0;           // how far a gate may move
  Slots slots_ = Slots::kFew;       // of the present search
  std::vector<State> states_;       // of all gates of the path
  std::vector<std::size_t> begin_;  // where the states of each gate begin
  std::vector<State> reached_;      // the cheapest state of each slot of time at one gate
  std::vector<Gain> gains_;
  std::vector<Follower> followers_;
  // What improve() needs to undo a change.
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
