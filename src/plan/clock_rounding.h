// From relaxed event times to clocks: which measured option each operation runs at.
//
// Perseus (section 4.3) gives each computation the slowest clock not slower than planned and stops there; what rounding
// leaves over is lost. Here the leftover is spent again:
//   floor   the slowest option that fits the operation's own relaxed window;
//   fill    one pass forwards in time raises operations into the slack that is left, at most one option above the floor,
//           one pass backwards takes what remains. Both are exact about slack and linear in the DAG.
//   pairs   in one pass forwards, two adjacent operations are given the cheapest two options that fit their joint slack;
//           a table per pair of types says at once where there is nothing to gain;
//   search  small neighbourhoods are sped up at random and refilled, and kept when no dearer (fixed seed, fixed number
//           of trials: same input, same plan).
// round() does all but the search, tens of microseconds for a thousand operations, for every point of a frontier;
// polish() repeats and searches, for the points that matter. Every step keeps the iteration within its deadline.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "pipeline/timeline.h"
#include "plan/planner.h"
#include "plan/relaxation.h"

namespace flyball {

// Holds one plan at a time. Not thread-safe; the problem must outlive it.
class ClockRounder {
 public:
  explicit ClockRounder(const PlanProblem& problem);

  // The plan for iteration time `deadline`, which must lie within the stretch. Cost linear in edges times neighbours.
  void round(const FrontierStretch& stretch, Nanoseconds deadline);

  // Takes over a plan of Pareto-optimal options.
  void load(const ClockPlan& plan);

  // Makes the present plan cheaper within `deadline`, which it must meet. `trials` bounds the random search, each trial
  // costing O(nodes + edges).
  void polish(Nanoseconds deadline, int trials);

  // What the present plan really gives.
  [[nodiscard]] Nanoseconds makespan();
  [[nodiscard]] double net_joules() const;
  [[nodiscard]] const ClockPlan& plan();

 private:
  using Level = std::int32_t;  // index into the type's Pareto options, fastest first

  struct Choices {
    const Nanoseconds* time;
    const double* net;
    Level slowest;
  };

  [[nodiscard]] std::size_t index(int i) const { return static_cast<std::size_t>(i); }
  [[nodiscard]] const Choices& choices(int i) const { return choices_[type_[index(i)]]; }
  [[nodiscard]] Nanoseconds duration(int i) const { return choices(i).time[level_[index(i)]]; }

  // Per pair of types: at [first level * second count + second level], how much longer two such operations must take
  // together before any other pair of options is cheaper (ns; negative where one already is).
  using PairTable = std::vector<Nanoseconds>;
  [[nodiscard]] const PairTable& pair_table(std::size_t first_type, std::size_t second_type);

  void place_early();
  void place_late(Nanoseconds deadline);
  Nanoseconds earliest_start(int i) const;
  Nanoseconds latest_finish(int i, Nanoseconds deadline) const;
  // `most` caps each operation's level; `skip_eighths` of the operations, drawn at random, are passed over.
  void fill_forwards(Nanoseconds deadline, std::span<const Level> most, std::uint32_t skip_eighths);
  void fill_backwards(Nanoseconds deadline, std::uint32_t skip_eighths);
  bool improve_pair(int before, int after, Nanoseconds end);
  int improve_pairs(Nanoseconds deadline);
  void search(Nanoseconds deadline, int trials);
  std::uint32_t draw();

  const ComputationDag& dag_;
  std::vector<std::vector<Nanoseconds>> times_;
  std::vector<std::vector<double>> nets_;
  std::vector<const std::vector<std::uint16_t>*> options_;
  std::vector<Choices> choices_;
  std::vector<std::size_t> type_;
  std::vector<Level> level_, cap_, unlimited_;
  std::vector<Nanoseconds> finish_;  // earliest
  std::vector<Nanoseconds> latest_start_;
  std::unordered_map<std::uint64_t, PairTable> pair_tables_;  // by both types; made when first asked for
  ClockPlan plan_;
  std::uint64_t random_ = 0;
};

}  // namespace flyball
