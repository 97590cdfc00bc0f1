// Plans inside limits on the shape of a job's power: a peak that must not be passed, and how fast power may change.
//
// Problem: of all plans whose power curve (pipeline/power_curve.h) keeps to the limits, find the fastest. A frontier
// has the plans of least energy, and a slower one of them also has a lower peak, but not the lowest for its time: it
// lets critical computations draw what they like.
//
// Idea: leave out the options that draw most, and plan with the rest. capped_problem() does so by one number for all
// stages, the share of the range of its powers that a stage may use. The plans of every share are feasible plans of the
// whole problem; fastest_within() takes the fastest that keeps to the limits. That is a heuristic over shares, so that
// how good it is must be told: a curve below P has a mean below P, and energy is at least the relaxation's bound, so no
// plan is faster than the shortest time T with bound(T) <= P T, which least_time_below() gives. Ramps have a bound of
// their own (plan/ramp_bound.h).
//
// How good it is: on the two published measurements of eight stages (GPT-3 175B on A40s, Bloom 176B on A100s, 12
// microbatches), with peaks 5 to 20 % below that of the fastest plan, plans take 1.3 % more than that time in the mean
// and 3.2 % at worst; `flyball plan PROFILE --microbatches 12 --blocking-power W --max-power W` measures that, and on
// synthetic profiles it is up to 11 % (docs/decisions/0051-limits-on-power.md).
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>

#include "base/units.h"
#include "pipeline/power_curve.h"
#include "plan/planner.h"
#include "plan/relaxation.h"

namespace flyball {

// At least one of the two is set.
struct JobPowerLimits {
  std::optional<Watts> peak;
  std::optional<double> ramp_w_per_s;
  Seconds ramp_window{1.0};  // of ramp_of()
};

[[nodiscard]] bool keeps_to(const PowerCurve& curve, const JobPowerLimits& limits);

// The shares that are tried besides 1, which caps nothing.
inline constexpr double kCapShares[] = {0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0};

// Returns the problem without the options that draw more than `share` (from 0 to 1) of the way from the least to the
// greatest power of their stage's options; every operation type keeps its option of least power. Plans of it are plans
// of `problem`. The hulls are those of the options that are left, and so are bounds made with them. Planners that look
// at an operation type's options by themselves (planner.h) do not keep to it.
[[nodiscard]] PlanProblem capped_problem(const PlanProblem& problem, double share);

// The plan in which every computation draws least: the one plan of the problem that is capped at share 0.
[[nodiscard]] ClockPlan least_power_plan(const PlanProblem& problem);

struct PointWithin {
  std::size_t result = 0;  // index into the results
  std::size_t point = 0;   // index into its frontier
};

// Returns the fastest plan that it finds in the results to keep to the limits, with `copies` GPUs in step on every
// stage. Of a frontier it looks at up to sixty-five points, from the fastest to the slowest, and at all between the
// first of these that keeps to the limits and the one before it; none where none of these does, or where `go_on`
// returned false. Cost: a power_curve() for each.
[[nodiscard]] std::optional<PointWithin> fastest_within(const PlanProblem& problem,
                                                        std::span<const PlannerResult> results,
                                                        const JobPowerLimits& limits, int copies,
                                                        const std::function<bool()>& go_on = {});

// The lowest figures of the points that fastest_within() looks at first, each by itself, with the points that have
// them: what to tell, and what to run, where no plan is low enough.
struct LeastPower {
  Watts peak;
  double ramp_w_per_s = 0.0;
  PointWithin of_peak = {};
  PointWithin of_ramp = {};
};
[[nodiscard]] LeastPower least_power(const PlanProblem& problem, std::span<const PlannerResult> results,
                                     Seconds ramp_window, int copies);

// Returns the shortest iteration time that a mean power allows: no plan on the bound's order of operations whose power
// stays below `mean`, of one GPU on every stage, is faster. None where the stages take as much while all of them wait.
[[nodiscard]] std::optional<Seconds> least_time_below(const BoundCurve& bound, Watts total_blocking, Watts mean);

}  // namespace flyball
