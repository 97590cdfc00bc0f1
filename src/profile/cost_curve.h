// The convex time-energy cost of one instruction of a stage: what the frontier solver sees of a profile.
//
// The cost of running a computation for time t is its energy net of blocking, e - P_blocking * t (Perseus eq. 4): the
// stage would draw P_blocking anyway, so that only what it draws above that can be saved. There are two relaxations of
// the discrete clocks: the lower convex hull of the measured options (the default: it has no fitting error, and its
// optimum is a true lower bound of every discrete plan), and the exponential a*exp(b*t)+c of the paper (section 4.1).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/units.h"
#include "profile/profile.h"

namespace flyball {

// Returns the energy net of blocking (J). It is negative where the option draws less than a blocked GPU.
[[nodiscard]] inline double net_joules(const ClockOption& option, Watts blocking) {
  return (option.energy - blocking * option.time).value();
}

// Returns the options worth choosing from: no other is as fast and as cheap in net energy. Fastest first; times
// strictly rise, net energies strictly fall. Noise rule: going from fast to slow, an option is kept only if it saves
// more than `noise` times the gross energy of the last kept one; what a meter cannot tell apart is not worth a slower
// clock. The fastest option is always kept. Cost O(n log n).
[[nodiscard]] std::vector<ClockOption> pareto_options(const std::vector<ClockOption>& measured, Watts blocking,
                                                      double noise = 0.0);
// Returns the indices of these options in `measured`, by which their labels can be found, too.
[[nodiscard]] std::vector<std::size_t> pareto_indices(const std::vector<ClockOption>& measured, Watts blocking,
                                                      double noise = 0.0);

struct CurveVertex {
  Nanoseconds time = 0;
  double net_joules = 0.0;
};

// A strictly convex, strictly falling polyline, fastest vertex first; a single vertex where the time is constant.
using CostCurve = std::vector<CurveVertex>;

// Returns the lower convex hull of Pareto options. Cost O(n).
[[nodiscard]] CostCurve hull_curve(const std::vector<ClockOption>& pareto, Watts blocking);

// e(t) - P t ~ a exp(b t) + c over t relative to the fastest option, b < 0, fitted by least squares (Perseus 4.1).
struct ExponentialFit {
  double a = 0.0;             // J
  double b = 0.0;             // 1/s
  double c = 0.0;             // J
  Seconds origin;             // time of the fastest option
  double rms_relative = 0.0;  // root mean square residual over the mean gross energy

  [[nodiscard]] double at(Seconds t) const;
};

// Fits with Ceres from three starting points and keeps the best. Needs three options; throws Error when the solver
// fails on all starts (not seen on measured profiles).
[[nodiscard]] ExponentialFit fit_exponential(const std::vector<ClockOption>& pareto, Watts blocking);

// Returns the exponential as a polyline with a vertex every `step` from the fastest to the slowest option; the hull
// where there are fewer than three options.
[[nodiscard]] CostCurve exponential_curve(const std::vector<ClockOption>& pareto, Watts blocking, Nanoseconds step);

}  // namespace flyball
