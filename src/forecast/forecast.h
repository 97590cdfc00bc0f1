// Forecasts the energy of data-parallel training by MC2 (stage.h cites the paper): eqs. 19-42 in their general form.
//
// Problem. Each stage was measured once or a few times on a node of each type; how much energy does a whole run take?
// The energy of a stage is the integral of its components' power: a sum of recorded joules where there is a recording,
// power times time where power is steady (eq. 24). It is charged once a run, once an epoch or once an iteration, times
// the nodes of the type. Fast nodes wait for the slowest at idle power (eqs. 39-40).
//
// The wait. A measured `wait` stage is used as it is. Otherwise every node's local time (all stages of an iteration but
// communication) is taken to be drawn from the measurements of its type, and the iteration waits for the greatest of
// all N draws, whose mean follows exactly from the empirical distributions. With one measurement a type this is the
// difference of eq. 40 to the slowest type. Where a type states the `spread` of its nodes, draws are spread out by it.
// Few measurements tell little about the tail of a distribution, so that this wait tends to be too short; the interval
// covers how long it may be.
//
// The end. All nodes of a run end together, so that every node is charged for every second of the run: a type whose
// stages, its all-reduce among them, are over before those of the longest type idles until then. Measurements of a
// bulk-synchronous run in which one type communicates for a shorter time, or in which the measured waits do not even
// out, cannot mean anything else.
//
// All functions are pure and deterministic. Cost: O(measurements log measurements) per type.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "forecast/run_description.h"
#include "forecast/stage.h"

namespace flyball {

[[nodiscard]] constexpr double kilowatt_hours(Joules energy) { return energy.value() / 3.6e6; }

// An interval that holds the run's energy with probability `confidence`, as far as run_interval.h's assumptions hold.
struct EnergyInterval {
  double confidence = 0.9;
  Joules low;
  Joules high;
};

struct NodeTypeForecast {
  std::string name;
  int count = 1;
  Joules energy;                            // of all nodes of the type
  PerStage<PerComponent<Joules>> stages{};  // likewise
  Seconds local_time;                       // mean time of an iteration, without communication and wait
  Seconds wait;        // mean time per iteration that a node waits for the slowest node and the longest all-reduce
  Seconds first_wait;  // likewise, in the stages that run once
  Seconds iteration;   // mean, with communication, update and wait; the same for all types
  Seconds charged;     // the time for which a node is charged, which is the run's duration
};

// All checkpoints of a run, or all of another kind of what interrupts it (interruptions.h).
struct InterruptionForecast {
  std::string name;                          // "checkpoint", "evaluation", "repeated_work", "restart"
  double times = 0.0;                        // how often, the mean
  Seconds time;                              // of all of them together
  std::vector<PerComponent<Joules>> joules;  // of all nodes of each type

  [[nodiscard]] Joules energy() const;
};

// The forecast of a whole run, over all nodes.
struct RunForecast {
  Joules energy;
  EnergyInterval interval;
  PerStage<PerComponent<Joules>> stages{};
  std::vector<NodeTypeForecast> node_types;
  double iterations = 0.0;  // of the whole run
  Seconds duration;
  std::vector<InterruptionForecast> interruptions;  // which are in none of `stages`

  [[nodiscard]] Joules of(TrainingStage stage) const;
  [[nodiscard]] Joules of(StageGroup group) const;
  [[nodiscard]] Joules of(Component component) const;
};

// Forecasts a run. `confidence`, in (0, 1), is that of the interval. The description must be complete
// (check_complete()).
[[nodiscard]] RunForecast forecast_run(const RunDescription& run, double confidence = 0.9);

// A part of a run: so many iterations and, if its begin belongs to it, what runs once.
struct RunPart {
  double iterations = 1.0;  // above 0
  bool begin = true;
};

// Forecasts a part of a run as if it were the whole. `power_variances` are as for interval_halves().
[[nodiscard]] RunForecast forecast_part(const RunDescription& run, const RunPart& part, double confidence,
                                        const std::vector<double>& power_variances = {});

// A stretch of time in which a node is forecast to draw constant power.
struct PowerPiece {
  Seconds begin;
  Seconds end;
  TrainingStage stage = TrainingStage::kForward;
  Watts power;
};

// Returns the power that one node of a type will draw over time: in the stages that run once, then in one iteration
// after the other, until `pieces` are listed.
[[nodiscard]] std::vector<PowerPiece> power_over_time(const RunDescription& run, const RunForecast& forecast,
                                                      std::size_t type, std::size_t pieces);

}  // namespace flyball
