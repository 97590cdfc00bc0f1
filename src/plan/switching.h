// Clock changes are not free: fewer of them where they do not pay.
//
// A change asked for at the start of an operation takes hold `latency` later, as LateClocks (pipeline/late_clocks.h)
// runs and charges it. A change to a higher clock therefore delays the operation that asked for it and, where the
// latency outlasts that, those behind it, which on the critical path delays the iteration. Changes in quick succession
// also disturb collectives, hence a least dwell time between two changes of a stage.
#pragma once

#include "base/units.h"
#include "pipeline/timeline.h"
#include "plan/planner.h"

namespace flyball {

// The plan, changed so that running it with real clock changes keeps its promise:
//   1. while the charged iteration is longer than `deadline`, the nearest slower operation before a delayed critical
//      one is raised to its clock, so that the change happens earlier, on an operation that can bear it;
//   2. changes of a stage that follow within `min_dwell` are merged: one of the runs of equal clock beside the change
//      takes its neighbour's clock, whichever costs least within the deadline;
//   3. runs take a neighbour's clock wherever that keeps the deadline and does not raise the charged energy;
//   4. runs take the next lower clock under the same conditions, so that the slack left over is spent.
// Times are per iteration and repeat: the last operation of a stage precedes its first. Where charged iterations differ
// from one another, the longest counts for times and their mean for energies.
//
// Guarantees, where the operations of a stage share their clocks and higher clocks are faster:
//   - never more switches than `plan` has;
//   - the charged iteration ends by `deadline`, or by the time that `plan` takes with free changes if that is later;
//   - no two changes of a stage come within `min_dwell`;
//   - the charged energy is not above that of `plan`, unless 1 or 2 were needed.
// Where operations do not share a clock, changes between them stay and the deadline and dwell time are met as far as
// that allows. With no latency and no dwell time only runs that gain nothing are merged.
//
// `problem.dag` must be the DAG of the plan. Deterministic. Cost O(nodes) per change that is tried. Requires latency >=
// 0 and min_dwell >= 0.
[[nodiscard]] ClockPlan reduce_switches(const PlanProblem& problem, const ClockPlan& plan, Nanoseconds deadline,
                                        Nanoseconds latency, Nanoseconds min_dwell);

// The shortest time between two clock changes of one stage when the plan is run over and over with this latency;
// the iteration time when no stage changes its clock.
[[nodiscard]] Nanoseconds shortest_dwell(const PlanProblem& problem, const ClockPlan& plan, Nanoseconds latency);

}  // namespace flyball
