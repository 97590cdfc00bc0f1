// The median of some values. Header only.
//
// Of an even number of values, one in the middle is taken and not the mean of two, so that it is one that occurred.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace flyball {

// The median absolute deviation of normal noise, times this, is its standard deviation (Rousseeuw and Croux, JASA 88,
// 1993).
inline constexpr double kNormalScale = 1.4826;

// Returns the value in the middle; of an even number of values, the upper of the two in the middle. There must be at
// least one. Cost: O(values) on average.
template <class Value>
[[nodiscard]] Value median(std::vector<Value> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The same, but of an even number the lower one: for values among which some are too large, as distances between
// readings are where one was missed. Of three readings with a gap, this is the period, and the upper one the gap.
template <class Value>
[[nodiscard]] Value lower_median(std::vector<Value> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace flyball
