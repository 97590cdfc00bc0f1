// The figures of one planning run that a user is shown, in every interface.
//
// Energies are per iteration of one pipeline with one GPU per stage, blocking included (Perseus eq. 3). Where a
// straggler sets the pace, they include waiting for it, and so does the baseline's.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/names.h"
#include "base/units.h"
#include "pipeline/late_clocks.h"
#include "plan/frontier.h"
#include "plan/planner.h"
#include "plan/relaxation.h"

namespace flyball {

// What sets the pace of an iteration; at most one of the two is set. With neither, the plan may take as long as
// all-maximum clocks do, and so slows nothing. That time can be a little above T_min, for which each computation runs
// at its fastest option: near the highest clocks noise may make a lower clock look faster.
struct PaceRequest {
  std::optional<Seconds> target_time;  // asks for the plan of least energy that ends by then
  std::optional<double> straggler;     // T' over T_min, at least 1; asks for the plan of T_opt = min(T*, T')
};

// Why the selected plan is no slower than it is, or inside limits on power, no faster.
enum class PaceLimit {
  kBaselineTime,   // it may take no longer than all-maximum clocks
  kTargetTime,     // it has to end by the target
  kLeastEnergy,    // slower plans would be allowed, but take more energy
  kStragglerTime,  // it has to end by T'
  kTStar,          // plans slower than T* save nothing, however long the straggler takes
  kPower,          // it is the fastest that was found inside the limits on power
};
template <>
inline constexpr auto kNamesOf<PaceLimit> = name_list("baseline_time", "target_time", "least_energy", "straggler_time",
                                                      "t_star", "power");

struct PointFigures {
  Seconds time;
  Joules energy;
  Joules lower_bound;         // no plan that ends by `time` takes less; NaN when unknown
  double gap_pct = 0.0;       // energy over lower_bound; NaN when unknown
  double saving_pct = 0.0;    // of the baseline's energy
  double slowdown_pct = 0.0;  // of the baseline's time
  int switches = 0;           // clock changes per iteration
};

struct PlanSummary {
  std::string planner;
  Seconds t_min;                          // all computations at their fastest option: no plan is faster
  Seconds t_star;                         // the frontier's slowest point: least energy when waiting is paid anyway
  Seconds t_least_total;                  // the point of least total energy, without straggler
  std::optional<Seconds> straggler_time;  // T'
  PointFigures baseline;                  // all-maximum clocks
  std::size_t selected_point = 0;         // index into the frontier
  Seconds allowed_time;                   // the iteration time that the request leaves
  PaceLimit limit = PaceLimit::kBaselineTime;
  PointFigures selected;
};

// Takes the lower bounds that the planner left unknown from the relaxation's curve; keeps the others.
void set_lower_bounds(Frontier& frontier, const BoundCurve& bound);

// Returns the iteration time that a request allows: its target, its straggler's T', or the time of all-maximum clocks.
[[nodiscard]] Seconds allowed_time(const PlanProblem& problem, const PaceRequest& request);

// Returns T' of a request, or none if it names no straggler.
[[nodiscard]] std::optional<Seconds> straggler_time(const PaceRequest& request, Seconds t_min);

// Returns T_min, the iteration time with every computation at its fastest option.
[[nodiscard]] Seconds fastest_time(const PlanProblem& problem);

// Returns the figures of all-maximum clocks. The lower bound stays unknown where `bound` is null.
[[nodiscard]] PointFigures baseline_figures(const PlanProblem& problem, std::optional<Seconds> straggler_time,
                                            const BoundCurve* bound);

// Returns the figures of one point of a frontier. `baseline` must have been made with the same straggler time.
[[nodiscard]] PointFigures point_figures(const ComputationDag& dag, const Frontier& frontier, std::size_t index,
                                         const PointFigures& baseline, std::optional<Seconds> straggler_time);

// Selects the point that the request asks for and gives its figures. The frontier must not be empty. Throws UsageError
// when both fields of the request are set, or when a straggler is below 1.
[[nodiscard]] PlanSummary summarise(std::string planner, const PlanProblem& problem, const ComputationDag& dag,
                                    const Frontier& frontier, const PaceRequest& request, const BoundCurve* bound);

// What clock changes cost: how long one takes at most to take effect, how far apart two changes of a stage must be, and
// how much sooner than at most a change may take effect.
struct SwitchingLimits {
  Seconds latency;
  Seconds min_dwell;
  Seconds spread;  // at most `latency`
  ClocksAsked asked = ClocksAsked::kAtBegin;
};

// The largest part of a pipeline that keeps one clock throughout a plan: every stage, every instruction of a stage
// (forward and backward have one clock each), or only every computation.
enum class OneClockPer { kStage, kInstruction, kComputation };
template <>
inline constexpr auto kNamesOf<OneClockPer> = name_list("stage", "instruction", "computation");

[[nodiscard]] OneClockPer one_clock_per(const ComputationDag& dag, const ClockPlan& plan);

// A plan with its clock changes charged: the longer of the times that it takes with the shortest and with the longest
// latency, and the energy with the longest. Its lower bound and gap stay unknown, since the bound is for free changes.
struct ChargedFigures {
  PointFigures figures;
  Seconds dwell;  // shortest time between two changes of one stage
  OneClockPer one_clock_per = OneClockPer::kComputation;
};

// The front of plans for a later deadline.
struct SlowerFront {
  Seconds deadline;
  std::vector<ChargedFigures> front;  // by rising number of changes
  std::size_t chosen = 0;             // index into the front, by few_changes()
};

// A plan for a later deadline.
struct SlowerPlan {
  Seconds deadline;
  ChargedFigures plan;
};

// A plan as a planner made it, and the front of plans with fewer changes (switching_fronts()).
struct SwitchingFigures {
  SwitchingLimits limits;
  ChargedFigures charged;
  std::vector<ChargedFigures> front;   // by rising number of changes
  std::size_t chosen = 0;              // index into the front, by few_changes()
  std::vector<SlowerFront> slower;     // for later deadlines, where they were looked at
  std::vector<SlowerPlan> worth_time;  // slower_plans_worth_time() of these
  ClockPlan plan;                      // the chosen plan
  SwitchedRun run;                     // of the chosen plan
};

// Returns what a little more time brings: for each later deadline, the plan that saves as much as the chosen one with
// fewer changes than any returned before, and the front's chosen plan where it saves more than any before.
[[nodiscard]] std::vector<SlowerPlan> slower_plans_worth_time(const ChargedFigures& chosen,
                                                              const std::vector<SlowerFront>& slower);

// By which parts an iteration may be longer, to show what that brings in place of clock changes.
inline constexpr double kSlowdowns[] = {0.0025, 0.005, 0.01};

// Returns the figures of a frontier's plan that may take until `deadline`, compared with the baseline, which changes no
// clock. `dag` is the DAG of the frontier. Where `look_at_slower`, deadlines later by kSlowdowns are looked at, too.
// `progress` may stop the search. Cost: that of switching_fronts(), and some ten emulated plans for each deadline.
[[nodiscard]] SwitchingFigures switching_figures(const PlanProblem& problem, const ComputationDag& dag,
                                                 const Frontier& frontier, std::size_t point, Seconds deadline,
                                                 bool look_at_slower, SwitchingLimits limits,
                                                 const PointFigures& baseline, std::optional<Seconds> straggler_time,
                                                 const Progress& progress = {});

}  // namespace flyball
