// What a plan is to be expected to save, where the measurements that it was made of are noisy.
//
// A planner takes the clocks that were measured to be best, and of two that are alike the one whose noise was
// favourable. Replayed with the same measurements, its plan looks better than it is: the winner's curse. Here the plan
// is replayed with what the measurements may truly be (SmoothCurve), a hundred times, and so are all-maximum clocks:
// the mean of the savings is what to expect, their deviation how sure that is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "plan/planner.h"
#include "profile/smooth_curve.h"

namespace flyball {

// Noise of a pipeline's measurements, judged by how smooth each operation's times and energies are over its clocks.
// Operations of one clock are taken as they are: nothing is chosen there.
class MeasurementNoise {
 public:
  explicit MeasurementNoise(const ComputationDag& dag);

  // False where some operation with a choice has too few clocks to tell, or where nothing has a choice.
  [[nodiscard]] bool known() const { return known_; }
  // Standard deviation of one measurement, in the mean over the operations; shares of the measured value.
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
  Expected time;          // s, of an iteration
  Expected energy;        // J, waiting for a straggler included
  Expected saving_pct;    // of what all-maximum clocks take
  Expected slowdown_pct;  // likewise
};

// Of one plan on `dag`, the problem's or one with the same operation types. Requires noise.known(). Deterministic. Cost
// O(kReplays * (nodes + edges + options)).
inline constexpr int kExpectedReplays = 100;
[[nodiscard]] ExpectedFigures expected_figures(const PlanProblem& problem, const MeasurementNoise& noise,
                                               const ComputationDag& dag, const ClockPlan& plan,
                                               std::optional<Seconds> straggler_time);

}  // namespace flyball
