// Finds out since when, and by how much, a rank's GPU computes slower than it did when it was profiled
// (docs/decisions/0066-stragglers-are-found.md).
//
// What is watched is the time that a step's computations took over what the rank's own profile says for their clocks:
// in synchronous training all iterations are as long as the slowest rank's, so that their length tells that somebody is
// slow, and not who. Waiting is no part of it. A board that differs from others has its own profile, and what changes
// slowly (temperature) is followed; a change from one step to the next is found within five steps.
//
// The test is a cumulative sum (Page, Continuous inspection schemes, Biometrika 41, 1954) of residuals that are cut off
// at 2.2 allowances, so that no one or two outliers can end it (Lucas and Crosier, Robust CUSUM, Communications in
// Statistics 11, 1982). It has a threshold of 2.5 allowances, and an allowance of 2.2 standard deviations or 1.5 %,
// whichever is more. For normal residuals Siegmund's approximation (Sequential Analysis, 1985) then gives one false
// alarm in more than 10^11 steps.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/units.h"

namespace flyball {

// Of one rank. Pure logic: no clock, no thread, nothing is allocated. A call costs less than a microsecond, once a
// step.
class PaceWatch {
 public:
  static constexpr std::size_t kReferenceSteps = 10;  // from which the usual pace is taken
  static constexpr double kLeastAllowance = 0.015;    // slow-downs of twice as much are found within five steps
  static constexpr double kMostDrift = 0.05;          // slow change that is followed; more is a slow-down

  PaceWatch() = default;
  // `least_credible`: the natural logarithm of the least pace that is taken for a measured one; the default is that of
  // computations.
  explicit PaceWatch(double least_credible) : least_credible_(least_credible) {}

  struct Change {
    double slowdown = 1.0;   // computing time over the usual, rather too low than too high; 1: as usual again
    std::int64_t since = 0;  // the first step of which this is so
  };

  // Counts a step, whose computations took `measured` where the profile says `expected`; both above 0. Returns the
  // change that has been found, if any. While nothing is credible (computations that take far less than in the profile,
  // as when work is only queued) there is none.
  std::optional<Change> count(std::int64_t step, Seconds measured, Seconds expected);

  // Forgets all. The next steps are of another profile.
  void begin_anew() { *this = PaceWatch(least_credible_); }

  [[nodiscard]] bool is_slow() const { return slow_; }
  // Returns whether the usual pace is known.
  [[nodiscard]] bool is_watching() const { return watching_; }
  // Returns measured over expected time of steps that are not slow. Needs is_watching().
  [[nodiscard]] double usual() const { return std::exp(slow_ ? planned_ : usual_); }

 private:
  static constexpr std::size_t kScaleSteps = 32;
  // The latest of something.
  template <std::size_t Most>
  struct Latest {
    std::array<double, Most> values{};
    std::size_t count = 0;  // of all that there have been
    void add(double value) { values[count++ % Most] = value; }
    [[nodiscard]] std::size_t size() const { return count < Most ? count : Most; }
  };
  // A one-sided cumulative sum.
  struct Sum {
    double sum = 0.0;
    std::size_t steps = 0;  // since it was 0
    void add(double excess) {
      sum += excess;
      steps = sum > 0.0 ? steps + 1 : 0;
      if (sum <= 0.0) sum = 0.0;
    }
  };

  void take_reference();
  void follow(double residual);
  [[nodiscard]] double deviation() const;
  [[nodiscard]] double allowance() const;
  [[nodiscard]] double level_since(std::size_t steps) const;  // of the last so many steps
  [[nodiscard]] bool agree(std::size_t steps) const;          // likewise
  [[nodiscard]] std::optional<Change> changed(const Sum& sum, std::int64_t step);
  [[nodiscard]] Change report(std::size_t steps);
  [[nodiscard]] Change recovered(double pace);

  // Paces are logarithms of measured over expected.
  double least_credible_ = -0.1;     // work that is done, not only queued, is about as long as profiled
  Latest<kScaleSteps> differences_;  // of successive steps: whatever changes slowly is not in them
  Latest<kReferenceSteps> recent_;
  bool watching_ = false;
  double anchor_ = 0.0;     // the pace at first
  double usual_ = 0.0;      // the pace of steps that are not slow, which is followed
  double faster_by_ = 0.0;  // by how much it has become faster at once: to be as slow as planned is not to be slow
  bool slow_ = false;
  double planned_ = 0.0;  // the pace that a slow one is compared with
  double slow_pace_ = 0.0;
  double jump_ = 0.0;           // by which it became slow at once
  std::size_t slow_steps_ = 0;  // at this pace
  double reported_ = 0.0;       // slow-down
  std::int64_t since_ = 0;
  Sum slower_;
  Sum faster_;
};

}  // namespace flyball
