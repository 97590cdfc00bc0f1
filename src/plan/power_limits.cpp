// Points of a frontier are looked at with a stride first: a peak falls along a frontier, if not at every step.
#include "plan/power_limits.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/index.h"

namespace flyball {
namespace {

constexpr std::size_t kLooks = 64;
// Sums in different orders differ by so much, relatively.
constexpr double kRounding = 1e-12;

Watts power_of(const ClockOption& option) { return option.energy / option.time; }

std::uint16_t least_power_option(const OperationType& type) {
  const auto least = std::min_element(type.options.begin(), type.options.end(),
                                      [](const auto& a, const auto& b) { return power_of(a) < power_of(b); });
  return static_cast<std::uint16_t>(least - type.options.begin());
}

PowerCurve curve_of(const PlanProblem& problem, const PlannerResult& result, std::size_t point, int copies) {
  return power_curve(result.dag_of(problem), result.frontier.plan(point), problem.blocking, copies);
}

// Points at equal distances, the first and the last among them.
std::vector<std::size_t> looks_at(std::size_t size) {
  const std::size_t stride = (size + kLooks - 1) / kLooks;
  std::vector<std::size_t> looks;
  for (std::size_t point = 0; point < size; point += stride) looks.push_back(point);
  if (looks.back() + 1 < size) looks.push_back(size - 1);
  return looks;
}

}  // namespace

bool keeps_to(const PowerCurve& curve, const JobPowerLimits& limits) {
  if (limits.peak && peak_of(curve) > *limits.peak) return false;
  return !limits.ramp_w_per_s || ramp_of(curve, limits.ramp_window) <= *limits.ramp_w_per_s;
}

PlanProblem capped_problem(const PlanProblem& problem, double share) {
  if (share >= 1.0) return problem;
  const auto types = problem.dag->types();
  std::vector<std::pair<Watts, Watts>> ranges(at(problem.dag->stages()),
                                              {Watts(std::numeric_limits<double>::infinity()), Watts(0)});
  for (const OperationType& type : types) {
    if (type.options.size() < 2) continue;
    auto& [least, most] = ranges[at(type.stage)];
    for (const ClockOption& option : type.options) {
      least = std::min(least, power_of(option));
      most = std::max(most, power_of(option));
    }
  }
  PlanProblem capped = problem;
  capped.focus.clear();  // nobody has asked for a time
  for (std::size_t t = 0; t < types.size(); ++t) {
    const OperationType& type = types[t];
    if (type.options.size() < 2) continue;
    const auto& [least, most] = ranges[at(type.stage)];
    const Watts lowest = power_of(type.options[least_power_option(type)]);
    const Watts cap = std::max(lowest, least + share * (most - least));
    capped.choices[t] = choices_among(type, problem.charged_blocking(type), problem.noise,
                                      [&](const ClockOption& option) { return power_of(option) <= cap; });
  }
  return capped;
}

ClockPlan least_power_plan(const PlanProblem& problem) {
  ClockPlan plan;
  for (int i = 0; i < problem.dag->size(); ++i) plan.push_back(least_power_option(problem.dag->type_of(i)));
  return plan;
}

std::optional<PointWithin> fastest_within(const PlanProblem& problem, std::span<const PlannerResult> results,
                                          const JobPowerLimits& limits, int copies,
                                          const std::function<bool()>& go_on) {
  std::optional<PointWithin> best;
  Seconds best_time(std::numeric_limits<double>::infinity());
  for (std::size_t r = 0; r < results.size(); ++r) {
    const Frontier& frontier = results[r].frontier;
    const auto keeps = [&](std::size_t point) {
      // A peak is no lower than the mean, which is known.
      const Watts mean = copies * (frontier.energy(point) / frontier.time(point));
      if (limits.peak && mean > (1.0 + kRounding) * *limits.peak) return false;
      return keeps_to(curve_of(problem, results[r], point, copies), limits);
    };
    std::size_t unseen = 0;  // the first point that was not looked at
    for (const std::size_t look : looks_at(frontier.size())) {
      if (go_on && !go_on()) return std::nullopt;
      if (!(frontier.time(unseen) < best_time)) break;
      const bool found = frontier.time(look) < best_time && keeps(look);
      if (!found && frontier.time(look) < best_time) {
        unseen = look + 1;
        continue;
      }
      std::size_t first = unseen;
      while (first < look && frontier.time(first) < best_time && !keeps(first)) ++first;
      if (first < look ? frontier.time(first) < best_time : found) {
        best = PointWithin{r, first};
        best_time = frontier.time(first);
      }
      break;
    }
  }
  return best;
}

LeastPower least_power(const PlanProblem& problem, std::span<const PlannerResult> results, Seconds ramp_window,
                       int copies) {
  LeastPower least{Watts(std::numeric_limits<double>::infinity()), std::numeric_limits<double>::infinity(), {}, {}};
  for (std::size_t r = 0; r < results.size(); ++r) {
    for (const std::size_t look : looks_at(results[r].frontier.size())) {
      const PowerCurve curve = curve_of(problem, results[r], look, copies);
      if (const Watts peak = peak_of(curve); peak < least.peak) {
        least.peak = peak;
        least.of_peak = {r, look};
      }
      if (const double ramp = ramp_of(curve, ramp_window); ramp < least.ramp_w_per_s) {
        least.ramp_w_per_s = ramp;
        least.of_ramp = {r, look};
      }
    }
  }
  return least;
}

std::optional<Seconds> least_time_below(const BoundCurve& bound, Watts total_blocking, Watts mean) {
  if (mean <= total_blocking) return std::nullopt;
  // The net energy that is needed falls with the time, and what is left of the power beside waiting grows.
  const Watts left = mean - total_blocking;
  const auto allowed = [&](Nanoseconds time) { return Joules(bound.at(time)) <= left * to_seconds(time); };
  Nanoseconds low = bound.t_min();
  Nanoseconds high = bound.t_star();
  if (allowed(low)) return to_seconds(low);
  if (!allowed(high)) return Joules(bound.at(high)) / left;
  while (high - low > 1) {
    const Nanoseconds middle = low + (high - low) / 2;
    (allowed(middle) ? high : low) = middle;
  }
  return to_seconds(high);
}

}  // namespace flyball
