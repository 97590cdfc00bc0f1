// An error of a device, field by field.
#include "cli/device_error_json.h"

namespace flyball {

nlohmann::ordered_json device_error_json(const DeviceError& error) {
  return {{"device", error.device()}, {"fault", key_of(error.fault())}, {"problem", error.what()}};
}

nlohmann::ordered_json device_errors_json(const std::vector<DeviceError>& errors) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const DeviceError& error : errors) list.push_back(device_error_json(error));
  return list;
}

}  // namespace flyball
