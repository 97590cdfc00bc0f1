// What a rank's GPU has saved so far: the energy of its iterations by plan beside that of iterations at maximum clocks,
// both from the GPU's own counter in this training. Nothing of it is planned or emulated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/monotonic_time.h"
#include "base/units.h"
#include "client/promise_guard.h"
#include "client/window_mean.h"
#include "wire/job_messages.h"

namespace flyball {

// Consecutive steps of one kind and one schedule, by this machine's clock; none where `steps` is 0. They are cut into
// windows of as many steps each, which a counter tells apart; the steps behind the last window are not in the stretch.
// A stretch that is too short has no windows, and is one as a whole.
struct Stretch {
  static constexpr std::size_t kMostWindows = 16;

  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  std::int64_t steps = 0;
  std::int64_t version = 0;  // of the schedule
  std::array<Nanoseconds, kMostWindows> window_ends{};
  std::size_t windows = 0;
  std::int64_t steps_of_window = 1;
};

// What has run since the last time that it was taken. For the training thread. Nothing is allocated; a step costs some
// nanoseconds.
class Stretches {
 public:
  // How long a stretch may be, so that the counter's history still has all of it.
  explicit Stretches(Nanoseconds longest = 40'000 * kMillisecond) : longest_(longest) {}

  struct Taken {
    Stretch planned;              // a part of the steps below, short enough that the counter's history has it
    std::int64_t iterations = 0;  // by plan
    Stretch at_maximum;           // the latest of its kind; none if there is no new one
  };

  void count(PromiseGuard::Step kind, Nanoseconds begin, Nanoseconds end, std::int64_t version = 0);
  [[nodiscard]] Taken take();

 private:
  void extend(Nanoseconds end);

  Nanoseconds longest_;
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
  // Returns what an iteration takes by the schedule of this version, nothing where it has not been measured, and at
  // maximum clocks when these ran last. What stretches of one version tell is put together, so that the errors fall.
  [[nodiscard]] IterationEnergy of_iteration(std::int64_t version) const;

 private:
  struct Measured {
    std::int64_t version = -1;
    WindowMean energy;  // J
    WindowMean time;    // s
  };
  static std::optional<Measured> measure(const Stretch& stretch, const Counter& energy);
  static void merge(Measured& into, const Measured& more);

  Measured planned_;
  Measured at_maximum_;
  RankSavings so_far_;
  // Of the errors of so_far_: what an iteration at maximum clocks takes is the same for many iterations, so that its
  // errors add up as they are; those of iterations by plan add up by their squares.
  Joules energy_error_at_maximum_;
  Seconds time_error_at_maximum_;
  double energy_squares_ = 0.0;
  double time_squares_ = 0.0;
};

}  // namespace flyball
