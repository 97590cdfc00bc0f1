// Responses that carry JSON, and reading what a server that refuses says.
#pragma once

#include <string>
#include <nlohmann/json.hpp>

#include "net/http.h"

namespace flyball {

// Bytes that are not UTF-8, as quoted from a request, are replaced.
[[nodiscard]] Response json_response(unsigned status, const nlohmann::ordered_json& body);

// What the body of a refusal says: the words of a problem object, or the body's beginning where it is none.
[[nodiscard]] std::string detail_of_problem(const std::string& body);

}  // namespace flyball
