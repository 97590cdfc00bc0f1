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

Watts power_of(const ClockOption& option) { return option.energy / option.time; }

PowerCurve curve_of(const PlanProblem& problem, const PlannerResult& result, std::size_t point, int copies) {
  return power_curve(result.dag_of(problem), result.frontier.plan(point), problem.blocking, copies);
}

}  // namespace

bool keeps_to(const PowerCurve& curve, const JobPowerLimits& limits) {
  if (limits.peak && peak_of(curve) > *limits.peak) return false;
  return !limits.ramp_w_per_s || ramp_of(curve, limits.ramp_window) <= *limits.ramp_w_per_s;
}

PlanProblem capped_problem(const PlanProblem& problem, double share) {
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
    const Watts lowest =
        power_of(*std::min_element(type.options.begin(), type.options.end(),
                                   [](const auto& a, const auto& b) { return power_of(a) < power_of(b); }));
    const Watts cap = std::max(lowest, least + share * (most - least));
    capped.choices[t] = choices_among(type, problem.charged_blocking(type), problem.noise,
                                      [&](const ClockOption& option) { return power_of(option) <= cap; });
  }
  return capped;
}

std::optional<PointWithin> fastest_within(const PlanProblem& problem, std::span<const PlannerResult> results,
                                          const JobPowerLimits& limits, int copies) {
  std::optional<PointWithin> best;
  Seconds best_time(std::numeric_limits<double>::infinity());
  for (std::size_t r = 0; r < results.size(); ++r) {
    const Frontier& frontier = results[r].frontier;
    const auto keeps = [&](std::size_t point) {
      // A peak is no lower than the mean, which is known.
      if (limits.peak && copies * (frontier.energy(point) / frontier.time(point)) > *limits.peak) return false;
      return keeps_to(curve_of(problem, results[r], point, copies), limits);
    };
    const std::size_t stride = std::max<std::size_t>(1, frontier.size() / kLooks);
    std::size_t point = 0;
    std::size_t unseen = 0;  // the first that was not looked at
    while (point < frontier.size() && frontier.time(point) < best_time && !keeps(point)) {
      unseen = point + 1;
      // The slowest is looked at, too.
      point = point + 1 < frontier.size() ? std::min(point + stride, frontier.size() - 1) : frontier.size();
    }
    const std::size_t end = std::min(point, frontier.size());
    std::size_t first = unseen;
    while (first < end && frontier.time(first) < best_time && !keeps(first)) ++first;
    if (first == frontier.size() || !(frontier.time(first) < best_time)) continue;
    best = PointWithin{r, first};
    best_time = frontier.time(first);
  }
  return best;
}

PointWithin least_peak(const PlanProblem& problem, std::span<const PlannerResult> results) {
  PointWithin lowest;
  Watts least(std::numeric_limits<double>::infinity());
  for (std::size_t r = 0; r < results.size(); ++r) {
    const std::size_t size = results[r].frontier.size();
    const std::size_t stride = std::max<std::size_t>(1, size / kLooks);
    for (std::size_t point = 0; point < size; point += stride) {
      const Watts peak = peak_of(curve_of(problem, results[r], point, 1));
      if (peak < least) {
        least = peak;
        lowest = {r, point};
      }
    }
  }
  return lowest;
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
