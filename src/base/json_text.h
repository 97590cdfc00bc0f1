// Parses the JSON text of messages and files, and writes JSON documents as text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace flyball {

// The deepest nesting of lists and objects. What Flyball reads needs less than ten levels; code that walks a document
// (writing it, copying it) takes a piece of the stack for each level.
inline constexpr std::size_t kDeepestJson = 64;

// Throws InputError, with line and column, where `text` is not JSON, is not UTF-8 or is nested too deeply, and where a
// number is beyond the range of double. `mend` is the error's advice for a text that is not JSON.
[[nodiscard]] nlohmann::json parse_json(const std::string& source, std::string_view text,
                                        const std::string& mend = "send one JSON object in UTF-8");

// Writes a document; bytes that are not UTF-8, as users and drivers may have named things, are replaced.
[[nodiscard]] std::string dump_json(const nlohmann::ordered_json& document, int indent = -1);

// Checks only the depth, for readers that have a parser of their own. Throws InputError. Reads the text once.
void check_json_depth(const std::string& source, std::string_view text);

}  // namespace flyball
