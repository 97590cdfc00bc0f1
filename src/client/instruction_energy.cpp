// Iteratively reweighted least squares (weights of about 1/|residual|, 30 rounds) approximate the least absolute
// residuals; then equations far off are dropped and the rest is solved again, up to eight times. The normal equations,
// of some ten unknowns, are solved by Cholesky, with a small pull of every power to the mean for those that the
// equations leave open.
#include "client/instruction_energy.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/median.h"

namespace flyball {
namespace {

constexpr int kMostRounds = 8;
constexpr int kAbsoluteRounds = 30;
// Equations per unknown below which the least absolute residuals would fit a few equations exactly and none of the
// rest.
constexpr std::size_t kEnoughEquations = 10;
// Pulls powers that the equations leave open towards the mean power; as a share of the mean weight of an unknown.
constexpr double kPull = 1e-4;

struct Equation {
  std::vector<double> seconds;  // per type, waiting last
  double joules = 0.0;
  double weight = 1.0;  // 0: dropped
};

double residual_of(const Equation& equation, const std::vector<double>& powers) {
  double residual = equation.joules;
  for (std::size_t i = 0; i < powers.size(); ++i) residual -= powers[i] * equation.seconds[i];
  return residual;
}

double length(Nanoseconds begin, Nanoseconds end) { return static_cast<double>(end - begin) / 1e9; }

std::vector<Equation> make_equations(std::span<const InstructionSpan> spans, std::span<const CounterPoint> points,
                                     Nanoseconds from, Nanoseconds until, std::size_t type_count, Nanoseconds lag) {
  std::vector<Equation> equations;
  std::size_t first = 0;  // the first span that ends after the present equation begins
  for (std::size_t i = 1; i < points.size(); ++i) {
    const Nanoseconds begin = points[i - 1].time - lag;
    const Nanoseconds end = points[i].time - lag;
    if (begin < from || end > until || end <= begin) continue;
    Equation equation;
    equation.seconds.assign(type_count + 1, 0.0);
    equation.joules = (points[i].energy - points[i - 1].energy).value();
    while (first < spans.size() && spans[first].end <= begin) ++first;
    double busy = 0.0;
    for (std::size_t s = first; s < spans.size() && spans[s].begin < end; ++s) {
      const double overlap = length(std::max(spans[s].begin, begin), std::min(spans[s].end, end));
      equation.seconds[spans[s].type] += overlap;
      busy += overlap;
    }
    equation.seconds[type_count] = std::max(0.0, length(begin, end) - busy);
    equations.push_back(std::move(equation));
  }
  return equations;
}

// Solves the symmetric positive definite system in place (Cholesky); `matrix` is row-major n x n.
std::vector<double> solve(std::vector<double> matrix, std::vector<double> right) {
  const std::size_t n = right.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = matrix[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= matrix[i * n + k] * matrix[j * n + k];
      matrix[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-300)) : sum / matrix[j * n + j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) right[i] -= matrix[i * n + k] * right[k];
    right[i] /= matrix[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) right[i] -= matrix[k * n + i] * right[k];
    right[i] /= matrix[i * n + i];
  }
  return right;
}

std::vector<double> least_squares(const std::vector<Equation>& equations, std::size_t unknowns) {
  double joules = 0.0;
  double seconds = 0.0;
  for (const Equation& equation : equations) {
    joules += equation.weight * equation.joules;
    for (const double part : equation.seconds) seconds += equation.weight * part;
  }
  const double mean = seconds > 0.0 ? joules / seconds : 0.0;
  std::vector<double> matrix(unknowns * unknowns, 0.0);
  std::vector<double> right(unknowns, 0.0);
  for (const Equation& equation : equations) {
    double rest = equation.joules;
    for (const double part : equation.seconds) rest -= mean * part;
    for (std::size_t i = 0; i < unknowns; ++i) {
      const double weighted = equation.weight * equation.seconds[i];
      right[i] += weighted * rest;
      for (std::size_t j = 0; j < unknowns; ++j) matrix[i * unknowns + j] += weighted * equation.seconds[j];
    }
  }
  double trace = 0.0;
  for (std::size_t i = 0; i < unknowns; ++i) trace += matrix[i * unknowns + i];
  const double pull = std::max(kPull * trace / static_cast<double>(unknowns), 1e-30);
  for (std::size_t i = 0; i < unknowns; ++i) matrix[i * unknowns + i] += pull;
  std::vector<double> powers = solve(std::move(matrix), std::move(right));
  for (double& power : powers) power = std::max(0.0, power + mean);
  return powers;
}

// Finds the least sum of absolute residuals by least squares that are weighted again and again. With few equations, the
// first squares stand.
std::vector<double> least_absolute(std::vector<Equation>& equations, std::size_t unknowns) {
  std::vector<double> powers = least_squares(equations, unknowns);
  if (equations.size() < kEnoughEquations * unknowns) return powers;
  for (int round = 0; round < kAbsoluteRounds; ++round) {
    std::vector<double> sizes;
    for (const Equation& equation : equations) sizes.push_back(std::abs(residual_of(equation, powers)));
    const double small = 0.1 * median(sizes) + 1e-12;
    for (std::size_t i = 0; i < equations.size(); ++i) equations[i].weight = small / std::max(sizes[i], small);
    powers = least_squares(equations, unknowns);
  }
  return powers;
}

// Drops equations that the solution leaves far off, and solves again, until none is dropped. If a fifth of the readings
// came late, plain least squares would begin so far off that the good equations were dropped.
std::vector<double> robust_powers(std::vector<Equation>& equations, std::size_t unknowns) {
  std::vector<double> powers = least_absolute(equations, unknowns);
  for (int round = 0; round < kMostRounds && equations.size() > unknowns; ++round) {
    std::vector<double> residuals;
    for (const Equation& equation : equations) {
      residuals.push_back(std::abs(residual_of(equation, powers)));
    }
    const double limit = kEnergyOutlier * kNormalScale * median(residuals) + 1e-9;
    bool changed = false;
    for (std::size_t i = 0; i < equations.size(); ++i) {
      const double weight = residuals[i] <= limit ? 1.0 : 0.0;
      changed |= weight != equations[i].weight;
      equations[i].weight = weight;
    }
    if (!changed) break;
    powers = least_squares(equations, unknowns);
  }
  return powers;
}

}  // namespace

