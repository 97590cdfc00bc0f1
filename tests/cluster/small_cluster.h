// A cluster whose costs can be worked out by hand: n GPUs are n times as fast as one, an iteration takes one GPU 2 s at
// 1000 MHz and 1 s at 2000 MHz, and a GPU draws 50 W and 200 W there. Idle GPUs draw 10 W; restarts and waking cost
// nothing unless a test says so.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cluster/ground_truth.h"
#include "cluster/simulator.h"

namespace flyball {

inline GroundTruth linear_truth() {
  MeasurementSet set;
  for (const int gpus : {1, 2, 4, 8}) {
    for (const double clock : {1000.0, 2000.0}) {
      const Seconds time(2000.0 / clock / gpus);
      const Watts power((clock < 1500.0 ? 50.0 : 200.0) * gpus);
      set["unit"].push_back({{gpus, 1, 8.0, Megahertz(clock)}, {time, power * time}});
    }
  }
  return {"linear", set};
}

inline SimulationSetup small_setup(int nodes = 2, int gpus_per_node = 2) {
  SimulationSetup setup;
  setup.spec.nodes = nodes;
  setup.spec.gpus_per_node = gpus_per_node;
  setup.spec.voltage_break = Megahertz(1000.0);
  setup.spec.clocks = {Megahertz(1000.0), Megahertz(2000.0)};
  setup.spec.idle = Watts(10.0);
  setup.spec.p_max = Watts(200.0);
  setup.spec.restart = Seconds(0.0);
  setup.spec.wake = Seconds(0.0);
  setup.spec.off_after = Seconds(0.0);
  setup.knowledge = Knowledge::kProfiled;
  return setup;
}

// `duration` is on the GPUs asked for, at 2000 MHz.
inline TraceJob job(double submit, int gpus, double duration) {
  TraceJob one;
  one.submit = Seconds(submit);
  one.gpus = gpus;
  one.duration = Seconds(duration);
  return one;
}

inline JobTrace trace_of(std::vector<TraceJob> jobs) { return {"test", std::move(jobs)}; }

// The figures of a simulation that ran to its end.
inline SimulationResult simulate(const SimulationSetup& setup, const GroundTruth& truth, const JobTrace& trace,
                                 const std::string& policy, const PolicyOptions& options = {}) {
  Simulation simulation(setup, truth, trace, policy, options);
  simulation.run();
  return simulation.result();
}

inline double jct(const Simulation& simulation, int index) {
  const ClusterJob& one = simulation.state().jobs[static_cast<std::size_t>(index)];
  return (one.finish - one.submit).value();
}

}  // namespace flyball
