// The variance of a weighted mean is the sum of the squared weights times the squared deviations of the windows, which
// five running sums tell. Few windows tell their own spread badly: the error is that of Student's t.
#include "client/window_mean.h"

#include <algorithm>
#include <cmath>

namespace flyball {
namespace {

constexpr double kLeastSpread = 5e-4;  // of windows, as a share of their mean

}  // namespace

void WindowMean::add(std::int64_t steps, double sum) {
  const auto weight = static_cast<double>(steps);
  if (windows_ == 0) first_ = sum / weight;
  const double value = sum / weight - first_;
  ++windows_;
  weight_ += weight;
  sum_ += sum;
  squares_ += weight * weight;
  squares_times_ += weight * weight * value;
  squares_times_sq_ += weight * weight * value * value;
}

void WindowMean::add(const WindowMean& more) {
  if (windows_ == 0) first_ = more.first_;
  const double shift = more.first_ - first_;
  windows_ += more.windows_;
  weight_ += more.weight_;
  sum_ += more.sum_;
  squares_ += more.squares_;
  squares_times_ += more.squares_times_ + shift * more.squares_;
  squares_times_sq_ += more.squares_times_sq_ + 2.0 * shift * more.squares_times_ + shift * shift * more.squares_;
}

double WindowMean::error() const {
  if (windows_ < kLeastWindows) return kErrorOfFew * std::abs(mean());
  const auto count = static_cast<double>(windows_);
  const double middle = mean() - first_;
  const double squares = squares_times_sq_ - 2.0 * middle * squares_times_ + middle * middle * squares_;
  // n / (n - 1) for the spread of few, (n - 1) / (n - 3) for the variance of Student's t.
  const double error = std::sqrt(std::max(0.0, squares) * count / (count - 3.0)) / weight_;
  return std::max(error, kLeastSpread * std::abs(mean()) / std::sqrt(count));
}

}  // namespace flyball
