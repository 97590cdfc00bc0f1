// Runs for tests: made of a model that is known, so that what a fit should find is known.
#pragma once

#include <random>
#include <vector>

#include "base/index.h"
#include "replay/iteration_model.h"
#include "replay/recorded_runs.h"

namespace flyball::testing {

// Forward and backward take work over clock, so that times between clocks are exact: at 1,000 MHz 10 and 20 ms on stage
// 0, 12 and 24 ms on stage 1. Transfers take 3 ms, loading 2 and 1 ms, once per iteration 40 ms; clocks take hold after
// 4 ms.
inline IterationModel known_model() {
  IterationModel model;
  model.instructions = {"forward", "backward"};
  model.top = Megahertz(1000);
  for (const double milliseconds : {10.0, 20.0, 12.0, 24.0}) {
    std::vector<ClockCost> costs;
    for (const double clock : {1000.0, 900.0, 800.0, 700.0, 600.0}) {
      costs.push_back({Megahertz(clock), Seconds(milliseconds / clock), {}, {}, {}});
    }
    model.costs.push_back(costs);
  }
  model.loading = {{2e-3, 0}, {1e-3, 0}};
  model.transfer = {{3e-3, 0}};
  model.once = {40e-3, 0};
  model.latency = {4e-3, 0};
  model.power.scale = {{360, 0}, {330, 0}, {380, 0}, {340, 0}};
  model.power.share = {{0.3, 0}, {0.4, 0}};
  model.power.exponent = {{2.5, 0}, {3, 0}};
  model.power.waiting_base = {60, 0};
  model.power.waiting_rise = {50, 0};
  model.power.waiting_exponent = {2, 0};
  model.power.limit = {300, 0};
  return model;
}

// Records what the model says of plans of which the clocks are given.
inline void run_all(const IterationModel& model, RecordedRuns& runs) {
  for (RecordedPoint& point : runs.points) {
    point.load.clear();
    for (const Fitted& loading : model.loading) {
      point.load.insert(point.load.end(), at(runs.microbatches), Seconds(loading.value));
    }
    point.taken.resize(point.clock.size());
  }
  const RecordedIteration iteration(runs, ScheduleKind::k1f1b);
  for (RecordedPoint& point : runs.points) {
    const std::vector<Nanoseconds> durations = iteration.durations(model, point);
    for (int i = 0; i < iteration.dag().size(); ++i) {
      const RecordedIteration::Node& node = iteration.node(i);
      if (node.part != RecordedIteration::Part::kComputation) continue;
      point.taken[node.index] = to_seconds(durations[at(i)]);
    }
    point.time = to_seconds(emulate(iteration.dag(), durations).makespan);
    point.energy = Joules(0);
    point.drawn.clear();
    for (const StageEnergy& energy : stage_energies(model, clock_use(iteration, point, durations))) {
      point.drawn.push_back(energy.computing + energy.waiting);
      point.energy += point.drawn.back();
    }
  }
}

// `points` plans with random clocks, each operation as often at its neighbour's clock as not; the first two at the
// highest clock, of which the first warms up.
inline RecordedRuns known_runs(const IterationModel& model, int points, int microbatches = 6) {
  RecordedRuns runs;
  runs.source = "known";
  runs.stages = static_cast<int>(model.loading.size());
  runs.microbatches = microbatches;
  runs.instructions = model.instructions;
  runs.top = model.top;
  std::mt19937 random(7);
  for (int p = 0; p < points; ++p) {
    RecordedPoint point;
    point.number = p;
    point.warms_up = p == 0;
    point.clock.assign(runs.index(runs.stages, 0, 0), model.top);
    if (p > 1) {
      for (Megahertz& clock : point.clock) clock = Megahertz(600.0 + 100.0 * static_cast<double>(random() % 5));
    }
    runs.points.push_back(point);
  }
  run_all(model, runs);
  return runs;
}

}  // namespace flyball::testing
