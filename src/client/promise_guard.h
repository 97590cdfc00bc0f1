// Compares what iterations take with what their schedule promises, and gives the clocks of a schedule up under which
// they take longer (docs/decisions/0061-a-promise-is-kept-or-given-up.md).
//
// A promise is relative: an iteration may take `ratio` times as long as one at maximum clocks, 1 where nothing else
// sets the pace. What one at maximum clocks takes is measured in a few steps when the first schedule after a sweep
// comes, as it does to all ranks at about the same time, and again whenever the server asks all ranks for it
// (`at_maximum`).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/units.h"

namespace flyball {

// Of one rank. Times are of this machine's clock. Not thread-safe; nothing is allocated. A call costs at most some
// microseconds, once a step.
class PromiseGuard {
 public:
  static constexpr int kMeasuredSteps = 10;  // that a verdict needs, unless the budget is spent before
  // A step that has taken so many times what it may is continued at default clocks.
  static constexpr double kLateStep = 1.1;

  // What a step ran at.
  enum class Step {
    kSweep,      // clocks of the sweep; counted by count_swept()
    kAtMaximum,  // default clocks
    kPlanned,    // the schedule's clocks
  };

  struct Report {
    bool slower = false;          // whether the schedule is given up
    std::int64_t iterations = 0;  // of this version that have run
    Seconds time;                 // that one takes: the mean of the last ten, or of all of fewer
    Seconds at_maximum;           // that an iteration takes at maximum clocks; 0: unknown
  };

  // Tells which schedule the next step belongs to, before each step. `ratio` is 0 where nothing is promised: its clocks
  // are then never given up. Of a plan inside limits on power, `ratio` is 0 and `limited_time` what an iteration may
  // take; whether it does is reported, and changes nothing.
  void adopt(std::int64_t version, double ratio, bool at_maximum, Seconds limited_time = {});

  [[nodiscard]] std::int64_t version() const { return version_; }

  // Returns whether the next step may run by the schedule's clocks. It may not while the schedule has been given up,
  // and before it is known what a step takes at maximum clocks.
  [[nodiscard]] bool may_set_clocks() const;

  // Returns how long the next step may take before its clocks are to be given up in its middle; infinite where nothing
  // is known.
  [[nodiscard]] Seconds patience() const;

  // Counts a step; `given_up` says that its clocks were given up in its middle. Returns a report at once where the
  // schedule is given up, again from time to time while that lasts, and else after 10, 20, 40, ... and then every 1,024
  // iterations of a version; at maximum clocks every 10.
  std::optional<Report> count(Step step, Seconds time, bool given_up = false);
  // Counts a step of the sweep, at this clock. How far such steps differ among themselves tells which stalls the
  // training has anyway.
  void count_swept(Megahertz clock, Seconds time);

 private:
  // The latest of something, oldest first.
  template <std::size_t Most>
  struct Latest {
    std::array<double, Most> values{};
    std::size_t size = 0;
    void add(double value) {
      if (size == Most) {
        for (std::size_t i = 1; i < Most; ++i) values[i - 1] = values[i];
        --size;
      }
      values[size++] = value;
    }
  };
  static constexpr std::size_t kMostMeasured = 100;
  struct Reference {
    double time = 0.0;       // of an iteration at maximum clocks, s; 0: unknown
    double spread = 0.0;     // standard deviation of one, as a share of it, without outliers
    double excess = 0.0;     // of the mean of all over the time above: what outliers add at maximum clocks
    double longest = 0.0;    // excess of the longest over the time above
    double of_spread = 0.0;  // standard deviation of the time above, as a share of the spread
  };

  std::optional<Report> count_at_maximum(double time);
  std::optional<Report> count_planned(double time, bool given_up);
  std::optional<Report> count_limited(double time);
  void leave_maximum();
  void measure_maximum();
  void close_swept_clock();
  [[nodiscard]] bool is_report_due();
  Report give_up(double time);
  void spend(double excess);
  [[nodiscard]] bool is_spent() const;
  [[nodiscard]] bool is_slower(double time);
  [[nodiscard]] double promised() const { return reference_.time * ratio_; }
  [[nodiscard]] bool knows_maximum() const { return reference_.time > 0.0; }

  std::int64_t version_ = 0;
  double ratio_ = 0.0;
  bool at_maximum_ = false;
  double limited_time_ = 0.0;  // s; 0: the schedule is not inside limits
  bool given_up_ = false;
  Report broken_;  // what was reported then
  Reference reference_;
  bool settling_ = true;  // the step before ran at other clocks
  Megahertz swept_clock_;
  Latest<kMeasuredSteps> swept_;  // at that clock
  struct Stalls {                 // of the sweep, by how much steps exceed the median of their clock
    double sum = 0.0;
    double longest = 0.0;
    double steps = 0.0;
  };
  Stalls stalls_;
  Latest<kMostMeasured> at_maximum_times_;
  Latest<kMostMeasured> times_;  // of this version's steps
  double spent_ = 0.0;           // by a run of steps that are too long, in iterations
  double longest_ = 0.0;         // excess of one of these, likewise
  std::int64_t iterations_ = 0;
  std::int64_t report_at_ = kMeasuredSteps;
};

}  // namespace flyball
