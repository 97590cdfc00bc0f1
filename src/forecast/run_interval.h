// How far a run's energy may lie from its forecast: four sources of error, taken to be independent of each other.
//
// Iterations. The measured ones are a few of many; sum_interval.h has how far their mean may be off, alike neighbours
// and all. So that one or two say something, an iteration is taken to vary by `iteration_spread`, which counts as much
// as `iteration_weight` measurements. Nodes. Times and powers were measured on one node or a few, and nodes of a type
// differ in speed and in power, each by the type's `spread` (relative standard deviation; where RUN.toml does not state
// it, `node_spread`). The wait, where it was not measured. At the least it is that for the slowest type's mean; at the
// most that for the greatest draw of all nodes, which differ by their spread and by what the iterations vary: its
// quantile. Stalls. Now and then a node takes twice as long, and all others wait. How often is not known before it has
// been seen: the rate of a node is Beta distributed a priori, half a stall in `stall_weight` iterations, and the
// iterations that were measured count to it: those of all measured nodes where the wait shows stalls, else one node's.
// Its quantile makes the interval higher, not lower. Those that were seen are among the iterations.
//
// The assumed figures are deliberately somewhat above what healthy clusters show. docs/forecast-intervals.md says how
// often the interval holds the truth, and in which worlds it does not.
//
// Pure, deterministic; cost O(measurements).
#pragma once

#include <vector>

#include "base/units.h"
#include "forecast/run_description.h"
#include "forecast/samples.h"

namespace flyball {

// What is assumed of what was not measured.
struct AssumedSpread {
  double iteration_spread = 0.03;
  double iteration_weight = 2.0;
  double node_spread = 0.03;
  double stall_weight = 200.0;
};

// What the stages of one occurrence contribute.
struct MeasuredPart {
  Occurrence occurrence = Occurrence::kIteration;
  double repeats = 1.0;          // in the run
  std::vector<Samples> samples;  // of each type
  Seconds slowest;               // as forecast: what the nodes wait for; of no meaning where the wait was measured
};

struct IntervalHalves {
  Joules below;
  Joules above;
};

// `energies` are the forecast's, of all nodes of a type in the whole run; confidence in (0, 1 - 1e-6).
// Preconditions: assumed weights are above 0.
[[nodiscard]] IntervalHalves interval_halves(const RunDescription& run, const std::vector<MeasuredPart>& parts,
                                             const std::vector<Joules>& energies, double confidence,
                                             const AssumedSpread& assumed = {});

}  // namespace flyball
