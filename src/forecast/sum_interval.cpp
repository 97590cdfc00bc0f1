// The mixture is over 24 correlations, evenly spread over their range. The half width at which it leaves the wanted
// probability outside is found by bracketing.
#include "forecast/sum_interval.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/tools/toms748_solve.hpp>

namespace flyball {
namespace {

using StudentsT = boost::math::students_t;

constexpr int kCorrelations = 24;

// What one correlation says of the run's mean: Student's t round `centre`, with its weight beside others.
struct Belief {
  double centre = 0.0;  // less the measurements' mean
  double scale = 0.0;
  double weight = 0.0;  // its logarithm at first
};

// Variance of the mean of n values in units of one value's; n must be whole.
double variance_of_mean(double correlation, double n) {
  const double apart = 1.0 - correlation;
  const double end = 2.0 * correlation * (1.0 - std::pow(correlation, n)) / (n * n * apart * apart);
  return (1.0 + correlation) / (n * apart) - end;
}

// `deviations` are from their own mean, and not all 0.
Belief belief_of(std::span<const double> deviations, double repeats, double correlation, const SpreadPrior& prior) {
  const auto count = static_cast<double>(deviations.size());
  const double apart = 1.0 - correlation;
  const double ends = deviations.front() + deviations.back();
  // Generalised least squares: inner values count for less the more alike neighbours are.
  const double centre = (ends - apart * ends) / (2.0 + (count - 2.0) * apart);
  const double innovation = 1.0 - correlation * correlation;
  double squares =
      prior.weight * prior.deviation * prior.deviation + (deviations.front() - centre) * (deviations.front() - centre);
  for (std::size_t k = 1; k < deviations.size(); ++k) {
    const double error = deviations[k] - centre - correlation * (deviations[k - 1] - centre);
    squares += error * error / innovation;
  }
  const double information = (count - (count - 2.0) * correlation) / (1.0 + correlation);
  const double freedom = count - 1.0 + prior.weight;
  return {centre,
          std::sqrt(squares / freedom *
                    (1.0 / information + variance_of_mean(correlation, std::max(std::round(repeats), 1.0)))),
          -0.5 * ((count - 1.0) * std::log(innovation) + std::log(information) + freedom * std::log(squares))};
}

}  // namespace

std::optional<double> sum_half_width(std::span<const double> measured, double repeats, double confidence,
                                     CorrelationRange range, SpreadPrior prior) {
  if (measured.empty() || (measured.size() == 1 && prior.weight <= 0.0)) return std::nullopt;
  const auto count = static_cast<double>(measured.size());
  const double mean = std::accumulate(measured.begin(), measured.end(), 0.0) / count;
  double largest = 0.0;
  for (const double value : measured) largest = std::max(largest, std::abs(value - mean));
  const bool certain = prior.weight * prior.deviation <= 0.0;
  if (certain && largest <= 1e-14 * std::abs(mean)) return 0.0;
  // The unit is what is known of the spread, so that no square is too small for a double.
  const double unit = std::max(largest, certain ? 0.0 : prior.deviation);
  std::vector<double> deviations;
  for (const double value : measured) deviations.push_back((value - mean) / unit);
  prior.deviation /= unit;
  const StudentsT student(count - 1.0 + prior.weight);
  const double quantile = boost::math::quantile(student, 0.5 + 0.5 * confidence);
  std::vector<Belief> beliefs;
  double best = -INFINITY;
  double widest = 0.0;
  for (int k = 0; k < kCorrelations; ++k) {
    const double correlation = range.low + (range.high - range.low) * (k + 0.5) / kCorrelations;
    beliefs.push_back(belief_of(deviations, repeats, correlation, prior));
    best = std::max(best, beliefs.back().weight);
    widest = std::max(widest, std::abs(beliefs.back().centre) + quantile * beliefs.back().scale);
  }
  double weights = 0.0;
  for (Belief& belief : beliefs) weights += belief.weight = std::exp(belief.weight - best);
  const auto outside = [&](double half) {
    double sum = 0.0;
    for (const Belief& belief : beliefs) {
      sum +=
          belief.weight * (boost::math::cdf(student, (-half - belief.centre) / belief.scale) +
                           boost::math::cdf(boost::math::complement(student, (half - belief.centre) / belief.scale)));
    }
    return sum / weights - (1.0 - confidence);
  };
  // The half width lies between 0 and a little more than the widest of all, which holds the probability under every
  // correlation.
  std::uintmax_t rounds = 100;
  const auto [low, high] = boost::math::tools::toms748_solve(outside, 0.0, 1.001 * widest,
                                                             boost::math::tools::eps_tolerance<double>(30), rounds);
  return repeats * unit * 0.5 * (low + high);
}

}  // namespace flyball
