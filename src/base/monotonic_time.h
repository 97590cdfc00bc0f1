// CLOCK_MONOTONIC, the clock of the sampler and of everything that is measured with it, and times as other interfaces
// take them.
#pragma once

#include <time.h>

#include <chrono>

#include "base/units.h"

namespace flyball {

// Returns the time of a clock. Costs about 20 ns.
[[nodiscard]] inline Nanoseconds read_clock(clockid_t clock) noexcept {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<Nanoseconds>(time.tv_sec) * kSecond + time.tv_nsec;
}
[[nodiscard]] inline Nanoseconds monotonic_now() noexcept { return read_clock(CLOCK_MONOTONIC); }

[[nodiscard]] inline timespec to_timespec(Nanoseconds t) noexcept { return {t / kSecond, t % kSecond}; }
[[nodiscard]] inline std::chrono::nanoseconds duration_of(Seconds time) {
  return std::chrono::nanoseconds(to_nanoseconds(time));
}

}  // namespace flyball
