// The trade of clock changes for energy, given that a change takes time.
//
// A change that is requested at the start of an operation takes effect `latency` later; pipeline/late_clocks.h defines
// how this runs and what it costs, "charged" below. A late change to a higher clock delays the operation that requested
// it and, if the latency is longer than that, the operations behind it; on the critical path that delays the iteration.
// Changes in quick succession also disturb collectives, hence a least dwell time between two changes of a stage.
//
// Idea. Few changes are a matter of where runs of equal clock begin and end. The relaxation prices the time of every
// computation (relaxation.h); with a price on each change, too, the best runs of a stage follow from dynamic
// programming (priced_clocks.h). From no change at all to as many as pay, at prices of time that leave more or less
// slack, this gives some hundred plans of each pipeline. Each is replayed with its changes charged; where it is late
// its runs are raised, and where it is among the best its runs are merged, lowered and shifted (clock_runs.h). The plan
// of a planner whose changes are free is edited likewise. What is kept is the front of all plans that were seen.
#pragma once

#include <cstddef>
#include <vector>

#include "base/units.h"
#include "pipeline/timeline.h"
#include "plan/planner.h"

namespace flyball {

// What changes cost, and what the iteration must fit.
struct SwitchingTerms {
  Nanoseconds deadline = 0;     // of the charged iteration; that of the plan with free changes, if it is later
  Nanoseconds latency = 0;      // >= 0
  Nanoseconds min_dwell = 0;    // >= 0
  Nanoseconds waits_until = 0;  // a straggler's iteration, for which all wait; 0: there is none
};

// A plan, with its changes charged. It is taken to repeat: the last operation of a stage precedes its first. Where the
// charged iterations of such a repetition differ, the time is that of the longest, and the energy the mean.
struct SwitchingPlan {
  ClockPlan plan;
  int switches = 0;  // changes in an iteration
  Nanoseconds longest = 0;
  Joules energy;          // of an iteration, blocking and the wait for a straggler included
  Nanoseconds dwell = 0;  // the shortest time between two changes of a stage; the iteration's without changes
};

// Returns plans by rising number of changes and strictly falling energy: the front of `plan`, of what it can be edited
// to, and of the search. All meet the deadline and the dwell time; where none was found that does, the one plan
// that is least late, and of those the one with the fewest changes. The dwell times of kDwellSteps are tried as well
// where they are longer than the one asked for, since what they leave may be cheaper than what the shorter one was
// searched to.
//
// `plan` must be a plan of `problem.dag`. Deterministic. Cost: O(nodes) for each edit of `plan` that is tried, a
// solve_relaxation(), and about kSearchedNodes replayed operations besides (a second or two).
[[nodiscard]] std::vector<SwitchingPlan> switching_front(const PlanProblem& problem, const ClockPlan& plan,
                                                         const SwitchingTerms& terms);

// The index of the plan to run: the one with the fewest changes of those whose energy is within 0.3 % of the energy at
// maximum clocks of the least. A change that saves less is not worth its risk: it may come late, and it wakes the
// driver.
[[nodiscard]] std::size_t few_changes(const PlanProblem& problem, const std::vector<SwitchingPlan>& front);

// The shortest time between two clock changes of one stage when the plan is repeated with this latency; the iteration
// time when no stage changes its clock.
[[nodiscard]] Nanoseconds shortest_dwell(const PlanProblem& problem, const ClockPlan& plan, Nanoseconds latency);

}  // namespace flyball
