// JSON of messages and files into a document; what the readers of both share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace flyball {

// Lists and objects may stand in one another this deep. What Flyball reads needs less than ten; what walks a document
// (writing it, copying it) takes a piece of the stack for each.
inline constexpr std::size_t kDeepestJson = 64;

// Throws InputError with line and column where `text` is no JSON, is nested deeper than that, or is no UTF-8, and
// where a number is beyond double's range. `mend` says what the reader of the complaint should do about a text that
// is none.
[[nodiscard]] nlohmann::json parse_json(const std::string& source, std::string_view text,
                                        const std::string& mend = "send one JSON object in UTF-8");

// Only the depth, for a reader that has a parser of its own. Throws InputError. Reads the text once.
void check_json_depth(const std::string& source, std::string_view text);

}  // namespace flyball
