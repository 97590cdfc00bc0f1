// Responses that carry JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "net/http.h"

namespace flyball {

// Bytes that are not UTF-8, as quoted from a request, are replaced.
[[nodiscard]] Response json_response(unsigned status, const nlohmann::ordered_json& body);

}  // namespace flyball
