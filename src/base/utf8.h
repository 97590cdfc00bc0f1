// Checks whether bytes are UTF-8, and cuts text between characters. Foreign text is checked where it comes in, since
// JSON cannot be written of a text that is not UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace flyball {

struct Utf8Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: no UTF-8
};

// Decodes the first character of a text, which must not be empty.
[[nodiscard]] Utf8Character first_character(std::string_view text);

[[nodiscard]] bool is_utf8(std::string_view text);

// Returns how many characters a text has, which should be UTF-8.
[[nodiscard]] std::size_t count_characters(std::string_view text);

// Returns the longest beginning of `text` that has at most `bytes` bytes and ends where a character ends.
[[nodiscard]] std::string_view cut_between_characters(std::string_view text, std::size_t bytes);

}  // namespace flyball
