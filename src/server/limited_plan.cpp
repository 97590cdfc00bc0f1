// The plan comes from plan_as_asked(). Of its frontier those points are left that keep to the limits, so that whatever
// of them runs later, for a straggler too, is inside.
#include "server/limited_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/error.h"
#include "pipeline/power_curve.h"
#include "plan/planning.h"
#include "plan/stage_clock.h"

namespace flyball {
namespace {

int copies_of(const JobRequest& job) { return job.data_parallel * job.tensor_parallel; }

// The points from the fastest inside on, without those that do not keep to the limits. None where progress says no.
std::optional<Frontier> points_inside(const PlanProblem& problem, const PlannerResult& result, std::size_t fastest,
                                      const LimitsKept& kept, const Progress& progress) {
  Frontier inside(problem.total_blocking());
  const Frontier& all = result.frontier;
  for (std::size_t i = fastest; i < all.size(); ++i) {
    if (!progress(1.0)) return std::nullopt;
    const ClockPlan plan = all.plan(i);
    const PowerCurve curve = power_curve(result.dag_of(problem), plan, problem.blocking, kept.copies);
    if (i == fastest || keeps_to(curve, kept.limits)) inside.add(all.points()[i], plan);
  }
  inside.finish();
  return inside;
}

Frontier only_plan(const PlanProblem& problem, const ComputationDag& dag, const ClockPlan& plan) {
  Frontier frontier(problem.total_blocking());
  frontier.add(replay(dag, problem.blocking, plan), plan);
  frontier.finish();
  return frontier;
}

// The last is that with the longest latency.
std::vector<PowerCurve> late_powers(const PlanProblem& problem, const ClockPlan& plan, int copies,
                                    const LatePower& late) {
  std::vector<PowerCurve> curves = {power_curve(*problem.dag, plan, problem.blocking, copies)};
  const auto add = [&](Nanoseconds latency) {
    curves.push_back(LateClocks(*problem.dag, problem.blocking, latency, late.asked).power(plan, copies));
  };
  if (late.spread > 0) add(late.latency - late.spread);
  if (late.latency > 0) add(late.latency);
  return curves;
}

}  // namespace

JobPowerLimits limits_between(const JobLimits& limits, double now, Seconds lead) {
  JobPowerLimits all{limits.max_power, limits.max_ramp_w_per_s, limits.ramp_window};
  for (const JobLimits::Period& one : limits.budget) {
    if (one.until.value() > now && one.from.value() <= now + lead.value()) {
      all.peak = std::min(all.peak.value_or(one.power), one.power);
    }
  }
  return all;
}

std::optional<double> next_change(const JobLimits& limits, double now, Seconds lead) {
  std::optional<double> next;
  for (const JobLimits::Period& one : limits.budget) {
    for (const double moment : {one.from.value() - lead.value(), one.until.value()}) {
      if (moment > now) next = std::min(next.value_or(moment), moment);
    }
  }
  return next;
}

bool same_limits(const JobPowerLimits& one, const JobPowerLimits& other) {
  return one.peak == other.peak && one.ramp_w_per_s == other.ramp_w_per_s &&
         (!one.ramp_w_per_s || one.ramp_window == other.ramp_window);
}

void check_planner_keeps(const JobLimits& limits, const std::string& planner) {
  if (!limits.any() || planner == kMainPlanner || planner == kFreeOrderPlanner) return;
  throw UsageError(fmt::format(
      "limits on power are kept by planners perseus and joint; {} chooses its clocks without regard to them", planner));
}

std::optional<LimitedPlan> plan_limited(const PlanProblem& problem, const std::string& planner, const JobRequest& job,
                                        const JobPowerLimits& limits, bool late_changes, const Progress& progress) {
  // One planning with all options, and one for every share.
  constexpr auto kPlannings = static_cast<double>(1 + std::size(kCapShares));
  double begun = 0.0;
  PlanningRequest request;
  request.planners = {planner};
  request.focus = problem.focus;
  request.power = PowerRequest{limits, {}, {}};
  if (late_changes) request.power->tighter = {0.97, 0.94, 0.91, 0.88, 0.84, 0.8};
  request.job = {job.data_parallel, job.tensor_parallel};
  request.begins = [&](const PlanningPart& part) { begun += part.work == PlanningWork::kPlanner ? 1.0 : 0.0; };
  PlanningResult planned = plan_as_asked(
      problem, request, [&](double share) { return progress(std::min(1.0, (begun - 1.0 + share) / kPlannings)); });
  LimitedPlan made;
  made.kept = {limits, copies_of(job)};
  if (planned.unmet) {
    UnmetPower& unmet = *planned.unmet;
    made.kept.kept = false;
    made.kept.least = unmet.least;
    made.result.dag = std::move(unmet.dag);
    made.result.frontier = only_plan(problem, made.result.dag_of(problem), unmet.plan);
    return made;
  }
  if (planned.runs.empty()) return std::nullopt;
  PlannerRun& run = planned.runs.front();
  auto inside = points_inside(problem, run.result, run.summary.selected_point, made.kept, progress);
  if (!inside) return std::nullopt;
  made.result = std::move(run.result);
  made.result.frontier = std::move(*inside);
  made.share = run.power->share;
  made.kept.least_time = run.power->least_time;
  made.tighter = std::move(run.tighter);
  std::erase_if(made.tighter, [&](const TighterPlan& one) { return one.dag != made.result.dag; });
  return made;
}

LimitedPlan least_power_instead(const PlanProblem& problem, const JobRequest& job, const JobPowerLimits& limits) {
  LimitedPlan made;
  made.share = 0.0;
  made.kept = {limits, copies_of(job)};
  made.kept.found = false;
  const ClockPlan plan = least_power_plan(problem);
  made.result.frontier = only_plan(problem, *problem.dag, plan);
  made.kept.kept = keeps_to(power_curve(*problem.dag, plan, problem.blocking, made.kept.copies), limits);
  return made;
}

LateShape late_shape(const PlanProblem& problem, const ClockPlan& plan, int copies, const LatePower& late,
                     Seconds ramp_window) {
  const std::vector<PowerCurve> curves = late_powers(problem, plan, copies, late);
  constexpr std::size_t kMostWithSwing = 50'000;
  LateShape all;
  all.has_swing = curves.back().begin.size() <= kMostWithSwing;
  PowerShape& shape = all.shape;
  shape = shape_of(curves.back(), ramp_window, all.has_swing);
  for (const PowerCurve& curve : curves) {
    const PowerShape other = shape_of(curve, ramp_window, false);
    shape.peak = std::max(shape.peak, other.peak);
    shape.greatest_step = std::max(shape.greatest_step, other.greatest_step);
    shape.ramp_w_per_s = std::max(shape.ramp_w_per_s, other.ramp_w_per_s);
  }
  return all;
}

bool keeps_late(const PlanProblem& problem, const ClockPlan& plan, const LimitsKept& kept, const LatePower& late) {
  const std::vector<PowerCurve> curves = late_powers(problem, plan, kept.copies, late);
  return std::all_of(curves.begin(), curves.end(),
                     [&](const PowerCurve& curve) { return keeps_to(curve, kept.limits); });
}

std::string limits_warning(const LimitsKept& kept, Watts peak, double ramp_w_per_s, Seconds time) {
  const JobPowerLimits& limits = kept.limits;
  const std::string runs = fmt::format("at a peak of {:.1f} W and a ramp of {:.1f} W/s, {:.4g} s per iteration",
                                       peak.value(), ramp_w_per_s, time.value());
  std::string words;
  if (limits.peak) words += fmt::format(" never draws more than {:.1f} W", limits.peak->value());
  if (limits.ramp_w_per_s) {
    words += fmt::format("{} changes its power by at most {:.4g} W/s", limits.peak ? " and" : "", *limits.ramp_w_per_s);
  }
  if (kept.kept && kept.found) return {};
  if (!kept.found) {
    return fmt::format(
        "planning ran out of the time that this server gives a job (--planning-time) before a plan was "
        "found that{}: every computation runs at its option of least power, {}; fewer microbatches or a "
        "longer unit_time_s take less time",
        words, runs);
  }
  std::string least;
  if (kept.least) {
    least = fmt::format("; the lowest peak that was found is {:.1f} W and the lowest ramp {:.1f} W/s",
                        kept.least->peak.value(), kept.least->ramp_w_per_s);
  }
  return fmt::format(
      "no plan was found that{}: the ranks run the one of the lowest {}, {}{}; raise the limit, or let "
      "fewer GPUs run",
      words, limits.peak ? "peak" : "ramp", runs, least);
}

std::string budget_warning(const JobLimits& limits, double now, Watts least_peak) {
  const auto low = std::find_if(limits.budget.begin(), limits.budget.end(), [&](const JobLimits::Period& one) {
    return one.from.value() > now && one.power < least_peak;
  });
  if (low == limits.budget.end()) return {};
  return fmt::format(
      "the budget allows {:.1f} W from {:.0f} until {:.0f} (seconds since 1970), but with every computation at its "
      "option of least power the job's peak is {:.1f} W; raise that, or let fewer GPUs run then",
      low->power.value(), low->from.value(), low->until.value(), least_peak.value());
}

}  // namespace flyball
