// Measures the energy of this rank's GPU from one call to another by a window of the sampler, and finds out whether the
// counter has told all of it. Readings that failed, a counter that stood still and one that is still behind make the
// energy incomplete.
#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/monotonic_time.h"
#include "client/session.h"

namespace flyball {

void Session::window_begin() {
  const std::scoped_lock lock(mutex_);
  if (window_begin_) throw UsageError("a window is open already; end it first");
  window_begin_ = monotonic_now();
  failed_before_window_ = sampler_.state(0).failed;
  window_ = sampler_.open_window(*window_begin_);
}

StepsEnergy Session::window_end() {
  const Nanoseconds end = monotonic_now();
  Nanoseconds begin = 0;
  std::uint64_t window = 0;
  std::size_t failed_before = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (!window_begin_) throw UsageError("no window is open; begin one first");
    begin = *std::exchange(window_begin_, std::nullopt);
    window = window_;
    failed_before = failed_before_window_;
  }
  sampler_.end_window(window, end);
  sampler_.settle(end, kLongestSettling);
  const IntervalEnergy counted = sampler_.close_window(window).front();
  const MeterState meter = sampler_.state(0);
  StepsEnergy result;
  result.time = to_seconds(end - begin) * options_.time_scale;
  result.energy = counted.energy;
  if (!meter.answering) {
    result.problem = fmt::format("{} does not answer", meter.label);
  } else if (meter.failed > failed_before) {
    result.problem =
        fmt::format("{} of {}'s readings failed: {}", meter.failed - failed_before, meter.label, meter.failure);
  } else if (counted.source == EnergySource::kFrozenCounter) {
    result.problem = fmt::format("{}'s counter stood still; its power was added up instead", meter.label);
  } else if (!counted.complete) {
    result.problem =
        fmt::format("{}'s counter has not shown all of it in {:g} s", meter.label, kLongestSettling.value());
  }
  result.complete = result.problem.empty();
  if (!result.complete) notice("the energy of this window is not complete: " + result.problem);
  return result;
}

}  // namespace flyball
