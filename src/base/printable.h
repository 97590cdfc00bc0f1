// Foreign text on a terminal. Names in traces, files and requests may hold what a terminal obeys: colours, a cursor
// that moves, a title, text that runs from right to left. Whatever is written for people goes through here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flyball {

enum class LineEnds : std::uint8_t {
  kEscaped,  // a name: one line, whatever it holds
  kKept,     // a text of several lines, with tabs
};

// Control characters and what changes the direction of text become the escapes that JSON has for them (\u001b), so that
// JSON that goes through here says the same as before; bytes that are no UTF-8 become U+FFFD. All else stays.
[[nodiscard]] std::string printable(std::string_view text, LineEnds ends = LineEnds::kEscaped);

}  // namespace flyball
