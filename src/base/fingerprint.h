// A hash of texts (FNV-1a), to tell changed texts from unchanged ones. It does not withstand attacks.
#pragma once

#include <cstdint>
#include <string_view>

namespace flyball {

// Returns the hash of a text; `before` is the hash of what stands before it.
[[nodiscard]] constexpr std::uint64_t hash_text(std::string_view text, std::uint64_t before = 14695981039346656037u) {
  for (const char c : text) before = (before ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return before;
}

class Fingerprint {
 public:
  // Adds a text. "ab" and then "c" gives another value than "a" and then "bc".
  void add(std::string_view text) { value_ = hash_text(text, value_) * 1099511628211u; }
  [[nodiscard]] std::uint64_t value() const { return value_ == 0 ? 1 : value_; }  // 0 is none
  // The value in 52 bits, above 0: such numbers are exact in JSON, whoever reads it.
  [[nodiscard]] std::int64_t number() const {
    const std::uint64_t bits = value() & ((std::uint64_t{1} << 52u) - 1);
    return bits == 0 ? 1 : static_cast<std::int64_t>(bits);
  }

 private:
  std::uint64_t value_ = hash_text({});
};

}  // namespace flyball
