// A data-parallel job on a simulated cluster whose energy is known to the last joule: what forecasts are judged by.
//
// Every node works through its stages with its own speed and jitter; some nodes, now and then, stall. All meet at a
// barrier before communication (bulk-synchronous) and wait for the last one at idle power. Not of the forecast's own
// functional form: times are log-normal and skewed by stalls, every node of a type is a little faster or slower than
// its type, and its power differs.
//
// Deterministic: same description and seed, same numbers on every machine. Single-threaded; cost O(nodes * iterations).
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "forecast/run_description.h"

namespace flyball {

// How what is random is distributed, always with mean 1.
enum class Noise {
  kLogNormal,
  kExponential,  // a constant and an exponential distribution's long tail
  kTwoPoint,     // one in ten is three standard deviations above the mean, the others a third of one below
};

struct ClusterBehaviour {
  double node_spread = 0.02;    // relative standard deviation of a node's speed and of its power within its type
  double jitter = 0.03;         // relative standard deviation of a stage's time from iteration to iteration
  double stall_chance = 0.002;  // of a node in an iteration
  double stall_factor = 2.0;    // a stalled node's computation takes so many times as long
  double drift = 0.0;           // correlation of an iteration's speed with that of the one before, cluster-wide
  double common_jitter = 0.0;   // relative standard deviation of what all nodes share in an iteration
  double trend = 0.0;           // times grow evenly by this share from the first iteration to the last
  Noise node_noise = Noise::kLogNormal;
  Noise jitter_noise = Noise::kLogNormal;
  std::uint64_t seed = 1;
};

struct SimulatedRun {
  Joules energy;  // of all nodes, whole run
  Seconds duration;
  double iterations = 0.0;
  // The run as measured in its first `measured` iterations: the mean over a type's `measured_nodes` of every stage in
  // every iteration, the wait at the barrier among them; one-time stages from the beginning.
  RunDescription measured;
  // The whole cluster's mean power in steps of `step`, from the start; as long as `trace_limit` allows.
  std::vector<double> trace_w;
  Seconds step;
};

// `truth` gives nodes, component powers and the mean time of every stage (its first measurement). `measured_iterations`
// is what the forecast may see; `trace_steps` how many steps of `step` to keep.
[[nodiscard]] SimulatedRun simulate_run(const RunDescription& truth, const ClusterBehaviour& behaviour,
                                        int measured_iterations, Seconds step, std::size_t trace_steps);

}  // namespace flyball
