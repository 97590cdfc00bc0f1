// What a plan can be expected to save when the measurements that it was made from are noisy.
//
// Of two clocks that are alike, a planner takes the one that looked better by chance. Replayed with the same
// measurements, its plan therefore looks better than it is (the winner's curse). Here the plan and all-maximum clocks
// are replayed a hundred times with values that the measurements may truly have (SmoothCurve). The mean of the savings
// is the one to expect; their standard deviation says how certain it is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "plan/planner.h"
#include "profile/smooth_curve.h"

namespace flyball {

// The noise of a pipeline's measurements, estimated from how smooth each operation's times and energies are over its
// clocks. Operations of one clock are taken as measured, since nothing is chosen there.
class MeasurementNoise {
 public:
  explicit MeasurementNoise(const ComputationDag& dag);

  // False where an operation with a choice has too few clocks to tell, and where no operation has a choice.
  [[nodiscard]] bool known() const { return known_; }
  // Standard deviation of one measurement as a share of the measured value, averaged over the operations.
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

// The figures of one plan on `dag`, which is the problem's DAG or one with the same operation types. Requires
// noise.known(). Deterministic. Cost: O(kExpectedReplays * (nodes + edges + options)).
inline constexpr int kExpectedReplays = 100;
[[nodiscard]] ExpectedFigures expected_figures(const PlanProblem& problem, const MeasurementNoise& noise,
                                               const ComputationDag& dag, const ClockPlan& plan,
                                               std::optional<Seconds> straggler_time);

}  // namespace flyball
