// Plans a job inside the limits on its power: which limits hold when, the plans that keep to them, and what runs where
// none does (docs/decisions/0058-jobs-inside-limits.md).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/late_clocks.h"
#include "plan/planner.h"
#include "plan/power_limits.h"
#include "plan/power_planning.h"
#include "wire/job_messages.h"

namespace flyball {

// Returns the limits that hold from `now` until `lead` later, the lowest of the budget among them; times in seconds
// since 1970. A plan that is begun now thus holds already when a lower period begins.
[[nodiscard]] JobPowerLimits limits_between(const JobLimits& limits, double now, Seconds lead);

// Returns the next moment after `now` at which limits_between() may change; none where it will not.
[[nodiscard]] std::optional<double> next_change(const JobLimits& limits, double now, Seconds lead);

[[nodiscard]] inline bool any_of(const JobPowerLimits& limits) { return limits.peak || limits.ramp_w_per_s; }
[[nodiscard]] bool same_limits(const JobPowerLimits& one, const JobPowerLimits& other);

// Throws UsageError where the job's planner chooses clocks without regard to limits.
void check_planner_keeps(const JobLimits& limits, const std::string& planner);

// What a job was planned for, and what came of it.
struct LimitsKept {
  JobPowerLimits limits;
  int copies = 1;                                    // GPUs in step on every stage
  bool kept = true;                                  // whether plans keep to the limits
  bool found = true;                                 // whether a search for a plan inside came to its end
  std::optional<Seconds> least_time = std::nullopt;  // no plan in this order that keeps to the limits is faster
  std::optional<LeastPower> least = std::nullopt;    // of the plans that were looked at, where limits are not kept
};

struct LimitedPlan {
  PlannerResult result;  // the plans that keep to the limits, fastest first, or else one of the lowest peak
  double share = 1.0;    // of kCapShares, with whose options they were made
  LimitsKept kept;
  // Plans of the same order of operations that keep to tighter limits, by rising time: what to try where late clock
  // changes draw more. None where changes are free.
  std::vector<TighterPlan> tighter = {};
};

// Plans with `planner`, perseus or joint. Where `progress`, which is told the share of the whole, returns false, the
// result is none. Cost: that of plan_as_asked() within limits, and a power_curve() for every point.
[[nodiscard]] std::optional<LimitedPlan> plan_limited(const PlanProblem& problem, const std::string& planner,
                                                      const JobRequest& job, const JobPowerLimits& limits,
                                                      bool late_changes, const Progress& progress);

// Returns the plan of the least power of every computation, for which nothing has to be planned.
[[nodiscard]] LimitedPlan least_power_instead(const PlanProblem& problem, const JobRequest& job,
                                              const JobPowerLimits& limits);

// How late clock changes take hold: at once, after `latency - spread` or after `latency`. A plan's power differs.
struct LatePower {
  Nanoseconds latency = 0;
  Nanoseconds spread = 0;
  ClocksAsked asked = ClocksAsked::kWhenFree;
};
// Returns the figures of `copies` GPUs on every stage with the longest latency, as energies are charged; peak, step and
// ramp are the greatest of the three.
// The swing is left out of curves with so many pieces that it would take seconds.
struct LateShape {
  PowerShape shape;
  bool has_swing = true;
};
[[nodiscard]] LateShape late_shape(const PlanProblem& problem, const ClockPlan& plan, int copies, const LatePower& late,
                                   Seconds ramp_window);
// Returns whether it keeps to the limits with each.
[[nodiscard]] bool keeps_late(const PlanProblem& problem, const ClockPlan& plan, const LimitsKept& kept,
                              const LatePower& late);

// Returns a sentence where limits are not kept; empty otherwise.
[[nodiscard]] std::string limits_warning(const LimitsKept& kept, Watts peak, double ramp_w_per_s, Seconds time);

// Returns a sentence where a period of the budget that has not begun allows less than `least_peak`, the peak at which
// every computation draws least; empty otherwise.
[[nodiscard]] std::string budget_warning(const JobLimits& limits, double now, Watts least_peak);

}  // namespace flyball
