#include "support/comparators.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <Eigen/Dense>

namespace flyball {
namespace {

using Index = Eigen::Index;

Eigen::VectorXd solve_least_squares(const Eigen::MatrixXd& rows, const Eigen::VectorXd& values) {
  return rows.completeOrthogonalDecomposition().solve(values);
}

std::vector<double> to_vector(const Eigen::VectorXd& values, Index begin, Index count) {
  return {values.data() + begin, values.data() + begin + count};
}

// y(t) of the recursion that both AR and ARIMA forecasts are.
double weighted_past(const std::vector<double>& weights, const std::vector<double>& past) {
  double sum = 0.0;
  for (std::size_t i = 0; i < weights.size() && i < past.size(); ++i) sum += weights[i] * past[past.size() - 1 - i];
  return sum;
}

// One-step errors of an ARMA on the differences; the first p are 0.
std::vector<double> errors_of(const Arima& model, std::span<const double> differences) {
  std::vector<double> errors(differences.size(), 0.0);
  const std::size_t p = model.ar.size();
  for (std::size_t t = p; t < differences.size(); ++t) {
    double error = differences[t];
    for (std::size_t i = 0; i < p; ++i) error -= model.ar[i] * differences[t - 1 - i];
    for (std::size_t j = 0; j < model.ma.size() && j < t; ++j) error -= model.ma[j] * errors[t - 1 - j];
    errors[t] = error;
  }
  return errors;
}

double sum_of_squares(const std::vector<double>& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

Arima from_parameters(const Eigen::VectorXd& parameters, std::size_t p, std::size_t q) {
  return {to_vector(parameters, 0, static_cast<Index>(p)),
          to_vector(parameters, static_cast<Index>(p), static_cast<Index>(q))};
}

std::vector<double> differences_of(std::span<const double> trace) {
  std::vector<double> differences;
  for (std::size_t t = 1; t < trace.size(); ++t) differences.push_back(trace[t] - trace[t - 1]);
  return differences;
}

// Hannan and Rissanen: errors from a long autoregression, then a regression on the past and those errors.
Eigen::VectorXd hannan_rissanen(std::span<const double> differences, std::size_t p, std::size_t q) {
  const std::size_t order = std::min(differences.size() / 4, 2 * (p + q) + 6);
  const Autoregression whitening = fit_autoregression(differences, order);
  std::vector<double> errors(differences.size(), 0.0);
  for (std::size_t t = order; t < differences.size(); ++t) {
    errors[t] = differences[t] - whitening.constant;
    for (std::size_t i = 0; i < order; ++i) errors[t] -= whitening.coefficients[i] * differences[t - 1 - i];
  }
  const std::size_t first = order + std::max(p, q);
  Eigen::MatrixXd rows(static_cast<Index>(differences.size() - first), static_cast<Index>(p + q));
  Eigen::VectorXd values(rows.rows());
  for (std::size_t t = first; t < differences.size(); ++t) {
    const auto row = static_cast<Index>(t - first);
    for (std::size_t i = 0; i < p; ++i) rows(row, static_cast<Index>(i)) = differences[t - 1 - i];
    for (std::size_t j = 0; j < q; ++j) rows(row, static_cast<Index>(p + j)) = errors[t - 1 - j];
    values(row) = differences[t];
  }
  return solve_least_squares(rows, values);
}

}  // namespace

double proportional_level(std::span<const double> trace, std::size_t window) {
  assert(window >= 1 && window <= trace.size());
  const auto begin = trace.begin();
  return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(window), 0.0) / static_cast<double>(window);
}

Autoregression fit_autoregression(std::span<const double> trace, std::size_t order) {
  assert(trace.size() > 2 * order + 1);
  Eigen::MatrixXd rows(static_cast<Index>(trace.size() - order), static_cast<Index>(order + 1));
  Eigen::VectorXd values(rows.rows());
  for (std::size_t t = order; t < trace.size(); ++t) {
    const auto row = static_cast<Index>(t - order);
    rows(row, 0) = 1.0;
    for (std::size_t i = 0; i < order; ++i) rows(row, static_cast<Index>(i + 1)) = trace[t - 1 - i];
    values(row) = trace[t];
  }
  const Eigen::VectorXd fitted = solve_least_squares(rows, values);
  return {fitted(0), to_vector(fitted, 1, static_cast<Index>(order))};
}

std::vector<double> forecast(const Autoregression& model, std::span<const double> trace, std::size_t steps) {
  std::vector<double> values(trace.begin(), trace.end());
  for (std::size_t k = 0; k < steps; ++k) {
    values.push_back(model.constant + weighted_past(model.coefficients, values));
  }
  values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(trace.size()));
  return values;
}

