// The median of some values. Header only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace flyball {

// Returns the value in the middle; of an even number of values, the upper of the two in the middle. There must be at
// least one. Cost: O(values) on average.
template <class Value>
[[nodiscard]] Value median(std::vector<Value> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace flyball
