// Makes foreign text safe for a terminal. Names in traces, files and requests may hold what a terminal obeys: colours,
// a cursor that moves, a title, text that runs from right to left. All that is written for people goes through here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flyball {

enum class LineEnds : std::uint8_t {
  kEscaped,  // a name: one line, whatever it holds
  kKept,     // a text of several lines, with tabs
};

// Control characters, and characters that change the direction of text, become JSON's escapes for them (\u001b), so
// that JSON keeps its meaning; bytes that are not UTF-8 become U+FFFD. All else stays as it is.
[[nodiscard]] std::string printable(std::string_view text, LineEnds ends = LineEnds::kEscaped);

}  // namespace flyball
