// JSON of messages and files into a document; what the readers of both share.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace flyball {

// Throws InputError with line and column where `text` is no JSON, and where a number is beyond double's range. `mend` says
// what the reader of the complaint should do about a text that is none.
[[nodiscard]] nlohmann::json parse_json(const std::string& source, std::string_view text,
                                        const std::string& mend = "send one JSON object in UTF-8");

}  // namespace flyball
