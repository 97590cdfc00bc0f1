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
// relaxation on the hulls, even when the exponential cost model guides the rounding. The fastest point takes no longer
// than T_min, the iteration time with all operations at their fastest.
#pragma once

#include <memory>

#include "plan/clock_rounding.h"
#include "plan/planner.h"

namespace flyball {

// The planner `perseus`. Its plan() throws UsageError where the unit time asks for more than two million points.
[[nodiscard]] std::unique_ptr<Planner> make_perseus();
[[nodiscard]] std::unique_ptr<Planner> make_perseus(Searches searches);

// Completes the frontier that a cancelled plan() returned, so that a job can run by it. Such a frontier holds only the
// slow end, from T* down. This function adds the plan with all computations at their fastest and, for T_min and each
// time of the problem's focus, a plan that ends by then. The added points get the lower bound of the fastest point that
// was there, which is valid but loose (NaN where the frontier was empty). Cost: seconds at most.
void close_cancelled_frontier(const PlanProblem& problem, Frontier& frontier);

}  // namespace flyball
