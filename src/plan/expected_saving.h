// What a plan can be expected to save when the measurements that it was made from are noisy.
//
// Of two clocks that are equally good, a planner takes the one that looked better by chance. Replayed with the same
// measurements, its plan therefore looks better than it is (the winner's curse). Here the plan and all-maximum clocks
// are replayed a hundred times, each time with other values that the measured quantities may truly have (SmoothCurve).
// The mean of the savings is the saving to expect; their standard deviation says how certain it is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "plan/planner.h"
#include "profile/smooth_curve.h"

namespace flyball {

// The noise of a pipeline's measurements, estimated from how smooth each operation type's times and energies are over
// its clocks. Types with one clock are taken as measured, since a planner has nothing to choose there. Immutable.
class MeasurementNoise {
 public:
  explicit MeasurementNoise(const ComputationDag& dag);

  // Whether the noise could be estimated: every type with a choice has enough clocks, and there is such a type.
  [[nodiscard]] bool known() const { return known_; }
  // Standard deviation of one measurement as a share of the measured value, averaged over the types with a choice.
  // Requires known().
  [[nodiscard]] double of_times() const { return time_; }
  [[nodiscard]] double of_energies() const { return energy_; }

 private:
  friend class ExpectedReplay;
  struct Curves {
    SmoothCurve times;  // of logarithms
    SmoothCurve energies;
  };

  std::vector<std::optional<Curves>> types_;
  bool known_ = false;
  double time_ = 0.0;
  double energy_ = 0.0;
};

struct Expected {
  double mean = 0.0;
  double deviation = 0.0;
};

struct ExpectedFigures {
  Expected time;          // s, of one iteration
  Expected energy;        // J, of one iteration, with waiting for a straggler
  Expected saving_pct;    // of what all-maximum clocks take
  Expected slowdown_pct;  // of what all-maximum clocks take
};

// Returns the figures of one plan on `dag`, which is the problem's DAG or one with the same operation types. Requires
// noise.known(). Deterministic. Cost: O(kExpectedReplays * (nodes + edges + options)).
inline constexpr int kExpectedReplays = 100;
[[nodiscard]] ExpectedFigures expected_figures(const PlanProblem& problem, const MeasurementNoise& noise,
                                               const ComputationDag& dag, const ClockPlan& plan,
                                               std::optional<Seconds> straggler_time);

}  // namespace flyball
