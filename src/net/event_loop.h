// One thread's queue of work: posted functions, timers, descriptors that became readable, signals.
//
// Everything that a loop calls runs in the thread that is inside run(), one at a time, so what only handlers touch
// needs no lock. Timers use the monotonic clock: setting the wall clock changes nothing.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/units.h"

namespace flyball {

class EventLoop {
 public:
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs handlers until stop(). An exception that leaves a handler is noted (base/contain.h) and ends that handler
  // only.
  void run();
  void stop();  // any thread

  void post(std::function<void()> action);  // any thread

  // Stands for something that is waited for. When the last copy of the handle goes, the wait and its action are
  // forgotten. Handles are to be made and dropped in the loop's thread only, or while run() is not running.
  using Handle = std::shared_ptr<void>;

  [[nodiscard]] Handle after(Seconds delay, std::function<void()> action);
  [[nodiscard]] Handle every(Seconds period,
                             std::function<void()> action);  // periods that were missed are not made up for
  // Calls `action` once. The descriptor stays the caller's and must outlive the handle.
  [[nodiscard]] Handle when_readable(int descriptor, std::function<void()> action);
  [[nodiscard]] Handle on_signals(const std::vector<int>& signals, std::function<void(int)> action);

  class Impl;
  [[nodiscard]] Impl& impl() { return *impl_; }  // for the server, which lives on the same queue

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace flyball
