// For each of 21 ratios of noise to bends the posterior mean solves (I + lambda K) f = y, with K five-diagonal, by L D
// L' in O(n); the restricted likelihood follows from the same factors and weighs the fits. A draw chooses a fit by its
// weight, draws the variance from its scaled inverse chi-square distribution, and solves L' x = z.
#include "profile/smooth_curve.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <numbers>

namespace flyball {
namespace {

// Ratios of the noise's variance to that of the curve's bends, in factors of the square root of ten: from a curve that
// goes through every point to one that is as good as straight.
constexpr double kLeastLambda = 1e-2;
constexpr int kLambdas = 21;
// Fits that are less likely than the best by more than this factor are never drawn.
constexpr double kNegligible = 1e-4;
// Weight of the first bend, which may be a corner.
constexpr double kCorner = 1e-4;

struct Bend {
  std::array<double, 3> coefficients{};
  double weight = 0.0;
};

// Second derivatives at the inner points, by divided differences; places are scaled to a mean distance of 1.
std::vector<Bend> bends_of(std::span<const double> places) {
  const double scale = std::abs(places.back() - places.front()) / static_cast<double>(places.size() - 1);
  std::vector<Bend> bends;
  for (std::size_t i = 1; i + 1 < places.size(); ++i) {
    const double before = std::abs(places[i] - places[i - 1]) / scale;
    const double after = std::abs(places[i + 1] - places[i]) / scale;
    bends.push_back({{2.0 / (before * (before + after)), -2.0 / (before * after), 2.0 / (after * (before + after))},
                     0.5 * (before + after)});
  }
  bends.front().weight *= kCorner;
  return bends;
}

double bend_at(const Bend& bend, std::span<const double> values, std::size_t first) {
  double sum = 0.0;
  for (std::size_t k = 0; k < 3; ++k) sum += bend.coefficients[k] * values[first + k];
  return sum;
}

// The straight line of least squares, which smoothing leaves as it is. Solved for without it, the rest has more digits.
std::vector<double> line_of(std::span<const double> places, std::span<const double> values) {
  const auto n = static_cast<double>(places.size());
  double x_mean = 0.0;
  double y_mean = 0.0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    x_mean += places[i] / n;
    y_mean += values[i] / n;
  }
  double products = 0.0;
  double squares = 0.0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    products += (places[i] - x_mean) * (values[i] - y_mean);
    squares += (places[i] - x_mean) * (places[i] - x_mean);
  }
  std::vector<double> line;
  for (const double place : places) line.push_back(y_mean + products / squares * (place - x_mean));
  return line;
}

}  // namespace

// The method of Box and Muller.
double NoiseSource::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

SmoothCurve::SmoothCurve(std::span<const double> places, std::span<const double> values) {
  assert(values.size() == places.size() && values.size() >= kLeastPoints);
  const std::size_t n = values.size();
  const auto freedom = static_cast<double>(n - 2);
  const std::vector<Bend> bends = bends_of(places);
  const std::vector<double> line = line_of(places, values);
  std::vector<double> likelihoods;  // -2 log, up to a constant
  for (int k = 0; k < kLambdas; ++k) {
    const double lambda = kLeastLambda * std::pow(10.0, 0.5 * k);
    Fit fit{
        1.0, 0.0, std::vector<double>(n), std::vector<double>(n), std::vector<double>(n), std::vector<double>(n, 1.0)};
    for (std::size_t b = 0; b < bends.size(); ++b) {
      const auto& c = bends[b].coefficients;
      const double weight = lambda * bends[b].weight;
      for (std::size_t i = 0; i < 3; ++i) fit.diagonal[b + i] += weight * c[i] * c[i];
      for (std::size_t i = 0; i < 2; ++i) fit.first[b + i + 1] += weight * c[i] * c[i + 1];
      fit.second[b + 2] += weight * c[0] * c[2];
    }
    double log_determinant = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      if (i >= 2) {
        fit.first[i] -= fit.second[i] * fit.first[i - 1];
        fit.diagonal[i] -= fit.second[i] * fit.second[i] / fit.diagonal[i - 2];
        fit.second[i] /= fit.diagonal[i - 2];
      }
      if (i >= 1) {
        fit.diagonal[i] -= fit.first[i] * fit.first[i] / fit.diagonal[i - 1];
        fit.first[i] /= fit.diagonal[i - 1];
      }
      log_determinant += std::log(fit.diagonal[i]);
    }
    std::vector<double>& f = fit.mean;
    for (std::size_t i = 0; i < n; ++i) {
      f[i] = values[i] - line[i];
      if (i >= 1) f[i] -= fit.first[i] * f[i - 1];
      if (i >= 2) f[i] -= fit.second[i] * f[i - 2];
    }
    for (std::size_t i = 0; i < n; ++i) f[i] /= fit.diagonal[i];
    for (std::size_t i = n; i-- > 0;) {
      if (i + 1 < n) f[i] -= fit.first[i + 1] * f[i + 1];
      if (i + 2 < n) f[i] -= fit.second[i + 2] * f[i + 2];
    }
    double squares = 0.0;
    for (std::size_t i = 0; i < n; ++i) squares += (values[i] - line[i] - f[i]) * (values[i] - line[i] - f[i]);
    for (std::size_t b = 0; b < bends.size(); ++b) {
      const double bend = bend_at(bends[b], f, b);
      squares += lambda * bends[b].weight * bend * bend;
    }
    for (std::size_t i = 0; i < n; ++i) f[i] += line[i];
    // Points on a straight line have no noise at all, but its logarithm must be finite.
    fit.variance = std::max(squares / freedom, 1e-30);
    likelihoods.push_back(freedom * std::log(fit.variance / lambda) + log_determinant);
    fits_.push_back(std::move(fit));
  }
  const double best = *std::min_element(likelihoods.begin(), likelihoods.end());
  double sum = 0.0;
  for (std::size_t k = 0; k < fits_.size(); ++k) {
    fits_[k].weight = std::exp(0.5 * (best - likelihoods[k]));
    if (fits_[k].weight < kNegligible) fits_[k].weight = 0.0;
    sum += fits_[k].weight;
  }
  std::erase_if(fits_, [](const Fit& fit) { return fit.weight == 0.0; });
  for (Fit& fit : fits_) fit.weight /= sum;
}

double SmoothCurve::noise() const {
  double variance = 0.0;
  for (const Fit& fit : fits_) variance += fit.weight * fit.variance;
  return std::sqrt(variance);
}

void SmoothCurve::draw(NoiseSource& random, std::span<double> one, std::span<double> other) const {
  const std::size_t n = fits_.front().mean.size();
  double place = random.uniform();
  std::size_t chosen = 0;
  while (chosen + 1 < fits_.size() && place >= fits_[chosen].weight) place -= fits_[chosen++].weight;
  const Fit& fit = fits_[chosen];
  // The variance is known from n - 2 degrees of freedom.
  double squares = 0.0;
  for (std::size_t i = 2; i < n; ++i) {
    const double normal = random.normal();
    squares += normal * normal;
  }
  const double variance = fit.variance * static_cast<double>(n - 2) / squares;
  for (std::size_t i = n; i-- > 0;) {
    one[i] = std::sqrt(variance / fit.diagonal[i]) * random.normal();
    if (i + 1 < n) one[i] -= fit.first[i + 1] * one[i + 1];
    if (i + 2 < n) one[i] -= fit.second[i + 2] * one[i + 2];
  }
  for (std::size_t i = 0; i < n; ++i) {
    other[i] = fit.mean[i] - one[i];
    one[i] += fit.mean[i];
  }
}

}  // namespace flyball
