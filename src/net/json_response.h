// Reads requests and makes responses that carry JSON, and reads the reason of a server's refusal.
#pragma once

#include <string>
#include <nlohmann/json_fwd.hpp>

#include "net/http.h"

namespace flyball {

// Returns the request's body. Throws InputError where it is no JSON.
[[nodiscard]] nlohmann::json json_body(const Request& request);

// Makes a response of a document. Bytes that are not UTF-8, as quoted from a request, are replaced.
[[nodiscard]] Response json_response(unsigned status, const nlohmann::ordered_json& body);

// Returns the reason that the body of a refusal gives: the detail of a problem object, or the body's beginning where it
// is no such object.
[[nodiscard]] std::string detail_of_problem(const std::string& body);

}  // namespace flyball
