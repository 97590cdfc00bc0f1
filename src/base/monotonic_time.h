// CLOCK_MONOTONIC, the clock of the sampler and of everything that is measured with it.
#pragma once

#include <time.h>

#include "base/units.h"

namespace flyball {

// Costs about 20 ns.
[[nodiscard]] inline Nanoseconds monotonic_now() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<Nanoseconds>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace flyball
