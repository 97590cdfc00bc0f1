// Reduces the clock changes of a plan to those that pay, given that a change takes time.
//
// A change that is requested at the start of an operation takes effect `latency` later; pipeline/late_clocks.h defines
// how this runs and what it costs, "charged" below. A late change to a higher clock delays the operation that requested
// it and, if the latency is longer than that, the operations behind it; on the critical path that delays the iteration.
// Changes in quick succession also disturb collectives, hence a least dwell time between two changes of a stage.
#pragma once

#include "base/units.h"
#include "pipeline/timeline.h"
#include "plan/planner.h"

namespace flyball {

// Returns the plan with its clocks changed in four steps, so that it takes the time that it promises:
//   1. While the charged iteration is longer than `deadline`: an operation on the critical path is delayed because its
//      clock is requested too late. The nearest operation before it with a lower clock is raised to that clock.
//   2. Where a stage changes its clock twice within `min_dwell`, operations of equal clock on one side of the change
//      take the clock of the other side; of the ways to do so the one of least energy within the deadline is taken.
//   3. Neighbouring operations of equal clock (a run) take the clock of the run before or after them wherever that
//      meets the deadline and does not raise the charged energy.
//   4. Runs take the next lower clock under the same conditions, which spends the slack that is left.
// The plan is taken to repeat: the last operation of a stage precedes its first. Where the charged iterations of such a
// repetition differ, times are those of the longest and energies are means.
//
// Guarantees, where the operations of a stage share their clocks and higher clocks are faster:
//   - The result has no more switches than `plan`.
//   - The charged iteration ends by `deadline`, or by the time that `plan` takes with free changes if that is later.
//   - No two changes of a stage come within `min_dwell`.
//   - The charged energy is not above that of `plan`, unless step 1 or 2 was needed.
// Where operations of a stage share no clock, the changes between them stay, and deadline and dwell time are met only
// as far as that allows. With no latency and no dwell time, only changes that save nothing are removed.
//
// `plan` must be a plan of `problem.dag`. Requires latency >= 0 and min_dwell >= 0. Deterministic. Cost: O(nodes) for
// each change that is tried.
[[nodiscard]] ClockPlan reduce_switches(const PlanProblem& problem, const ClockPlan& plan, Nanoseconds deadline,
                                        Nanoseconds latency, Nanoseconds min_dwell);

// The shortest time between two clock changes of one stage when the plan is repeated with this latency; the iteration
// time when no stage changes its clock.
[[nodiscard]] Nanoseconds shortest_dwell(const PlanProblem& problem, const ClockPlan& plan, Nanoseconds latency);

}  // namespace flyball
