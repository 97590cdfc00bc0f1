// What a rank's GPU has saved so far: the energy of its iterations by plan beside that of iterations at maximum clocks,
// both from the GPU's own counter in this training. Nothing of it is planned or emulated.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/monotonic_time.h"
#include "base/units.h"
#include "client/promise_guard.h"
#include "wire/job_messages.h"

namespace flyball {

// Consecutive steps of one kind, by this machine's clock; none where `steps` is 0.
struct Stretch {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  std::int64_t steps = 0;
};

// What has run since the last time that it was taken. For the training thread. Nothing is allocated.
class Stretches {
 public:
  struct Taken {
    Stretch planned;              // a part of the steps below, short enough that the counter's history has it
    std::int64_t iterations = 0;  // by plan
    Stretch at_maximum;           // the latest of its kind; none if there is no new one
  };

  void count(PromiseGuard::Step kind, Nanoseconds begin, Nanoseconds end);
  [[nodiscard]] Taken take();

 private:
  PromiseGuard::Step kind_ = PromiseGuard::Step::kSweep;
  Stretch running_;
  Taken since_;
};

// For one thread.
class Savings {
 public:
  // Returns the energy of an interval, or none where the counter did not tell all of it.
  using Counter = std::function<std::optional<Joules>(Nanoseconds begin, Nanoseconds end)>;

  // Adds what has run. Iterations whose energy, or whose energy at maximum clocks, is not known do not count.
  void add(const Stretches::Taken& taken, const Counter& energy);
  // Returns what has been saved up to now. Times are of this machine's clock.
  [[nodiscard]] const RankSavings& so_far() const { return so_far_; }

 private:
  std::optional<Joules> at_maximum_;  // of an iteration
  Seconds time_at_maximum_;
  RankSavings so_far_;
};

}  // namespace flyball
