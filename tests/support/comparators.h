// What MC2 is compared with in its section 3.4: forecasts of a power (or frequency) trace that know nothing of the
// training's stages.
//
// A trace is one value per step of equal length. Each comparator sees its beginning and says what the rest will be.
// Pure, deterministic. The yardstick of the tests and of bench/forecast_accuracy.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace flyball {

// Consumption in proportion to time: the mean of the first `window` steps. Precondition: 1 <= window <= trace.size().
[[nodiscard]] double proportional_level(std::span<const double> trace, std::size_t window);

// y_t = constant + sum of coefficients[i] y_(t-1-i), fitted by least squares on all steps that have `order` steps
// before them (as statsmodels' AutoReg does). A constant trace has no unique fit; the least-norm one is taken.
// Precondition: trace.size() > 2 * order + 1.
struct Autoregression {
  double constant = 0.0;
  std::vector<double> coefficients;
};
[[nodiscard]] Autoregression fit_autoregression(std::span<const double> trace, std::size_t order);
[[nodiscard]] std::vector<double> forecast(const Autoregression& model, std::span<const double> trace,
                                           std::size_t steps);

// Simple exponential smoothing, l_t = a y_t + (1 - a) l_(t-1), with the a in [0, 1] and the l_0 of least squared
// one-step errors. Every later step is forecast as the last level.
struct Smoothing {
  double alpha = 0.0;
  double initial_level = 0.0;
  double last_level = 0.0;
  double squared_errors = 0.0;
};
// Cost: O(size) for each of some hundred alphas; for a given one the best l_0 is a linear least-squares problem.
[[nodiscard]] Smoothing fit_smoothing(std::span<const double> trace);

// ARIMA(p, 1, q) without a drift: the differences d follow d_t = sum ar_i d_(t-i) + e_t + sum ma_j e_(t-j). Fitted by
// conditional least squares (the errors before the first full step are 0) from a start by Hannan and Rissanen. Kept
// within the region where the errors do not grow. Precondition: trace.size() > 4 * (p + q) + 20.
struct Arima {
  std::vector<double> ar;
  std::vector<double> ma;
};
[[nodiscard]] Arima fit_arima(std::span<const double> trace, std::size_t p, std::size_t q);
[[nodiscard]] std::vector<double> forecast(const Arima& model, std::span<const double> trace, std::size_t steps);

// 1 - |forecast - truth| / truth of two energies, in per cent; never below 0.
//
// The paper does not define its accuracy. This is what it computes: with a head of 4.5603 s (its table 4) and periods
// of which 96 % are at full clock, this measure gives the three printed figures of the comparators proportional to 1 s,
// 8 s and 16 s (28.0, 62.6, 83.7) from a single unknown, the low clock's share of the high one (0.259).
[[nodiscard]] double accuracy_pct(double forecast_energy, double true_energy);

}  // namespace flyball
