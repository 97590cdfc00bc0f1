// The text is scanned once for its depth before nlohmann's parser sees it; the offset in the parser's errors is turned
// into line and column.
#include "base/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace flyball {
namespace {

InputLocation place_at(const std::string& source, std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
  const std::size_t start = before.rfind('\n');
  return {source, line, before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1};
}

}  // namespace

std::string dump_json(const nlohmann::ordered_json& document, int indent) {
  return document.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void check_json_depth(const std::string& source, std::string_view text) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth <= kDeepestJson) continue;
      throw InputError(place_at(source, text, i),
                       fmt::format("lists and objects are nested more than {} deep", kDeepestJson), "write it flatter");
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
}

nlohmann::json parse_json(const std::string& source, std::string_view text, const std::string& mend) {
  check_json_depth(source, text);  // checked first, so that the parsed value is never deep
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t offset = std::min(text.size(), error.byte == 0 ? 0 : error.byte - 1);
    throw InputError(place_at(source, text, offset), "this is no JSON", mend);
  } catch (const nlohmann::json::out_of_range&) {
    throw InputError({source}, "a number is too large to be read", "write numbers below 1e308");
  }
}

}  // namespace flyball
