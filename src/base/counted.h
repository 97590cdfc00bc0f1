// Writes a number of things in words. Header only.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace flyball {

// Returns the number with its noun, such as "1 reading" or "2 readings".
[[nodiscard]] inline std::string counted(long count, std::string_view noun, std::string_view plural = "s") {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : plural);
}

}  // namespace flyball
