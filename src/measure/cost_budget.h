// Decides how often to read counters that change at every reading, so that sampling costs no more than it may.
//
// Problem: a thread that is woken 250 times a second takes 0.2 to 0.9 % of a processor before it has read anything.
// Some rounds of readings have to be: those around the changes of slow sensors. The others only serve counters that are
// finer than the sampling (RAPL: 1 ms), which say as much when they are read less often, with less resolution in time.
//
// Idea: a round costs c (processor time of the reading thread by rounds), and f rounds a second are needed anyway. Read
// in every k-th period only, the fine counters make for (1/period - f) / k rounds more, so that
//   c (f + (1/period - f) / k) <= most
// gives the smallest k that the budget has room for. c and f are means of about the last two seconds. k grows at once;
// it shrinks where the budget would be kept with 10 % to spare and k is at least a fifth too large, so that it stays
// where it is while costs waver. This looks at what rounds cost, not at how many there were: they come in steps of the
// slow sensors' rhythm, and a control that follows those would swing.
//
// Counters that take long to read by themselves, whatever woke the thread (an H100's: 2 to 3 ms of processor time),
// have two thirds of what sampling may cost. Their readings count for no round, and the rest serves the others. How
// their rhythm lets them be read seldom is told in decision 0089.
//
// Not thread-safe: it belongs to the thread that reads.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace flyball {

// Returns what sampling may cost where nobody asked for a period, as a share of one processor: seven tenths of 0.1 % of
// the processors that this process may run on. The rest is for writing down what was read.
[[nodiscard]] double usual_sampling_cost();

class CostBudget {
 public:
  // `most` is a share of one processor; 0: no limit, and k stays 1. `begin` is the present time, at which reading
  // begins.
  CostBudget(double most, Nanoseconds period, Nanoseconds begin);

  // Counts a round of readings. `needed` tells whether it read more than fine counters, `late` how long after it was
  // due it came; that time does not count as passed, so that a process that was stopped does not make up for it. `dear`
  // is the processor time that reading dear counters took.
  void count_round(bool needed, Nanoseconds late, Nanoseconds dear = 0);
  [[nodiscard]] bool look_is_due(Nanoseconds now) const { return most_ > 0.0 && now >= next_look_; }
  // Chooses k anew. `processor_time` is that of the reading thread since it began.
  void look(Nanoseconds now, Nanoseconds processor_time);

  [[nodiscard]] bool limited() const { return most_ > 0.0; }
  // How far apart the readings of dear counters are, one of all of which takes that much processor time together; at
  // most a second.
  [[nodiscard]] Nanoseconds dear_interval(Nanoseconds processor_time) const;

  // k, at least 1: fine counters are read in every k-th period.
  [[nodiscard]] std::int64_t periods() const { return periods_; }

 private:
  struct Sums {
    double seconds = 0.0;
    double processor_seconds = 0.0;
    double rounds = 0.0;
    double needed = 0.0;
    double dear_seconds = 0.0;  // of the processor's
  };
  void choose();

  double most_;
  double period_s_;
  std::int64_t most_periods_;
  std::int64_t periods_ = 1;
  Sums sums_;                  // of the past, older seconds weighing less
  Sums latest_;                // since the last look
  Nanoseconds last_look_ = 0;  // 0: none yet
  Nanoseconds next_look_;
  Nanoseconds processor_time_ = 0;
};

}  // namespace flyball
