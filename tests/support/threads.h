// Threads of this process that nobody joins. The leak sanitizer looks into the stacks of all threads when the process
// exits, and fails where one ends just then.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <thread>

namespace flyball::testing {

inline std::size_t thread_count() {
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

// Waits until there are at most so many, but no longer than some seconds.
inline void wait_for_threads_to_end(std::size_t most) {
  for (int i = 0; i < 5000 && thread_count() > most; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace flyball::testing
