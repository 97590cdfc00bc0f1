// Attribution for operations far shorter than the sensor's period: the mean power of each operation by non-negative
// least squares over many readings.
//
// Problem. A reading is the device's power averaged over the sensor's window W (some 100 ms on NVIDIA's boards), which
// is longer than most kernels. Recency gives every operation the average of what ran before it, so that the footprint
// becomes proportional to the operations' times and loses the differences of their powers.
//
// Idea. What ran in each window is known to the microsecond. With x_kj the share of window k in which operation j ran
// (divided among those that ran at once; j = 0: nothing ran) and y_k the reading,
//
//   min over P >= 0   sum_k (y_k - sum_j x_kj P_j)^2 + lambda sum_j (P_j - P0_j)^2
//
// where P0 are the mean powers of the sweep: what the readings cannot tell stays as it was. lambda is the ratio of the
// readings' variance around the fit to the variance of P around P0, found by iteration (empirical Bayes). At the end
// all energies P_j * time_j, the idle one included, are scaled by one factor, so that measured = attributed + idle
// holds.
//
// The regression is better than the sweep where operations are shorter than W, run many times, and do not run in
// lockstep with the sensor. It is no better where they are longer than W, and of no use where an operation ran but
// once. Operations whose power changes from run to run get its mean. docs/performance.md has the errors of both methods
// over the sampling period.
//
// The method "both" does without the factor and without the penalty on the way from P0. What the sweep gives one
// operation and takes from another follows from the powers exactly (survey.h):
//
//   E_j = sweep_j + t_j P_j - sum_i A_ji P_i,     A = sum_k T_k x_k x_k'
//
// over the readings of the fit, with P the posterior's powers (power_posterior.h). The corrections add up to 0, so that
// energy is conserved; they vanish where an operation fills its readings, and where no power is known to differ from
// the mean. It needs readings that are means over their own segments, as a counter's are.
//
// Operations that run at once share one power, or each adds its own, P_j - P_0, to that of idle time. The second is as
// linear: x_kj is then the whole of the time in which j ran, x_k0 = 1 - sum x_kj may be negative, and the sweep's error
// follows with both designs in A. Which of them holds, the caller asks of readings (attribution_method.h).
//
// The error of both methods' energies is t_j times that of P_j in the posterior, and known up to kMostJudged unknowns.
// Operations of which only the sum is known form a group.
//
// How well the powers explain the readings is judged by readings that they were not fitted to: cross-validation by two
// halves, to which blocks of readings are assigned.
//
// Cost: per reading the square of the number of operations in its window, then a dozen factorisations of operations^3 /
// 3, and for the errors 20 operations^3. Memory: a few operations^2 per device; beyond kMostUnknowns the rarer ones
// share one unknown.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "account/attribution.h"
#include "base/units.h"
#include "trace/trace.h"

namespace flyball {

struct RegressionOptions {
  AttributionOptions attribution;
  // The time up to its stamp over which a reading averages. 0: its own segment, as with an energy counter.
  Seconds sensor_window;
  // kAuto: where powers are told well enough, kBoth, or kRegress where there is a sensor's window; elsewhere the
  // sweep's numbers stand, with the error that the readings give them.
  AccountMethod method = AccountMethod::kRegress;
  std::vector<bool> devices{};  // which to fit; none stated: all. The others have the sweep's numbers.
  // Devices on which the powers of operations that run at once add up above that of idle time; on all others such
  // operations share one power. For kAuto and kBoth without a window, and up to kMostJudged unknowns.
  std::vector<bool> adds{};
  // Time constants with which counters follow the power, by device; for the same methods. x gets what is due at the
  // reading's begin, less what is due at its end (reading_watch.h), times this over the reading's length.
  std::vector<Seconds> smoothing{};
};

struct RegressionFit {
  DeviceId device = 0;
  std::size_t readings = 0;  // 0: none was usable, and the sweep's numbers stand
  std::size_t unknowns = 0;
  Watts deviation;  // of the readings from their mean (standard; by their length where the window is 0)
  // The part of the readings' variance that powers fitted to the other half of them predict; 0 where they are no better
  // than the mean, as where power does not depend on what ran. None where readings do not vary, or are too few to be
  // halved.
  std::optional<double> explained;
  double scale = 1.0;  // the factor that conserves energy; near 1 even where the window is wrong
  AccountMethod method = AccountMethod::kRegress;  // by which the operations got their energy
  Seconds lag;  // by which the readings are later than they say, as far as the fit can tell (lag_equations.h)
  Seconds lag_deviation;
  Seconds moved{};            // by which they were moved before the fit
  Seconds smoothing{};        // the counter's time constant
  bool straightened = false;  // whether its stamps were (regular_power.h)
  bool adds = false;          // whether powers of operations that run at once add up
};

struct RegressedAttribution {
  Attribution attribution;
  std::vector<RegressionFit> fits;  // in order of device
};

inline constexpr std::size_t kMostUnknowns = 3000;
inline constexpr std::size_t kMostJudged = 1000;

// Reads both sources to their ends. Throws what they throw.
[[nodiscard]] RegressedAttribution attribute_by_regression(EventSource& events, PowerSource& power,
                                                           const RegressionOptions& options);

}  // namespace flyball
