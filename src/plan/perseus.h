// The Perseus planner (SOSP'24): the whole iteration time-energy frontier of a pipeline.
//
// Perseus crawls from T* (algorithm 1) by one minimum cut per unit of time (algorithm 2) and rounds the result to
// clocks. Here one relaxation (relaxation.h) visits every price once, whatever the unit of time, and each point of the
// frontier is rounded from the event times that it passes and from the point before it (clock_rounding.h). T_min, the
// point of least total energy and the problem's focus are polished.
//
// Guarantees: every point's time and energy are those of its discrete plan replayed with the measured options; times
// strictly rise and net energies strictly fall; each point's bound is the optimum of the relaxation on the hulls, also
// when the exponential cost model steers the crawl; the fastest point is no slower than the makespan of all operations
// at their fastest, T_min.
#pragma once

#include <memory>

#include "plan/clock_rounding.h"
#include "plan/planner.h"

namespace flyball {

[[nodiscard]] std::unique_ptr<Planner> make_perseus();
[[nodiscard]] std::unique_ptr<Planner> make_perseus(Searches searches);

// Completes the frontier of a plan() that was cancelled so that it can be run. What there is lies at its slow end, from
// T* down; added are the plan of all computations at their fastest, and that one with clocks lowered as T_min and each
// time of the problem's focus leave room for. Bounds of these hold, but are those of slower points. Cost: seconds at
// most.
void close_cancelled_frontier(const PlanProblem& problem, Frontier& frontier);

}  // namespace flyball
