// Profiles a rank's instructions while the training goes on (Perseus section 5, online time/energy profiler).
//
// A sweep sets one clock for whole steps. It goes from the highest clock downwards, `steps_per_clock` steps each, until
// the energy of a step's instructions has risen `rises_to_stop` times in a row (base/rise_count.h), since lower clocks
// then cost both time and energy. Every rank sweeps by itself; the sweeps of its neighbours only change how long it
// waits.
//
// If something else on the machine slows many of a clock's steps, its energies come out wrong in both directions, and a
// planner would pick the lowest. Such a clock is recognised by runs of one instruction that differ much in length; its
// steps are taken again, a few times at most, and the steadiest count. A clock of whose energy the counter missed a
// part is measured once more, at the sweep's end.
//
// The training thread reports which steps ran when. Another thread calls evaluate(), which reads the energy counter and
// solves for the energies (client/instruction_energy.h). Any thread may ask for the progress. The profiler sets no
// clock, does not ask for the time, and starts no thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/rise_count.h"
#include "base/units.h"
#include "client/instruction_energy.h"
#include "wire/job_messages.h"

namespace flyball {

// One clock of a rank, measured.
struct ProfiledClock {
  Megahertz clock;
  ActivityEstimate activity;  // times and energies per instruction type
  Seconds step_time;          // mean, waiting included
  Joules step_energy;         // of one step's instructions, waiting excluded; its rises end the sweep
  bool complete = true;       // false: the counter missed a part of the energy, and these figures mean nothing
  bool again = false;         // where the clock is not complete: whether its steps will be taken once more
};

// Returns what is to be reported of the instructions, energies that are not known left out. Of computations also what
// the first and the last of a step took (base/own_name.h). A type's `name` is asked for by its number, and times are
// multiplied by `time_scale`.
[[nodiscard]] std::vector<InstructionMeasurement> measurements_of(const ProfiledClock& measured,
                                                                  const std::function<std::string(std::size_t)>& name,
                                                                  double time_scale = 1.0);

struct SweepProgress {
  int clocks_done = 0;
  int clocks_most = 0;  // `clocks_done` at the end of the sweep if the energy keeps falling
  bool finished = false;
};

// One step as the training thread saw it.
struct StepRecord {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  Nanoseconds in_effect = 0;  // since when the wanted clock held; 0: it did not hold at the step's end
  std::vector<InstructionSpan> spans;
};

// The counter's changes after the requested time, oldest first; none will be added before `settled`.
struct CounterNews {
  std::vector<CounterPoint> changes;
  Nanoseconds settled = 0;
  // Tells whether the counter told all energy of a span of time; null: it always did.
  std::function<bool(Nanoseconds begin, Nanoseconds end)> whole;
};
using CounterSource = std::function<CounterNews(Nanoseconds after)>;

// Thread-safe. Only evaluate() takes longer than microseconds (step_end() sorts a clock's runs, once per clock), and no
// other call waits for it.
class OnlineProfiler {
 public:
  // With which energies of some five types are known to a third of a per cent (docs/decisions/0093-lead-time.md).
  static constexpr int kEnoughReadings = 100;
  static constexpr int kMostTimesTheSteps = 4;

  struct Options {
    int steps_per_clock = 5;
    // Takes more steps at a clock, up to kMostTimesTheSteps times as many, until the counter has changed so often.
    int least_readings = 0;
    int rises_to_stop = kRisesToStop;
    int warm_up_steps = 1;   // at the highest clock, not measured
    int clock_stride = 1;    // takes every clock_stride-th clock of the list
    Nanoseconds settle = 0;  // after a clock took hold, before measurements count
  };

  // `clocks`: highest first, at least one.
  OnlineProfiler(const std::vector<Megahertz>& clocks, Options options);

  // Returns the clock for the step that begins; nothing once the sweep is over.
  [[nodiscard]] std::optional<Megahertz> step_begin();
  // Reports the step that began last. It is not counted if the clock did not hold during most of it.
  void step_end(StepRecord step);

  // Evaluates the clocks that are complete, and returns the new ones in the order of the sweep. May be called by one
  // thread at a time.
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

  void stop();  // under the mutex, as the next
  [[nodiscard]] bool collected_enough() const;
  [[nodiscard]] ProfiledClock measure(const Collected& collected, std::size_t type_count) const;

  const Options options_;

  mutable std::mutex mutex_;
  std::vector<Megahertz> clocks_;
  std::size_t falling_;      // the number of falling clocks at the front; behind them are those to measure again
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
  Nanoseconds counter_period_ = 0;  // mean; 0: not known yet

  // evaluate()'s own.
  std::vector<CounterPoint> points_;
  RiseCount energy_rises_;
  CounterLag lag_;
};

}  // namespace flyball
