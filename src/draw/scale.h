// Axes: linear scales, round tick values and their labels.
#pragma once

#include <string>
#include <vector>

namespace flyball {

// Maps [from, to] linearly to [low, high] pixels; high may be less than low.
struct LinearScale {
  double from = 0.0;
  double to = 1.0;
  double low = 0.0;
  double high = 1.0;

  [[nodiscard]] double operator()(double value) const { return low + (value - from) / (to - from) * (high - low); }
};

struct Ticks {
  std::vector<double> values;
  double step = 1.0;
  [[nodiscard]] std::string label(
      double value) const;  // as many decimals as the step needs, thousands set apart by thin spaces
};

// Returns the multiples of 1, 2 or 5 times a power of ten in [from, to], about `count` of them at most.
[[nodiscard]] Ticks round_ticks(double from, double to, int count);

// Returns the number with fixed decimals, such as "12 345.6". From 10,000 on, narrow no-break spaces set groups of
// three digits apart.
[[nodiscard]] std::string grouped_number(double value, int decimals);

// Returns the number with about four significant digits, for hover texts and labels: "12.35", "0.1235", "1235", "75".
[[nodiscard]] std::string short_number(double value);

// Returns the finite number that has so many significant digits, for data that a page holds.
[[nodiscard]] double rounded_number(double value, int digits);

}  // namespace flyball
