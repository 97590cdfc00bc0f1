// Runs of plain ASCII are copied as they are; each other character is decoded and kept, escaped or replaced.
#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "base/utf8.h"

namespace flyball {
namespace {

bool obeyed_by_terminals(std::uint32_t code) {
  const auto within = [code](std::uint32_t first, std::uint32_t last) { return code >= first && code <= last; };
  return code < 0x20 || within(0x7F, 0x9F) ||                 // control characters
         within(0x2028, 0x202E) || within(0x2066, 0x2069) ||  // ends of lines and paragraphs, directions
         code == 0x061C || within(0x200E, 0x200F);            // marks of direction
}

}  // namespace

std::string printable(std::string_view text, LineEnds ends) {
  std::string result;
  result.reserve(text.size());
  const auto ordinary = [](char c) { return c >= 0x20 && c < 0x7F; };
  while (true) {
    const std::size_t length =
        static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), ordinary) - text.begin());
    result.append(text, 0, length);
    text.remove_prefix(length);
    if (text.empty()) return result;
    const Utf8Character character = first_character(text);
    const bool kept = ends == LineEnds::kKept && (character.code == '\n' || character.code == '\t');
    if (character.bytes == 0) {
      result += "\xEF\xBF\xBD";
    } else if (obeyed_by_terminals(character.code) && !kept) {
      fmt::format_to(std::back_inserter(result), "\\u{:04x}", character.code);
    } else {
      result.append(text, 0, character.bytes);
    }
    text.remove_prefix(std::max<std::size_t>(character.bytes, 1));
  }
}

}  // namespace flyball
