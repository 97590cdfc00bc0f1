// The Perseus planner (SOSP'24): the whole iteration time-energy frontier of a pipeline.
//
// Perseus goes from T* down to T_min in steps of the unit time, one minimum cut per step (algorithms 1 and 2), and
// rounds each result to clocks. Here one relaxation (relaxation.h) visits each price of time once, whatever the unit
// time is. Each point of the frontier is rounded from the relaxation's event times and from the plan of the point
// before it (clock_rounding.h). The points at T_min, at least total energy and at the problem's focus are searched
// further.
//
// Guarantees. Every point's time and energy are those of its discrete plan, replayed with the measured options. Along
// the frontier times strictly rise and net energies strictly fall. Each point's lower bound is the optimum of the
// relaxation on the hulls, also when the exponential cost model steers the crawl. The fastest point takes no longer
// than T_min, the makespan of all operations at their fastest.
#pragma once

#include <memory>

#include "plan/clock_rounding.h"
#include "plan/planner.h"

namespace flyball {

[[nodiscard]] std::unique_ptr<Planner> make_perseus();
[[nodiscard]] std::unique_ptr<Planner> make_perseus(Searches searches);

// Completes the frontier that a cancelled plan() returned, so that it can be run. Such a frontier holds only the slow
// end, from T* down. Added are the plan of all computations at their fastest and, for T_min and each time of the
// problem's focus, a plan that ends by then. The lower bounds of the added points hold, but are those of slower points
// and hence loose. Cost: seconds at most.
void close_cancelled_frontier(const PlanProblem& problem, Frontier& frontier);

}  // namespace flyball
