// Random ids. Header only.
#pragma once

#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace flyball {

// Returns a string of this many hexadecimal digits from the kernel's random source. Throws SystemError.
[[nodiscard]] inline std::string random_digits(std::size_t digits) {
  std::vector<std::uint8_t> bytes((digits + 1) / 2);
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw SystemError("the system gives no random numbers (getrandom)");
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4u];
    text += kDigits[byte & 15u];
  }
  text.resize(digits);
  return text;
}

}  // namespace flyball
