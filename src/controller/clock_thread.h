// A thread that keeps a controller's clocks between its cycles, and while the cluster engine does not answer.
#pragma once

#include <functional>

#include "base/periodic_thread.h"
#include "base/units.h"
#include "controller/controller.h"

namespace flyball {

// Adjusts once in each period, at once when a budget is ordered, and twenty times a second while clocks settle.
class ClockThread {
 public:
  // The controller must outlive this object. Nobody may order a budget before this object is there. `now` is the clock
  // by which the controller's cycles go; it is called in the thread.
  ClockThread(Controller& controller, Seconds period, std::function<Seconds()> now);

 private:
  PeriodicThread thread_;
};

}  // namespace flyball
