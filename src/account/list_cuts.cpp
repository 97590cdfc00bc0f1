#include "account/list_cuts.h"

#include <simdjson.h>

#include <algorithm>
#include <memory>

#include "account/byte_source.h"

namespace flyball {
namespace {

constexpr std::uint64_t kLeastPart = std::uint64_t{1} << 20;
constexpr std::size_t kWindow = std::size_t{1} << 18;  // in which two entries are to begin
constexpr std::size_t kNone = std::string_view::npos;

// The first comma before an entry in the text, or kNone.
std::size_t find_cut(std::string_view text) {
  simdjson::dom::parser parser;
  std::size_t cut = kNone;
  for (std::size_t brace = text.find('{'); brace != kNone; brace = text.find('{', brace + 1)) {
    const std::size_t comma = comma_before(text, brace);
    if (comma == kNone) continue;
    if (cut != kNone) {
      const simdjson::padded_string entry(text.substr(cut + 1, comma - cut - 1));
      if (parser.parse(entry)["ph"].is_string()) return cut;
    }
    cut = comma;
  }
  return kNone;
}

}  // namespace

std::size_t comma_before(std::string_view text, std::size_t brace) {
  std::size_t quote = brace + 1;
  while (quote < text.size() && is_blank(text[quote])) ++quote;
  if (quote == text.size() || text[quote] != '"') return kNone;
  std::size_t comma = brace;
  while (comma > 0 && is_blank(text[comma - 1])) --comma;
  if (comma == 0 || text[comma - 1] != ',') return kNone;
  --comma;
  std::size_t end = comma;
  while (end > 0 && is_blank(text[end - 1])) --end;
  return end > 0 && text[end - 1] == '}' ? comma : kNone;
}

std::vector<std::uint64_t> find_list_cuts(const std::string& path, unsigned parts) {
  std::vector<std::uint64_t> cuts;
  if (parts < 2) return cuts;
  const std::uint64_t size = plain_size(path);
  const std::uint64_t part = std::max(size / parts, kLeastPart);
  std::vector<char> window(kWindow);
  for (std::uint64_t at = part; at + kLeastPart <= size && cuts.size() + 1 < parts; at += part) {
    const std::size_t got = open_range(path, at, at + kWindow)->read(window.data(), window.size());
    const std::size_t cut = find_cut({window.data(), got});
    if (cut != kNone) cuts.push_back(at + cut);
  }
  return cuts;
}

}  // namespace flyball
