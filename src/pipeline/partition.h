// Minimum-imbalance pipeline partitioning (Perseus appendix B.1).
#pragma once

#include <span>
#include <vector>

#include "base/units.h"

namespace flyball {

struct Partition {
  std::vector<int> bounds;           // stages + 1 layer indices: stage s runs layers [bounds[s], bounds[s + 1])
  std::vector<Seconds> stage_times;  // forward time of each stage
  double imbalance = 1.0;            // longest stage over shortest; 1.00 is perfect balance
};

// Splits layers with the given forward times into `stages` contiguous, non-empty stages such that the ratio of the
// longest to the shortest stage is least; among equals, the one with the shortest longest stage, then the earliest
// bounds. Exact on times rounded to whole nanoseconds. `tail` is a last stage's extra (the language-model head), which
// no stage but the last can take; a head that may be a stage of its own is given as one more layer instead.
//
// Only pairs (shortest stage, longest stage) that no other pair beats in both can be best. They are walked in order of
// the longest stage: the least longest stage first, with the greatest shortest stage that it allows, then the least
// longest stage that allows a greater one, and so on, until the longest stage alone rules out a better ratio. Each
// bound is found by bisection over whole nanoseconds, asking which layers can end the first k stages.
// Cost O(L S log T) per pair for L layers, S stages and a total of T ns; the pairs number at most O(L^2) and few in
// practice: 500 uneven layers on 16 stages take about 10 ms.
// Throws UsageError when there are more stages than layers, or a time is not between 1 ns and 1e6 s.
[[nodiscard]] Partition partition_layers(std::span<const Seconds> layers, int stages, Seconds tail = Seconds(0));

}  // namespace flyball
