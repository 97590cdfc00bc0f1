// A timeline as the times of gates, and the options that fit between them. Internal to plan/.
//
// Operations with the same successors may as well end at the same time. Such a group of operations has a gate, and the
// gate passes when all of them have ended. An operation starts when the last of the gates that it waits for has passed,
// so that the times of all gates determine the whole timeline. The window of an operation reaches from the last gate
// before it to its own gate, and the slowest option that fits into the window is the best one. In the steady state of
// 1F1B, two neighbouring stages meet at a gate: a forward and a backward end there, and a backward and a forward start.
// Moving the gate changes these four windows and no other. path_search.h makes use of that.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "plan/planner.h"

namespace flyball {

// Energies closer than this are equal, in J: far less than a meter can tell, far more than a sum's rounding.
inline constexpr double kSameJoules = 1e-9;

using Level = std::int32_t;  // index into a type's Pareto options, fastest first
using Gate = std::int32_t;

// The times and net energies of a type's options by level, as the inner loops read them: a view into ClockChoices,
// which must outlive it. time[-1] fits every window and the time after the slowest fits none, so that a search need not
// check for the ends.
struct ClockLadder {
  const Nanoseconds* time;
  const double* net;

  // The slowest level that takes at most `window`, searched for from `hint`; -1 if none does.
  [[nodiscard]] Level slowest_within(Nanoseconds window, Level hint) const {
    Level level = hint;
    while (time[level + 1] <= window) ++level;
    while (time[level] > window) --level;
    return level;
  }
};

// The Pareto options of one operation type: times rise, net energies fall.
struct ClockChoices {
  std::vector<Nanoseconds> time;
  std::vector<double> net;            // J (Perseus eq. 4)
  Nanoseconds longest_step = 0;       // the longest between neighbouring options
  std::vector<std::uint16_t> option;  // index into the type's measured options
  std::vector<Nanoseconds> fenced;    // `time`, with one before it that always fits and one after it that never does

  [[nodiscard]] Level slowest() const { return static_cast<Level>(time.size()) - 1; }
  [[nodiscard]] ClockLadder ladder() const { return {fenced.data() + 1, net.data()}; }
};

// The choices of every operation type, by type.
[[nodiscard]] std::vector<ClockChoices> clock_choices(const PlanProblem& problem);

// The gates of a DAG. Immutable. Memory is linear in the edges, construction takes O(edges log nodes).
class GateGraph {
 public:
  static constexpr Gate kEnd = 0;  // the end of the iteration, where operations without successors end

  explicit GateGraph(const ComputationDag& dag);

  [[nodiscard]] std::size_t size() const { return ending_.size(); }
  [[nodiscard]] Gate end_of(std::int32_t i) const { return around_[static_cast<std::size_t>(i)].end; }
  // The gates for which the operation waits.
  [[nodiscard]] std::span<const Gate> before(std::int32_t i) const { return before_[i]; }
  // When the operation can start: the time of the last gate before it. `passes` is indexed by gate.
  [[nodiscard]] Nanoseconds start(const Nanoseconds* passes, std::int32_t i) const {
    const Around& around = around_[static_cast<std::size_t>(i)];
    if (around.usual) return std::max(passes[around.before[0]], passes[around.before[1]]);
    Nanoseconds start = 0;
    for (const Gate gate : before(i)) start = std::max(start, passes[gate]);
    return start;
  }
  // The same, disregarding the gate `but`.
  [[nodiscard]] Nanoseconds start_without(Gate but, const Nanoseconds* passes, std::int32_t i) const {
    Nanoseconds start = 0;
    for (const Gate gate : before(i)) {
      if (gate != but) start = std::max(start, passes[gate]);
    }
    return start;
  }
  // Moves all gates before the operation to `time` or earlier.
  void no_later_before(Nanoseconds* passes, std::int32_t i, Nanoseconds time) const {
    const Around& around = around_[static_cast<std::size_t>(i)];
    if (around.usual) {
      passes[around.before[0]] = std::min(passes[around.before[0]], time);
      passes[around.before[1]] = std::min(passes[around.before[1]], time);
      return;
    }
    for (const Gate gate : before(i)) passes[gate] = std::min(passes[gate], time);
  }
  [[nodiscard]] std::span<const std::int32_t> ending(Gate gate) const { return ending_[gate]; }
  [[nodiscard]] std::span<const std::int32_t> starting(Gate gate) const { return starting_[gate]; }

 private:
  // Lists of numbers, stored one after the other in one array.
  struct Lists {
    std::vector<std::size_t> begin{0};
    std::vector<std::int32_t> all;

    void add(std::span<const std::int32_t> list);
    [[nodiscard]] std::size_t size() const { return begin.size() - 1; }
    std::span<const std::int32_t> operator[](std::int32_t k) const {
      const auto at = static_cast<std::size_t>(k);
      return {all.data() + begin[at], all.data() + begin[at + 1]};
    }
  };

  // The gates of one operation in one place, for the passes over all operations.
  struct Around {
    Gate end;
    Gate before[2];  // twice the same gate if the operation waits for only one
    bool usual;      // whether it waits for one or two; if not, before_ lists them
  };

  std::vector<Around> around_;
  Lists before_, ending_, starting_;
};

// When each gate passes, and the level at which each operation runs in its window.
struct GateSchedule {
  std::vector<Nanoseconds> passes;  // by gate; at kEnd the deadline
  std::vector<Level> level;         // by operation

  [[nodiscard]] Nanoseconds start(const GateGraph& graph, std::int32_t i) const {
    return graph.start(passes.data(), i);
  }
  [[nodiscard]] Nanoseconds end(const GateGraph& graph, std::int32_t i) const {
    return passes[static_cast<std::size_t>(graph.end_of(i))];
  }
};

}  // namespace flyball
