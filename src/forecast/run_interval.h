// How far a run's energy may lie from its forecast, by four sources of error that are taken to be independent.
//   Iterations. Only a few of many were measured; sum_interval.h tells how far their mean may be off, even where
//     neighbours are alike. So that one or two measurements tell something, an iteration is taken to vary by
//     `iteration_spread`, which counts as much as `iteration_weight` measurements.
//   Nodes. Times and powers were measured on one node or a few, and nodes of a type differ in speed and in power, each
//     by the type's `spread` (relative standard deviation; `node_spread` where RUN.toml does not state it).
//   The wait, where it was not measured. At the least, nodes wait for the mean of the slowest type. At the most, they
//     wait for a quantile of the greatest draw of all nodes, which differ by their spread and by how iterations vary.
//   Stalls. Now and then a node takes twice as long, and all others wait. Stalls that were seen are among the measured
//     iterations. For those that were not, a node's rate of stalls is Beta distributed a priori, with half a stall in
//     `stall_weight` iterations; the measured iterations update it, those of all measured nodes where the measured wait
//     would show stalls, else those of one node. The quantile of the rate raises the interval's upper end only.
//
// The assumed figures are deliberately somewhat above what healthy clusters show. docs/forecast-intervals.md says how
// often the interval holds the truth, and under which assumptions it does not.
//
// All functions are pure and deterministic. Cost: O(measurements).
#pragma once

#include <vector>

#include "base/units.h"
#include "forecast/run_description.h"
#include "forecast/samples.h"

namespace flyball {

// What is assumed where nothing was measured; the comment above says how.
struct AssumedSpread {
  double iteration_spread = 0.03;
  double iteration_weight = 2.0;
  double node_spread = 0.03;
  double stall_weight = 200.0;
};

// The measurements of the stages that occur once a run, once an epoch or once an iteration.
struct MeasuredPart {
  Occurrence occurrence = Occurrence::kIteration;
  double repeats = 1.0;          // how often the stages occur in the run
  std::vector<Samples> samples;  // by type
  Seconds slowest;               // the forecast time that the nodes wait for; unused where the wait was measured
};

struct IntervalHalves {
  Joules below;
  Joules above;
};

// Returns how many standard deviations of a normal distribution lie below a quantile in (0, 1).
[[nodiscard]] double normal_quantile(double quantile);

// Returns how far the interval reaches below and above the forecast. `energies` are the forecast energies of all nodes
// of each type in the whole run. `confidence` must be in (0, 1 - 1e-6), and the assumed weights above 0.
// `power_variances` says how uncertain the mean power of each type's nodes is, in squares of the type's spread; empty
// stands for that of the measured nodes, 1 / measured_nodes.
[[nodiscard]] IntervalHalves interval_halves(const RunDescription& run, const std::vector<MeasuredPart>& parts,
                                             const std::vector<Joules>& energies, double confidence,
                                             const AssumedSpread& assumed = {},
                                             const std::vector<double>& power_variances = {});

}  // namespace flyball
