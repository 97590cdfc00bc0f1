// The figures of one planning run: what a user is told, on whatever surface.
//
// Energies are per iteration of one pipeline with one GPU per stage, blocking included (Perseus eq. 3). Where a
// straggler sets the pace, they include waiting for it, the baseline's too.
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

// What the iteration time must fit. At most one is set; with neither, the plan may take as long as all-maximum clocks
// do and slows nothing. That can be a little more than T_min: near the top of the clocks a measured time may fall with
// the clock, by noise, and T_min takes the best of each computation.
struct PaceRequest {
  std::optional<Seconds> target_time;  // the plan of least energy that ends by then
  std::optional<double> straggler;     // T' = this times T_min, at least 1; the plan of T_opt = min(T*, T')
};

// Why a plan is no slower than it is.
enum class PaceLimit {
  kBaselineTime,   // it slows nothing
  kTargetTime,     // it ends by the target
  kLeastEnergy,    // slower plans would be allowed, but take more energy
  kStragglerTime,  // it ends by T'
  kTStar,          // slower than T* nothing is saved, however long the straggler takes
};
template <>
inline constexpr auto kNamesOf<PaceLimit> = name_list("baseline_time", "target_time", "least_energy", "straggler_time",
                                                      "t_star");

struct PointFigures {
  Seconds time;
  Joules energy;
  Joules lower_bound;         // no plan that ends by `time` takes less; NaN when unknown
  double gap_pct = 0.0;       // energy over lower_bound, NaN when unknown
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
  Seconds allowed_time;                   // that the request leaves
  PaceLimit limit = PaceLimit::kBaselineTime;
  PointFigures selected;
};

// Fills lower bounds that the planner left open, from the relaxation's curve. Points that have one keep it.
void set_lower_bounds(Frontier& frontier, const BoundCurve& bound);

// The iteration time that a request allows: its target, its straggler's T', or the time of all-maximum clocks.
[[nodiscard]] Seconds allowed_time(const PlanProblem& problem, const PaceRequest& request);

// T' of a request, if it names a straggler.
[[nodiscard]] std::optional<Seconds> straggler_time(const PaceRequest& request, Seconds t_min);

// Iteration time with every computation at its fastest option.
[[nodiscard]] Seconds fastest_time(const PlanProblem& problem);

// All-maximum clocks; the lower bound stays unknown unless `bound` is given.
[[nodiscard]] PointFigures baseline_figures(const PlanProblem& problem, std::optional<Seconds> straggler_time,
                                            const BoundCurve* bound);

// One point of a frontier against a baseline that was made with the same straggler time.
[[nodiscard]] PointFigures point_figures(const ComputationDag& dag, const Frontier& frontier, std::size_t index,
                                         const PointFigures& baseline, std::optional<Seconds> straggler_time);

// The frontier must not be empty. Throws UsageError when both fields of the request are set, or a straggler below 1.
[[nodiscard]] PlanSummary summarise(std::string planner, const PlanProblem& problem, const ComputationDag& dag,
                                    const Frontier& frontier, const PaceRequest& request, const BoundCurve* bound);

// Clock changes that are not free: how long one takes to take hold, and how far apart two on one stage must be.
struct SwitchingLimits {
  Seconds latency;
  Seconds min_dwell;
};

// A plan as it stands and as it becomes when switching is reduced, both charged with the latency. Lower bounds and gaps
// are left unknown: the bound is of free changes.
struct SwitchingFigures {
  PointFigures charged;
  PointFigures reduced;
  ClockPlan reduced_plan;
  SwitchedRun reduced_run;
  Seconds charged_dwell;  // shortest time between two changes of one stage
  Seconds reduced_dwell;
};

// For a plan that may take until `deadline`, against the baseline, which changes no clock. `dag` is the plan's.
// Cost as reduce_switches().
[[nodiscard]] SwitchingFigures switching_figures(const PlanProblem& problem, const ComputationDag& dag,
                                                 const ClockPlan& plan, Seconds deadline, SwitchingLimits limits,
                                                 const PointFigures& baseline, std::optional<Seconds> straggler_time);

}  // namespace flyball
