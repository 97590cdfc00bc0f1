// A thread that keeps a controller's clocks between its cycles, and while the cluster engine does not answer.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/units.h"
#include "controller/controller.h"

namespace flyball {

// Adjusts once in each period, at once when a budget is ordered, and twenty times a second while clocks settle.
class ClockThread {
 public:
  // The controller must outlive this object. Nobody may order a budget before this object is there.
  ClockThread(Controller& controller, Seconds period);
  ~ClockThread();
  ClockThread(const ClockThread&) = delete;
  ClockThread& operator=(const ClockThread&) = delete;

 private:
  void work();

  Controller& controller_;
  Seconds period_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ordered_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace flyball
