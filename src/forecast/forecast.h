// MC2: the energy of data-parallel training, eqs. 19-42 in their general form.
//
// Problem: what does a run cost, given what each stage took once or a few times on a node of each type? Energy of a
// stage is the integral of its components' power (a sum of recorded joules where there is a recording, power times time
// where power is steady, eq. 24), charged once a run, once an epoch or once an iteration, times the nodes of the type.
// Fast nodes wait for the slowest at idle power (eqs. 39-40).
//
// The wait. A measured `wait` stage is used as it is. Otherwise every node of a type draws its local time (all stages
// of an iteration before communication) from the type's measurements, and the iteration waits for the greatest of all N
// draws, whose mean follows exactly from the empirical distributions; with one measurement a type this is the
// difference of eq. 40 to the slowest type. Where a type states its nodes' `spread`, draws are spread out by it. Few
// measurements know little of the tail, so the wait is rather too short; the interval has what it may be at the most.
//
// A run's nodes end together, so every node is charged for every second of it: a type whose other stages, its
// all-reduce among them, are over before those of the longest type idles until then. Nothing else can be meant by
// measurements of a bulk-synchronous run in which one type communicates for less long, or whose measured waits do not
// even out.
//
// Pure; deterministic; cost O(measurements log measurements) per type.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "forecast/run_description.h"
#include "forecast/stage.h"

namespace flyball {

[[nodiscard]] constexpr double kilowatt_hours(Joules energy) { return energy.value() / 3.6e6; }

// Holds the run's energy with `confidence` probability, as far as run_interval.h's assumptions go.
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
  Seconds local_time;                       // of an iteration, before communication, mean
  Seconds wait;                             // for the slowest node and the longest all-reduce, per iteration, mean
  Seconds first_wait;                       // likewise, of what runs once
  Seconds iteration;                        // with communication, update and wait; the same for all types
  Seconds charged;                          // how much of a node's time its energy is of: the run's duration
};

struct RunForecast {
  Joules energy;
  EnergyInterval interval;
  PerStage<PerComponent<Joules>> stages{};
  std::vector<NodeTypeForecast> node_types;
  double iterations = 0.0;  // of the whole run
  Seconds duration;

  [[nodiscard]] Joules of(TrainingStage stage) const;
  [[nodiscard]] Joules of(StageGroup group) const;
  [[nodiscard]] Joules of(Component component) const;
};

// `confidence` in (0, 1), of the interval. The description must be complete (check_complete()).
[[nodiscard]] RunForecast forecast_run(const RunDescription& run, double confidence = 0.9);

// One stretch of constant power in the forecast of a node.
struct PowerPiece {
  Seconds begin;
  Seconds end;
  TrainingStage stage = TrainingStage::kForward;
  Watts power;
};

// What one node of a type will draw: one-time stages, then iterations one after the other until `pieces` are listed.
[[nodiscard]] std::vector<PowerPiece> power_over_time(const RunDescription& run, const RunForecast& forecast,
                                                      std::size_t type, std::size_t pieces);

}  // namespace flyball
