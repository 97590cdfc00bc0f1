// The mean of a quantity per step, over windows of some steps each, and how uncertain it is. Steps in a row are alike,
// and a counter tells their ends late; windows of several steps are nearly independent, so that their differences tell
// the standard error of the mean (batch means).
#pragma once

#include <cstdint>

namespace flyball {

// Not thread-safe. Every call costs nanoseconds.
class WindowMean {
 public:
  static constexpr std::int64_t kLeastWindows = 5;
  static constexpr double kErrorOfFew = 0.1;  // of the mean, taken for granted where there are fewer windows

  // Adds a window of `steps`, at least 1, that took `sum` together.
  void add(std::int64_t steps, double sum);
  // Adds the windows of another mean.
  void add(const WindowMean& more);

  [[nodiscard]] std::int64_t windows() const { return windows_; }
  // Returns the mean of a step; 0 where there is no window.
  [[nodiscard]] double mean() const { return weight_ > 0.0 ? sum_ / weight_ : 0.0; }
  // Returns the standard error of mean(), never less than windows that happen to be equal would hide.
  [[nodiscard]] double error() const;

 private:
  std::int64_t windows_ = 0;
  double weight_ = 0.0;  // steps
  double sum_ = 0.0;
  double first_ = 0.0;          // the first window's mean, from which the values below are counted, for their precision
  double squares_ = 0.0;        // sum of weight^2
  double squares_times_ = 0.0;  // of weight^2 * value
  double squares_times_sq_ = 0.0;  // of weight^2 * value^2
};

}  // namespace flyball