RobustMean robust_mean(std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> deviations;
  deviations.reserve(values.size());
  for (const double value : values) deviations.push_back(std::abs(value - middle));
  // Times that agree to a thousandth are not outliers of each other.
  const double limit = std::max(kTimeOutlier * kNormalScale * median(std::move(deviations)), 1e-3 * std::abs(middle));
  double sum = 0.0;
  RobustMean result;
  for (const double value : values) {
    if (std::abs(value - middle) > limit) continue;
    sum += value;
    ++result.used;
  }
  result.mean = sum / static_cast<double>(result.used);
  if (result.used < 2) return result;
  double squares = 0.0;
  for (const double value : values) {
    if (std::abs(value - middle) <= limit) squares += (value - result.mean) * (value - result.mean);
  }
  result.deviation = std::sqrt(squares / static_cast<double>(result.used - 1));
  return result;
}

void CounterLag::add(std::span<const InstructionSpan> spans, std::span<const CounterPoint> points, Nanoseconds from,
                     Nanoseconds until, std::size_t type_count) {
  if (period_ == 0) {
    std::vector<double> between;
    for (std::size_t i = 1; i < points.size(); ++i) between.push_back(length(points[i - 1].time, points[i].time));
    if (between.empty()) return;
    period_ = static_cast<Nanoseconds>(1e9 * median(std::move(between)));
  }
  const std::size_t unknowns = type_count + 1;
  for (std::size_t step = 0; step < kSteps; ++step) {
    const Nanoseconds lag = period_ * static_cast<Nanoseconds>(step) / static_cast<Nanoseconds>(kSteps);
    const auto equations = make_equations(spans, points, from, until - period_, type_count, lag);
    if (equations.size() <= unknowns) return;
    const std::vector<double> powers = least_squares(equations, unknowns);
    double left = 0.0;
    for (const Equation& equation : equations) left += std::abs(residual_of(equation, powers));
    left_[step] += left / static_cast<double>(equations.size() - unknowns);
  }
}

Nanoseconds CounterLag::found() const {
  constexpr double kClearlyLess = 0.8;
  const auto best = std::min_element(left_.begin(), left_.end());
  if (*best >= kClearlyLess * left_[0]) return 0;
  return period_ * (best - left_.begin()) / static_cast<Nanoseconds>(kSteps);
}

ActivityEstimate estimate_activity(std::span<const InstructionSpan> spans, std::span<const CounterPoint> points,
                                   Nanoseconds from, Nanoseconds until, std::size_t type_count, Nanoseconds lag) {
  ActivityEstimate estimate;
  std::vector<Equation> equations = make_equations(spans, points, from, until, type_count, lag);
  const std::size_t unknowns = type_count + 1;
  const std::vector<double> powers = robust_powers(equations, unknowns);
  double total = 0.0;
  double waiting = 0.0;
  for (const Equation& equation : equations) {
    estimate.equations += equation.weight > 0.0 ? 1 : 0;
    for (const double part : equation.seconds) total += part;
    waiting += equation.seconds.back();
  }
  estimate.waiting = Watts(powers.back());
  estimate.waiting_share = total > 0.0 ? waiting / total : 0.0;
  const auto estimate_of = [&](std::size_t type, Microbatches of) -> InstructionEstimate {
    std::vector<double> times;
    for (const InstructionSpan& span : spans) {
      const bool counts = span.type == type && span.of == of;
      if (counts && span.begin >= from && span.end <= until) times.push_back(length(span.begin, span.end));
    }
    if (times.empty()) return {};
    const std::size_t runs = times.size();
    const RobustMean mean = robust_mean(times);
    return {Seconds(mean.mean), Watts(powers[type]) * Seconds(mean.mean), mean.used, runs - mean.used,
            Seconds(mean.deviation)};
  };
  for (std::size_t type = 0; type < type_count; ++type) {
    estimate.types.push_back(estimate_of(type, Microbatches::kAll));
    estimate.first.push_back(estimate_of(type, Microbatches::kFirst));
    estimate.last.push_back(estimate_of(type, Microbatches::kLast));
  }
  return estimate;
}

}  // namespace flyball
