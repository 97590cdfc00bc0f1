// What it costs that operations do not always take the same.
//
// Where a plan has used up the slack, many paths through an iteration are equally long by their means, and the
// iteration ends with the one that happens to be longest: it takes longer in the mean than the longest of the means
// (Jensen's inequality; Fulkerson, Oper. Res. 10, 1962, on networks with random durations). At maximum clocks one path
// is longest nearly always, so that the same scatter costs less there.
//
// Iterations are replayed with durations drawn from log-normal distributions of the measured means and deviations, in
// pairs of opposite draws, so that their sums along one path cancel.
#pragma once

#include <span>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"

namespace flyball {

// Immutable; safe to share between threads.
class ScatteredRuns {
 public:
  // Operations that scatter less are taken to be constant: on A100s and A40s computations do by 0.02 to 0.3 % of their
  // mean, which costs less than a thousandth of an iteration, and loads by 24 %.
  static constexpr double kLeast = 0.01;
  static constexpr double kMost = 1.0;  // what scatters more is taken to scatter so

  ScatteredRuns() = default;
  // `shares` has, by type of the DAGs to come, the standard deviation of one run over its mean.
  explicit ScatteredRuns(std::vector<double> shares);

  [[nodiscard]] bool any() const { return any_; }
  // Returns how much longer an iteration takes in the mean than one in which each operation takes its `durations`; 0
  // where nothing scatters. Deterministic. Cost: some hundred times O(nodes + edges), fewer in DAGs of above 200,000
  // nodes.
  [[nodiscard]] Seconds lateness(const ComputationDag& dag, std::span<const Nanoseconds> durations) const;
  // Returns, for each operation, in which share of iterations it is critical: how much sooner an iteration ends in the
  // mean for each nanosecond that the operation takes less. Deterministic. Cost: three times that of lateness().
  [[nodiscard]] std::vector<double> criticality(const ComputationDag& dag,
                                                std::span<const Nanoseconds> durations) const;

 private:
  // Calls take(durations) for each draw, and returns how many there were.
  template <class Take>
  int replay(const ComputationDag& dag, std::span<const Nanoseconds> durations, Take take) const;

  std::vector<double> sigmas_;  // by type, of the logarithms; 0: constant
  bool any_ = false;
};

}  // namespace flyball
