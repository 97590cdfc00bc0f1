// Finds how long after it was asked for a clock takes hold, from what computations take. A driver may answer before the
// board obeys, so that the time until its answer tells nothing; and on real A100s and A40s a clock took hold 4 to 9 ms
// after the operation for which it was asked for had begun.
//
// Whole steps alternate between two clocks, two steps at each. The clock is asked for in the first of the two, when one
// of its computations begins. The second one shows what each of its computations takes once the clock holds. Where in
// the first one computations stop to take what they took at the clock before is where the change took hold, within a
// computation as well: a part of it ran at each clock, so that its length tells how large the parts are.
//
// Clocks are asked for in the midst of steps, as a plan asks for them. At a step's beginning all processes of a node
// report and wake at once, and the same boards seemed to obey two to three times as late there.
//
// The training thread reports steps; any thread may ask for the result. Thread-safe.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "base/units.h"
#include "client/online_profiler.h"

namespace flyball {

class ChangeProbe {
 public:
  // Between two different clocks; computations should take clearly longer at the slow one.
  ChangeProbe(Megahertz fast, Megahertz slow);

  struct Request {
    Megahertz clock;
    std::size_t computation = 0;  // of the step, at whose beginning the clock is to be asked for
  };
  // Returns what to ask for in the step that begins; nothing once the probe is over.
  [[nodiscard]] std::optional<Request> step_begin();
  // Reports the step that began last. Steps at whose end the clock did not hold are taken again, a few times. Costs
  // microseconds, but for the last step, which costs a millisecond at most.
  void step_end(StepRecord step);

  [[nodiscard]] bool finished() const;
  // Returns the median time from the request until the clock held, in CLOCK_MONOTONIC's time. None before the end, and
  // where the steps do not tell it: they ran different computations, these take the same time at both clocks (a program
  // may report when it queues them), or half of the changes differ from the median by more than half of it.
  [[nodiscard]] std::optional<Seconds> delay() const;

 private:
  [[nodiscard]] Megahertz clock_of(std::size_t step) const;  // under the mutex, as evaluate()
  void choose_computation();
  void evaluate();

  const Megahertz fast_;
  const Megahertz slow_;

  mutable std::mutex mutex_;
  std::vector<StepRecord> steps_;  // those that count, from the first at the slow clock
  std::size_t computation_ = 0;    // at whose beginning clocks are asked for
  int refused_ = 0;                // steps that did not count
  bool finished_ = false;
  std::optional<Seconds> delay_;
};

}  // namespace flyball
