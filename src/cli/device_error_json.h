// Devices that refused, as JSON: one form in every command's answer.
#pragma once

#include <vector>
#include <nlohmann/json.hpp>

#include "driver/device_error.h"

namespace flyball {

// {"device": "GPU:0", "fault": "permission", "problem": "..."}, and a list of these.
[[nodiscard]] nlohmann::ordered_json device_error_json(const DeviceError& error);
[[nodiscard]] nlohmann::ordered_json device_errors_json(const std::vector<DeviceError>& errors);

}  // namespace flyball
