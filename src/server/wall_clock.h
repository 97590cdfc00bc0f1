// The time that outlives the process: when notices begin.
#pragma once

#include <chrono>

namespace flyball {

// Since 1970.
[[nodiscard]] inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace flyball
