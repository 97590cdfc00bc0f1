// A window of steps becomes its median, with an error by the median of the deviations, so that single steps that were
// held up by something else count for nothing.
#include "client/drift_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/median.h"

namespace flyball {
namespace {

constexpr double kDeviations = 5.0;            // of a window's level from the profile
constexpr double kDeviationOfMedian = 1.2533;  // of a median, in standard deviations of a mean: sqrt(pi / 2)
constexpr double kLeastDeviation = 2e-4;       // of a step
constexpr double kMostDeviation = 0.1;         // of steps that tell anything
constexpr double kAgreement = 0.01;            // of two windows' levels
constexpr double kLeastCredible = -0.1;  // level: work that is done, not only queued, is about as long as profiled
constexpr double kMostCredible = 0.4;    // level
constexpr double kToldAnew = 0.01;       // change of a drift

}  // namespace

bool DriftWatch::count(std::uint16_t type, Seconds measured, Seconds expected) {
  const double level = std::log(measured / expected);
  if (!std::isfinite(level)) return false;
  Type& one = types_[type];
  one.steps[one.count++] = level;
  if (one.count < kWindowSteps) return false;
  one.count = 0;
  const Window now = look_at(one.steps);
  const Window before = std::exchange(one.before, now);
  ++one.windows_since_told;
  const double drift = std::exp(0.5 * (now.level + before.level));
  bool tell = false;
  if (now.drifted && before.drifted) {
    const double agreement = kAgreement + kDeviations * std::hypot(now.error, before.error);
    if (std::abs(now.level - before.level) > agreement) return false;
    const bool told = std::abs(drift - one.drift) <= kToldAnew && one.windows_since_told < kToldAgain;
    tell = !told;
    if (tell) one.drift = drift;
  } else if (!now.drifted && !before.drifted) {
    tell = std::exchange(one.drift, 0.0) > 0.0;
  }
  if (tell) one.windows_since_told = 0;
  return tell;
}

DriftWatch::Window DriftWatch::look_at(const std::array<double, kWindowSteps>& steps) {
  const auto median_of = [](std::array<double, kWindowSteps> values) {
    std::sort(values.begin(), values.end());
    return 0.5 * (values[kWindowSteps / 2 - 1] + values[kWindowSteps / 2]);
  };
  Window window;
  window.level = median_of(steps);
  std::array<double, kWindowSteps> deviations = steps;
  for (double& value : deviations) value = std::abs(value - window.level);
  const double deviation = std::max(kLeastDeviation, kNormalScale * median_of(deviations));
  window.error = kDeviationOfMedian * deviation / std::sqrt(static_cast<double>(kWindowSteps));
  window.drifted = window.level > kLeastCredible && window.level < kMostCredible && deviation < kMostDeviation &&
                   std::abs(window.level) > kLeastDrift + kDeviations * window.error;
  return window;
}

}  // namespace flyball
