// Which point of a frontier to run when another pipeline is slower (a straggler), and what that saves over a whole job
// of data-parallel pipelines and tensor-parallel ranks.
//
// Energies are in joules per iteration, blocking included: computing, blocking between computations, and waiting for
// the straggler (Perseus eq. 3). With net energy n and the blocking power P of all stages, a pipeline that takes T
// while the straggler takes T' uses n + P * max(T, T'). Where its GPUs wait at a power W above P
// (FrontierPoint::waiting_above), it uses W * max(0, T' - T) more.
#pragma once

#include <cstddef>

#include "base/units.h"
#include "plan/frontier.h"

namespace flyball {

// Returns the energy of a pipeline at a point of its frontier while the straggler takes `straggler_time` (eq. 3). A
// straggler time up to the point's own time changes nothing.
[[nodiscard]] Joules energy_with_straggler(const FrontierPoint& point, Watts total_blocking,
                                           Nanoseconds straggler_time);

// What a plan saves, and from which bloat. All figures are for the same straggler.
struct BloatSplit {
  Joules baseline;   // all computations at maximum clocks, waiting for the straggler
  Joules intrinsic;  // saved by the plan that is as fast as the baseline: what was wasted within the pipeline
  Joules extrinsic;  // saved in addition by slowing down to T_opt: what was wasted by being early

  [[nodiscard]] Joules planned() const { return baseline - intrinsic - extrinsic; }
  [[nodiscard]] double intrinsic_pct() const { return 100.0 * (intrinsic / baseline); }
  [[nodiscard]] double extrinsic_pct() const { return 100.0 * (extrinsic / baseline); }
  [[nodiscard]] double saving_pct() const { return intrinsic_pct() + extrinsic_pct(); }
};

// Where the energy of one pipeline that is not the straggler goes.
struct BloatBreakdown : BloatSplit {
  Nanoseconds straggler_time = 0;  // T', at least the baseline's time
  std::size_t point = 0;           // index into the frontier: the point at T_opt
};

// Breaks down the energy of one pipeline. `baseline` is the point of all-maximum clocks. `degree` is T' over the
// baseline's time (Perseus section 6.3); 1 stands for no straggler, which gives no extrinsic bloat. The frontier must
// not be empty. Throws UsageError when `degree` is below 1 or not finite.
[[nodiscard]] BloatBreakdown break_down_bloat(const Frontier& frontier, const FrontierPoint& baseline, double degree);

// A job of D data-parallel pipelines with P tensor-parallel ranks per stage. Ranks of one stage run in lock step, so
// each takes what the profile's one GPU takes (Perseus section 4.4).
struct JobShape {
  int pipelines = 1;
  int tensor_parallel = 1;
};

// The whole job's energy in one iteration.
struct JobEmulation : BloatSplit {
  BloatBreakdown pipeline;  // of one planned pipeline
  long gpus = 0;
  int planned_pipelines = 0;  // all but the straggler
};

// Returns the energies of a large job (Perseus section 6.3). With a degree above 1, one pipeline is the straggler: it
// runs at maximum clocks and, being delayed by something else, takes the baseline's energy, with blocking for the rest
// of T'. All others run the point at T_opt. Throws UsageError when `stages` or a number of `shape` is not positive, and
// where break_down_bloat() does.
[[nodiscard]] JobEmulation emulate_job(const Frontier& frontier, const FrontierPoint& baseline, int stages,
                                       JobShape shape, double degree);

}  // namespace flyball
