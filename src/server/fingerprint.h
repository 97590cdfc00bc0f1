// A hash of texts (FNV-1a), to tell changed texts from unchanged ones. It does not withstand attacks.
#pragma once

#include <cstdint>
#include <string_view>

namespace flyball {

class Fingerprint {
 public:
  // Adds a text. "ab" and then "c" gives another value than "a" and then "bc".
  void add(std::string_view text) {
    for (const char c : text) value_ = (value_ ^ static_cast<unsigned char>(c)) * 1099511628211u;
    value_ *= 1099511628211u;
  }
  [[nodiscard]] std::uint64_t value() const { return value_ == 0 ? 1 : value_; }  // never 0, which stands for none

 private:
  std::uint64_t value_ = 14695981039346656037u;
};

}  // namespace flyball
