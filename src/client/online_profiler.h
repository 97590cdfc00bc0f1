// Profiles a rank's instructions while the training goes on (Perseus section 5, online time/energy profiler).
//
// A sweep at iteration granularity: from the highest clock downwards, `steps_per_clock` steps each, until the energy of
// a step's instructions has risen `rises_to_stop` times in a row (base/rise_count.h). Every rank sweeps by itself; what
// its neighbours do shows only in how long it waits.
//
// Something else on the machine that slows a good part of a clock's steps would leave energies that are wrong in both
// directions, and a planner looks for the lowest ones. Such a clock shows by runs of one instruction that are far
// apart; its steps are taken again, a few times at most, and the steadiest count. A clock whose energy the counter did
// not tell whole is measured once more, at the sweep's end.
//
// Three parties: the training thread says which steps ran when; some other thread calls evaluate(), which reads the
// energy counter and solves (client/instruction_energy.h); anyone may look at the progress. Nothing here reads a clock,
// sets one or starts a thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/rise_count.h"
#include "base/units.h"
#include "client/instruction_energy.h"

namespace flyball {

// One clock of a rank, measured.
struct ProfiledClock {
  Megahertz clock;
  ActivityEstimate activity;  // times and energies per instruction type
  Seconds step_time;          // mean, waiting included
  Joules step_energy;         // of one step's instructions, waiting excluded: what the sweep watches
  bool complete = true;       // false: the counter did not tell all of the energy, these are no figures
  bool again = false;         // then: its steps will be taken once more
};

struct SweepProgress {
  int clocks_done = 0;
  int clocks_most = 0;  // where the sweep ends if the energy keeps falling
  bool finished = false;
};

// One step as the training thread saw it.
struct StepRecord {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  Nanoseconds in_effect = 0;  // from when on the wanted clock held; 0: not at the step's end
  std::vector<InstructionSpan> spans;
};

// The counter's changes later than a moment, oldest first, and up to when nothing will be added.
struct CounterNews {
  std::vector<CounterPoint> changes;
  Nanoseconds settled = 0;
  std::function<bool(Nanoseconds begin, Nanoseconds end)> whole;  // whether it told all of a time; null: it did
};
using CounterSource = std::function<CounterNews(Nanoseconds after)>;

// Thread-safe; no call but evaluate() takes longer than microseconds (step_end() sorts a clock's runs, once for each),
// and none waits for evaluate().
class OnlineProfiler {
 public:
  struct Options {
    int steps_per_clock = 5;
    int rises_to_stop = kRisesToStop;
    int warm_up_steps = 1;   // at the highest clock, not measured
    int clock_stride = 1;    // every so many-th clock of the list
    Nanoseconds settle = 0;  // after a clock took hold, before measurements count
  };

  // `clocks`: highest first, at least one.
  OnlineProfiler(const std::vector<Megahertz>& clocks, Options options);

  // The clock for the step that begins; nothing once the sweep is over.
  [[nodiscard]] std::optional<Megahertz> step_begin();
  // The step that began last. One during most of which the clock did not hold is not counted.
  void step_end(StepRecord step);

  // Evaluates the clocks that are complete; the new ones, in the order of the sweep. One thread at a time.
  std::vector<ProfiledClock> evaluate(const CounterSource& counter, std::size_t type_count);

  [[nodiscard]] SweepProgress progress() const;

 private:
  struct Collected {
    Megahertz clock;
    Nanoseconds from = 0;
    Nanoseconds until = 0;
    int steps = 0;
    std::vector<InstructionSpan> spans;
  };

  void stop();  // under the mutex
  [[nodiscard]] ProfiledClock measure(const Collected& collected, std::size_t type_count) const;

  const Options options_;

  mutable std::mutex mutex_;
  std::vector<Megahertz> clocks_;
  std::size_t falling_;      // so many of the clocks, the first ones, fall; behind them stand those to measure again
  std::size_t current_ = 0;  // index into clocks_
  int warm_up_left_ = 0;
  bool swept_ = false;   // no more steps are wanted
  bool jumped_ = false;  // the step that began last was of another clock
  Collected collecting_;
  Collected steadiest_;  // of the attempts at the current clock, with its spread
  double spread_ = 0.0;
  int attempts_ = 0;
  std::optional<double> least_spread_;  // of the clocks that are complete
  std::vector<Collected> complete_;     // not yet evaluated
  int evaluated_ = 0;
  bool stopped_ = false;

  // evaluate()'s own.
  std::vector<CounterPoint> points_;
  RiseCount energy_rises_;
};

}  // namespace flyball
