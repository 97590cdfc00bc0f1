// The stack that a row of a footprint has in a flame graph: its device, then the parts of its name. Header only.
#pragma once

#include <string_view>
#include <vector>

#include "account/footprint.h"
#include "base/text.h"

namespace flyball {

// Returns the outermost part first. The views are of the row.
[[nodiscard]] inline std::vector<std::string_view> stack_of(const FootprintRow& row) {
  std::vector<std::string_view> stack = {row.device};
  for (const std::string_view part : split_at('/', row.name)) {
    if (!part.empty()) stack.push_back(part);
  }
  return stack;
}

}  // namespace flyball
