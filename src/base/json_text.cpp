#include "base/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace flyball {

nlohmann::json parse_json(const std::string& source, std::string_view text, const std::string& mend) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const std::string_view before = text.substr(0, std::min(text.size(), error.byte == 0 ? 0 : error.byte - 1));
    const auto line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
    const std::size_t start = before.rfind('\n');
    const std::size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1;
    throw InputError({source, line, column}, "this is no JSON", mend);
  } catch (const nlohmann::json::out_of_range&) {
    throw InputError({source}, "a number is too large to be read", "write numbers below 1e308");
  }
}

}  // namespace flyball