Smoothing fit_smoothing(std::span<const double> trace) {
  // Every level is u_t + v_t l_0 with v_t = (1 - a)^t, so that the squared errors are a parabola in l_0.
  const auto at_alpha = [trace](double alpha) {
    double own = 0.0;
    double initial = 1.0;
    double cross = 0.0;
    double square = 0.0;
    for (const double value : trace) {
      cross += (value - own) * initial;
      square += initial * initial;
      own = alpha * value + (1.0 - alpha) * own;
      initial *= 1.0 - alpha;
    }
    Smoothing fit{alpha, cross / square, 0.0, 0.0};
    double level = fit.initial_level;
    for (const double value : trace) {
      fit.squared_errors += (value - level) * (value - level);
      level = alpha * value + (1.0 - alpha) * level;
    }
    fit.last_level = level;
    return fit;
  };
  // A grid, since the errors may have several valleys, then golden sections in the best one.
  constexpr int kGrid = 200;
  Smoothing best = at_alpha(0.0);
  for (int k = 1; k <= kGrid; ++k) {
    const Smoothing fit = at_alpha(static_cast<double>(k) / kGrid);
    if (fit.squared_errors < best.squared_errors) best = fit;
  }
  double low = std::max(0.0, best.alpha - 1.0 / kGrid);
  double high = std::min(1.0, best.alpha + 1.0 / kGrid);
  constexpr double kGolden = 0.6180339887498949;
  while (high - low > 1e-10) {
    const double left = high - kGolden * (high - low);
    const double right = low + kGolden * (high - low);
    if (at_alpha(left).squared_errors <= at_alpha(right).squared_errors) {
      high = right;
    } else {
      low = left;
    }
  }
  const Smoothing refined = at_alpha(0.5 * (low + high));
  return refined.squared_errors <= best.squared_errors ? refined : best;
}

Arima fit_arima(std::span<const double> trace, std::size_t p, std::size_t q) {
  assert(trace.size() > 4 * (p + q) + 20);
  const std::vector<double> differences = differences_of(trace);
  const auto cost = [&](const Eigen::VectorXd& parameters) {
    const double sum = sum_of_squares(errors_of(from_parameters(parameters, p, q), differences));
    return std::isfinite(sum) ? sum : std::numeric_limits<double>::infinity();
  };
  Eigen::VectorXd parameters = hannan_rissanen(differences, p, q);
  double least = cost(parameters);
  // A moving average whose errors grow is halved until it describes the data better than none does.
  const Eigen::VectorXd none = Eigen::VectorXd::Zero(parameters.size());
  while (!(least <= cost(none))) {
    parameters *= 0.5;
    least = cost(parameters);
    if (parameters.norm() < 1e-6) parameters = none;
  }
  // Levenberg and Marquardt, with the Jacobian by central differences.
  double damping = 1e-3;
  const auto size = static_cast<Index>(differences.size());
  for (int round = 0; round < 200; ++round) {
    const std::vector<double> errors = errors_of(from_parameters(parameters, p, q), differences);
    const Eigen::Map<const Eigen::VectorXd> residual(errors.data(), size);
    Eigen::MatrixXd jacobian(size, parameters.size());
    constexpr double kStep = 1e-6;
    for (Index k = 0; k < parameters.size(); ++k) {
      Eigen::VectorXd up = parameters;
      Eigen::VectorXd down = parameters;
      up(k) += kStep;
      down(k) -= kStep;
      const std::vector<double> above = errors_of(from_parameters(up, p, q), differences);
      const std::vector<double> below = errors_of(from_parameters(down, p, q), differences);
      for (Index t = 0; t < size; ++t) {
        const auto at = static_cast<std::size_t>(t);
        jacobian(t, k) = (above[at] - below[at]) / (2.0 * kStep);
      }
    }
    const Eigen::VectorXd gradient = jacobian.transpose() * residual;
    Eigen::MatrixXd curvature = jacobian.transpose() * jacobian;
    if (!curvature.allFinite() || !gradient.allFinite()) break;
    curvature.diagonal() *= 1.0 + damping;
    const Eigen::VectorXd step = curvature.completeOrthogonalDecomposition().solve(gradient);
    const double next = cost(parameters - step);
    if (next < least) {
      const bool done = least - next <= 1e-13 * least;
      parameters -= step;
      least = next;
      damping = std::max(damping * 0.3, 1e-12);
      if (done) break;
    } else {
      damping *= 4.0;
      if (damping > 1e8) break;
    }
  }
  return from_parameters(parameters, p, q);
}

std::vector<double> forecast(const Arima& model, std::span<const double> trace, std::size_t steps) {
  std::vector<double> differences = differences_of(trace);
  std::vector<double> errors = errors_of(model, differences);
  std::vector<double> values;
  double level = trace.back();
  for (std::size_t k = 0; k < steps; ++k) {
    const double difference = weighted_past(model.ar, differences) + weighted_past(model.ma, errors);
    differences.push_back(difference);
    errors.push_back(0.0);
    level += difference;
    values.push_back(level);
  }
  return values;
}

double accuracy_pct(double forecast_energy, double true_energy) {
  return std::max(0.0, 100.0 * (1.0 - std::abs(forecast_energy - true_energy) / true_energy));
}

}  // namespace flyball
