#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace flyball {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: no UTF-8
};

Character first_of(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0u) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kLeast[bytes] || code > 0x10FFFF || surrogate) return {};
  return {code, bytes};
}

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
    const Character character = first_of(text);
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
