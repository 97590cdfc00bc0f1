// Stragglers and scale: which point of a frontier to run when another pipeline sets the pace, and what that saves over
// a whole job of data-parallel pipelines and tensor-parallel ranks.
//
// Energies are of one iteration, in joules, blocking included: computation + blocking between computations + waiting
// for the straggler (Perseus eq. 3). With net energy n and all stages' blocking power P, a pipeline that takes T while
// the straggler takes T' uses n + P * max(T, T').
//
// Plain functions on values; a lookup costs O(log points), a few nanoseconds per doubling of the frontier.
#pragma once

#include <cstddef>

#include "base/units.h"
#include "plan/frontier.h"

namespace flyball {

// Energy of a pipeline at a point while the straggler takes `straggler_time` (eq. 3; at most its own time: none).
[[nodiscard]] Joules energy_with_straggler(const FrontierPoint& point, Watts total_blocking,
                                           Nanoseconds straggler_time);

// Where one non-straggler pipeline's energy goes, everything under the same straggler.
struct BloatBreakdown {
  Nanoseconds straggler_time = 0;  // T', at least the baseline's time
  std::size_t point = 0;           // of the frontier, at T_opt
  Joules baseline;                 // all at maximum clocks, waiting for the straggler
  Joules intrinsic;                // saved by the plan that is as fast as the baseline: wasted inside the pipeline
  Joules extrinsic;                // saved further by slowing down to T_opt: what was wasted by hurrying to wait

  [[nodiscard]] Joules planned() const { return baseline - intrinsic - extrinsic; }
  [[nodiscard]] double intrinsic_pct() const { return 100.0 * (intrinsic / baseline); }
  [[nodiscard]] double extrinsic_pct() const { return 100.0 * (extrinsic / baseline); }
  [[nodiscard]] double saving_pct() const { return intrinsic_pct() + extrinsic_pct(); }
};

// `baseline` is the point of all-maximum clocks, `degree` = T' / T of the straggler (1: none; Perseus section 6.3).
// With no straggler there is no extrinsic bloat. Throws UsageError when `degree` is below 1 or not finite.
[[nodiscard]] BloatBreakdown break_down_bloat(const Frontier& frontier, const FrontierPoint& baseline, double degree);

// A job of D data-parallel pipelines with P tensor-parallel ranks per stage. Ranks of one stage run in lock step, so
// each takes what the profile's one GPU takes (Perseus section 4.4).
struct JobShape {
  int pipelines = 1;
  int tensor_parallel = 1;
};

struct JobEmulation {
  BloatBreakdown pipeline;  // of one planned pipeline
  long gpus = 0;
  int planned_pipelines = 0;  // all but the straggler
  Joules baseline;            // whole job, one iteration
  Joules intrinsic;
  Joules extrinsic;

  [[nodiscard]] Joules planned() const { return baseline - intrinsic - extrinsic; }
  [[nodiscard]] double intrinsic_pct() const { return 100.0 * (intrinsic / baseline); }
  [[nodiscard]] double extrinsic_pct() const { return 100.0 * (extrinsic / baseline); }
  [[nodiscard]] double saving_pct() const { return intrinsic_pct() + extrinsic_pct(); }
};

// Large-scale emulation (Perseus section 6.3): with a degree above 1, one of the pipelines is the straggler and runs at
// maximum clocks; it is delayed, not planned, and takes the baseline's energy: the work of all-maximum clocks and
// blocking for the rest of T'. All others run the point at T_opt. Throws UsageError when a number of `shape` is not
// positive, and as break_down_bloat.
[[nodiscard]] JobEmulation emulate_job(const Frontier& frontier, const FrontierPoint& baseline, int stages,
                                       JobShape shape, double degree);

}  // namespace flyball
