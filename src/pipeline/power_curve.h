// The power that a plan takes over one iteration: what a meter before all GPUs of a job would show, and the figures by
// which grids and data centres limit the shape of such a curve.
//
// Plans run over and over, so that the curve repeats. An operation draws its mean power, energy over time. A stage that
// waits draws its blocking power and what waiting takes above that at the clock that it keeps; a transfer adds what it
// draws above the wait. The integral over an iteration is the plan's energy (Perseus eq. 3, energy_of()).
//
// What happens within an operation is not in it: a GPU's power rises and falls between kernels, and a board's regulator
// smooths it. A peak is therefore one of means over operations.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/units.h"
#include "pipeline/timeline.h"

namespace flyball {

struct PowerCurve {
  std::vector<Nanoseconds> begin;  // rising, from 0; one for each power
  std::vector<Watts> power;        // from begin[k] until begin[k + 1]; no two neighbours are equal
  Nanoseconds period = 0;          // the end of the last, where the curve begins again

  [[nodiscard]] Nanoseconds end_of(std::size_t k) const { return k + 1 < begin.size() ? begin[k + 1] : period; }
};

// Something draws so much from one moment until another.
struct PowerDraw {
  Nanoseconds from = 0;
  Nanoseconds until = 0;
  Watts power;
};

// Returns the sum of pieces between 0 and `period`, `copies` times, where some piece begins at 0. Cost O(n log n).
[[nodiscard]] PowerCurve sum_of(const std::vector<PowerDraw>& pieces, Nanoseconds period, int copies);

// Returns the curve of `copies` GPUs in step on every stage: data-parallel pipelines begin their iterations together,
// after the same reduction, and tensor-parallel ranks do the same work. `blocking` holds one power per stage; a
// `period` above the iteration's time is that of a straggler for which the pipelines wait. Cost O(n log n) for n
// operations.
[[nodiscard]] PowerCurve power_curve(const ComputationDag& dag, const ClockPlan& plan, std::span<const Watts> blocking,
                                     int copies = 1, Nanoseconds period = 0);

// Returns such a curve for one GPU of each stage, where operations take `durations` and run as `timeline` says, as a
// plan's do whose clock changes take hold late; they draw the mean power that was measured at the plan's clocks all the
// same. The curves of a plan
// whose operations take what was measured add up to power_curve(). Cost O(n log n).
[[nodiscard]] std::vector<PowerCurve> stage_power_curves(const ComputationDag& dag, const ClockPlan& plan,
                                                         std::span<const Watts> blocking, const Timeline& timeline,
                                                         std::span<const Nanoseconds> durations,
                                                         Nanoseconds period = 0);

[[nodiscard]] Watts peak_of(const PowerCurve& curve);

// Returns the greatest change per second of the power averaged over `window`, from one window to the one after it, in
// W/s. An operation begins at once, so that a slope at a moment would say nothing. Cost O(n log n) for n pieces.
[[nodiscard]] double ramp_of(const PowerCurve& curve, Seconds window);

// The band in which oscillations of a load disturb turbines and generators (Choukse et al., "Power stabilization for AI
// training datacenters", arXiv 2508.14318).
inline constexpr double kSwingFromHz = 0.1;
inline constexpr double kSwingToHz = 20.0;

// The strongest oscillation in that band: of the curve's harmonics the one with the greatest amplitude.
struct PowerSwing {
  Watts peak_to_peak;  // twice the amplitude; 0 where the band holds no harmonic
  double hertz = 0.0;
};

// Cost O(n h) for n pieces and h harmonics up to 20 Hz, at most kMostHarmonics of them: those of the lowest
// frequencies.
inline constexpr int kMostHarmonics = 4096;
[[nodiscard]] PowerSwing swing_of(const PowerCurve& curve);

struct PowerShape {
  Watts mean;
  Watts least;
  Watts peak;
  Watts greatest_step;        // from one moment to the next, from the curve's end to its beginning included
  double ramp_w_per_s = 0.0;  // ramp_of()
  PowerSwing swing;
};

// Without `with_swing`, the swing, which costs most, is left at 0.
[[nodiscard]] PowerShape shape_of(const PowerCurve& curve, Seconds ramp_window, bool with_swing = true);

}  // namespace flyball
