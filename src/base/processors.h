// How many processors this process may run on. Header only.
#pragma once

#include <sched.h>

#include <algorithm>
#include <thread>

namespace flyball {

// Returns at least 1. It is less than the machine has where taskset, a container or a batch system says so, which
// std::thread::hardware_concurrency() does not see.
inline unsigned usable_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1u, static_cast<unsigned>(CPU_COUNT(&set)));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace flyball
