// The Perseus planner (SOSP'24): the whole iteration time-energy frontier of a pipeline.
//
// Perseus crawls from T* (algorithm 1) by one minimum cut per unit of time (algorithm 2) and rounds the result to clocks.
// Here one relaxation (relaxation.h) visits every price once, whatever the unit of time, and each point of the frontier
// is rounded from the event times that it passes and from the point before it (clock_rounding.h). T_min, the point of
// least total energy and the problem's focus are polished.
//
// Guarantees: every point's time and energy are those of its discrete plan replayed with the measured options; times
// strictly rise and net energies strictly fall; each point's bound is the optimum of the relaxation on the hulls, also
// when the exponential cost model steers the crawl; the fastest point is no slower than the makespan of all operations
// at their fastest, T_min.
#pragma once

#include <memory>

#include "plan/planner.h"

namespace flyball {

[[nodiscard]] std::unique_ptr<Planner> make_perseus();

}  // namespace flyball
