// The wall clock, for times that must mean the same after a restart, such as those at which notices begin.
#pragma once

#include <chrono>

namespace flyball {

// Returns seconds since 1970.
[[nodiscard]] inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace flyball
