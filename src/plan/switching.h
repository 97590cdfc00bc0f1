// Trades clock changes for energy, given that a change takes time.
//
// A change that is requested at the start of an operation takes effect `latency` later. pipeline/late_clocks.h defines
// how an iteration with such changes runs and what it costs; figures that count this are called charged below. A late
// change to a higher clock delays the operation that requested it and, if the latency is longer than the operation, the
// operations behind it; on the critical path this delays the iteration. Changes in quick succession also disturb
// collectives, hence the limit on the dwell time, which is the time between two changes of a stage.
//
// Idea. Few changes are a matter of where runs of equal clock begin and end. The relaxation prices the time of every
// computation (relaxation.h); with a price on each change, too, the best runs of a stage follow from dynamic
// programming (priced_clocks.h). With prices of changes from so high that none pays to almost nothing, and prices of
// time that leave more or less slack, this gives some hundred plans for each pipeline. Each is replayed with its
// changes charged. Where it is late its runs are raised, and where it is among the best its runs are merged, lowered
// and shifted (clock_runs.h). The given plan, made by a planner for which changes are free, is edited likewise. The
// result is the front of all plans that were seen.
//
// What it brings: on the two published measurements of eight stages (GPT-3 175B on A40s, Bloom 176B on A100s, 12
// microbatches), where free changes save 12.3 and 12.4 % in no more time, the reduced plan saves 10.0 % in the mean and
// 9.8 % at worst with changes that take 4 to 9 ms, and in 0.5 % more time 12.5 and 11.8 %; `flyball plan PROFILE
// --microbatches 12 --blocking-power W` measures that (docs/decisions/0048-few-changes-by-search.md).
//
// Boards do not always take the same time: on A100s and A40s a lower clock took hold 4 to 9 ms after it was asked for.
// A change that comes soon can be as bad as one that comes late, since a clock that is asked for early, so as to hold
// when its operation begins, then lowers the operation before. Plans are therefore made for the longest latency, and
// only those count that end in time with the shortest one, too.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/units.h"
#include "pipeline/late_clocks.h"
#include "pipeline/timeline.h"
#include "plan/planner.h"

namespace flyball {

// What clock changes cost, and which times the iteration must keep.
struct SwitchingTerms {
  Nanoseconds deadline = 0;     // for the charged iteration; never earlier than the given plan ends with free changes
  Nanoseconds latency = 0;      // >= 0; the longest
  Nanoseconds min_dwell = 0;    // >= 0
  Nanoseconds waits_until = 0;  // a straggler's iteration, for which all wait; 0: there is none
  Nanoseconds spread = 0;       // from 0 to latency: by how much sooner than `latency` a change may take hold
  // Later deadlines, rising, for which the caller wants fronts as well: a little more time can save as much as many
  // changes do.
  std::vector<Nanoseconds> later_deadlines = {};
  ClocksAsked asked = ClocksAsked::kAtBegin;
};

// A plan with its changes charged. The plan is taken to repeat: the last operation of a stage precedes its first. Where
// the charged iterations of such a repetition differ, the time is that of the longest, and the energy is the mean.
// Times are the longer of those with the shortest and with the longest latency, energy and dwell are those with the
// longest.
struct SwitchingPlan {
  ClockPlan plan;
  int switches = 0;  // changes in an iteration
  Nanoseconds longest = 0;
  Joules energy;          // of an iteration, blocking and the wait for a straggler included
  Nanoseconds dwell = 0;  // the shortest time between two changes of a stage; the iteration's without changes
};

// Returns a front for the deadline and one for each later deadline, in this order: plans by rising number of changes
// and strictly falling energy, all of which meet their deadline and the dwell time. plans[k] are plans of `problem.dag`
// that planners have found for about the k-th of these deadlines, with free changes. There must be one for the first,
// which is never earlier than that plan ends with free changes. A front is of these plans, their edited forms and the
// plans of the search, and has the best of what the search for any of the deadlines has seen. Dwell times longer than
// the one asked for (kDwellSteps) are tried as well, since the search may find cheaper plans on the way to them.
//
// Where no plan was found for the first deadline, its front is the one plan that is least late, and among equally late
// ones has the fewest changes; the fronts of later deadlines may be empty. `progress` may stop the search, which then
// returns what it has. Deterministic. Cost: O(nodes) for each edit of a plan that is tried, a solve_relaxation(), and
// about kSearchedNodes replayed operations besides (a second or two); a quarter more for each later deadline.
[[nodiscard]] std::vector<std::vector<SwitchingPlan>> switching_fronts(const PlanProblem& problem,
                                                                       const std::vector<std::vector<ClockPlan>>& plans,
                                                                       const SwitchingTerms& terms,
                                                                       const Progress& progress = {});

// Returns the slowest point of the frontier whose plan ends by `time` with its changes charged, whether they take
// terms.latency or terms.spread less; none where not even the fastest does. Cost: some ten emulated plans.
[[nodiscard]] std::optional<std::size_t> slowest_in_time(const PlanProblem& problem, const Frontier& frontier,
                                                         Nanoseconds time, const SwitchingTerms& terms);

// Returns the index of the plan to run: of the plans whose energy exceeds the front's least by at most 0.3 % of the
// energy at maximum clocks, the one with the fewest changes. A change that saves less is not worth its risk: it may
// come late, and it wakes the driver. The front must not be empty.
[[nodiscard]] std::size_t few_changes(const PlanProblem& problem, const std::vector<SwitchingPlan>& front);

// Returns the shortest time between two clock changes of one stage when the plan is repeated with this latency, or the
// iteration time when no stage changes its clock.
[[nodiscard]] Nanoseconds shortest_dwell(const PlanProblem& problem, const ClockPlan& plan, Nanoseconds latency);

}  // namespace flyball
