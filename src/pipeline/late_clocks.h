// Emulates a plan whose clock changes take time.
//
// A change is asked for at the start of an operation, when its stage is free, or before (ClocksAsked), and takes hold
// `latency` later (about 10 ms in the driver, Perseus section 3.1); until then the stage runs at the clock that it had.
// Where the latency outlasts the operation, the next ones run at the old clock too, and a change may take hold while
// the stage waits. A driver makes one change after another, and a controller passes on only the newest request
// (client/clock_controller.h): a request that comes while a change is under way begins when that has taken hold, unless
// a newer one has come by then or it asks for the clock that holds.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "pipeline/power_curve.h"
#include "pipeline/timeline.h"
#include "profile/profile.h"

namespace flyball {

// How long a clock change takes at least and at most until it takes hold.
struct LatencyRange {
  Seconds shortest;
  Seconds longest;
};
// What a lower clock took on the A100s and A40s of Perseus's authors (docs/measured-tables.md).
inline constexpr LatencyRange kUsualLatency{Seconds(4e-3), Seconds(9e-3)};

// Returns the least and the greatest time of the profile's rows `clock_change`; none where it has no such row.
[[nodiscard]] std::optional<LatencyRange> measured_latency(const Profile& profile);

// How long before a computation ends a session with lead time asks for the clock of the next one, where a change takes
// `latency`. Changes do not always take the same: one that comes early makes the iteration longer if it lowers the
// clock, and shorter if it raises it.
[[nodiscard]] constexpr Seconds lead_time(Seconds latency, bool raises) { return raises ? latency : 0.8 * latency; }

struct SwitchedRun {
  Nanoseconds makespan = 0;            // of an iteration, in the mean
  EnergyBreakdown energy;              // likewise, without a straggler
  Watts straggler_power;               // what all stages draw while they wait for one
  Nanoseconds longest = 0;             // the makespan of the longest iteration
  std::vector<Nanoseconds> durations;  // its operations'
  int iterations = 0;                  // that were run

  // Returns the energy of an iteration and of the wait after it, which lasts until `straggler_time` if that is later
  // than the iteration's end.
  [[nodiscard]] Joules total_until(Nanoseconds straggler_time) const {
    return energy.total() + straggler_power * to_seconds(std::max<Nanoseconds>(0, straggler_time - makespan));
  }
};

// Runs plans of one DAG over and over. A change under way at an iteration's end reaches into the next, so that
// iterations may differ: they are run until one begins as an earlier one did, and the figures are means over the
// iterations between. If none does within kMostIterations, they are means over the later half. Where an operation was
// not measured at the clock that holds, its nearest measured clock counts, with the operation's labels if these were
// measured at it.
//
// The DAG must outlive it. Not thread-safe. Cost O(iterations * (nodes + edges)); one iteration where every change
// takes hold before the next is asked for.
class LateClocks {
 public:
  static constexpr int kMostIterations = 16;

  // `blocking` holds one power per stage. Requires latency >= 0.
  LateClocks(const ComputationDag& dag, std::span<const Watts> blocking, Nanoseconds latency,
             ClocksAsked asked = ClocksAsked::kAtBegin);

  // The result is overwritten by the next call.
  const SwitchedRun& run(const ClockPlan& plan);

  // Returns the power over the iterations over which run() takes its means, of `copies` GPUs in step on every stage. An
  // operation draws its mean power, also where its clock changes within it.
  [[nodiscard]] PowerCurve power(const ClockPlan& plan, int copies);

 private:
  // The state of a stage's clock; times count from the iteration's start.
  struct StageClock {
    Megahertz held;
    Megahertz wanted;      // asked for last
    Megahertz underway;    // asked of the driver
    Nanoseconds due = -1;  // when that takes hold; -1: nothing is under way

    bool operator==(const StageClock&) const = default;
  };
  struct Iteration {
    std::vector<StageClock> begun;  // as the clocks were at its start
    std::vector<Nanoseconds> durations;
    Nanoseconds makespan = 0;
    Joules computation;
    Joules busy;                   // what the stages would have drawn blocked while they computed
    Joules waiting_above;          // what waiting took above the blocking power
    std::vector<PowerDraw> draws;  // where they are recorded
  };

  // nearest_option() of one type, as last asked for at one of kRemembered remainders of the clock.
  struct Remembered {
    Megahertz clock{-1.0};
    std::uint16_t option = 0;
  };
  static constexpr std::size_t kRemembered = 128;

  // The option that counts where an operation that asked for `option` runs at another clock, or waits at it.
  [[nodiscard]] std::uint16_t option_held(const OperationType& type, Megahertz clock, std::uint16_t option) const;
  void settle(StageClock& clock, Nanoseconds now) const;
  void begin_change(StageClock& clock, Nanoseconds now) const;
  void ask(StageClock& clock, Megahertz wanted, Nanoseconds now) const;
  // The clock of the computation after, and when it is asked for while this one runs.
  struct Ahead {
    Megahertz clock;
    Nanoseconds at = -1;  // -1: not while it runs
  };
  [[nodiscard]] Ahead ahead_of(const ClockPlan& plan, int i, Nanoseconds start) const;
  [[nodiscard]] Nanoseconds run_operation(const OperationType& type, std::uint16_t option, StageClock& clock,
                                          Nanoseconds start, Ahead ahead, Joules& energy) const;
  [[nodiscard]] Joules wait(int stage, Nanoseconds from, Nanoseconds to, Iteration& iteration);
  void run_iteration(const ClockPlan& plan, Iteration& iteration);

  const ComputationDag& dag_;
  std::vector<Watts> blocking_;
  Nanoseconds latency_;
  ClocksAsked asked_;
  Watts total_blocking_;
  std::vector<StageClock> clocks_;
  std::vector<const OperationType*> last_;  // per stage: of the last operation whose clock it waits at, or null
  std::vector<Nanoseconds> free_;           // per stage: when its last operation ended
  std::vector<std::int32_t> after_;         // by operation: the next of its stage that has a clock; -1: none
  std::vector<Iteration> iterations_;       // used anew by every run
  std::vector<Nanoseconds> finish_;         // scratch
  mutable std::vector<std::array<Remembered, kRemembered>> remembered_;  // by type; half of the time goes there without
  bool records_ = false;                                                 // whether iterations keep their draws
  std::size_t first_ = 0;                                                // the iterations that count, from here
  std::size_t count_ = 0;                                                // until here
  SwitchedRun result_;
};

[[nodiscard]] SwitchedRun emulate_switching(const ComputationDag& dag, const ClockPlan& plan,
                                            std::span<const Watts> blocking, Nanoseconds latency,
                                            ClocksAsked asked = ClocksAsked::kAtBegin);

}  // namespace flyball
