// A thread that does one thing again and again, with pauses between.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>

#include "base/units.h"

namespace flyball {

class PeriodicThread {
 public:
  // Calls `turn` at once, and again when the time that it returned has passed. What it throws is noted under `where`,
  // which must outlive this object (base/contain.h); `period` is then the pause.
  PeriodicThread(std::string_view where, Seconds period, std::function<Seconds()> turn);
  // Waits for a turn that is under way.
  ~PeriodicThread();
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;

  // Both are thread-safe and wait for nothing. After wake() another turn begins at once or, while one is under way,
  // right after it; after stop(), none.
  void wake();
  void stop();

 private:
  void work();

  std::string_view where_;
  Seconds period_;
  std::function<Seconds()> turn_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace flyball
