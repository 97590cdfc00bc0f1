// The middle value of some. Header only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace flyball {

// Of an even number, the upper of the two in the middle. There must be a value. Linear.
template <class Value>
[[nodiscard]] Value median(std::vector<Value> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace flyball
