// The error of a device that refused, vanished or did not answer.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace flyball {

enum class DeviceFault {
  kNoDriver,     // the vendor's library or the counter's folder is not there: nothing of this kind in this machine
  kPermission,   // the process may not do this; root, or the agent, may
  kUnsupported,  // this device never can
  kInvalid,      // the device does not take this value (a clock that is not on its list)
  kLost,         // the device fell off the bus, or its file is gone
  kTimeout,      // the vendor's call has not returned in time
  kDriver,       // anything else that the driver said
};

[[nodiscard]] std::string_view name_of(DeviceFault fault);  // "permission denied", for people
[[nodiscard]] std::string_view key_of(DeviceFault fault);   // "permission", for JSON

class DeviceError : public SystemError {
 public:
  // `device` is the name that people know ("GPU:0"), `problem` what the driver said, and `mend` what the user can do
  // (may be empty). what() is "GPU:0: permission denied: <problem>", and then the mend on a line of its own.
  DeviceError(DeviceFault fault, std::string device, const std::string& problem, const std::string& mend = {});

  [[nodiscard]] DeviceFault fault() const { return fault_; }
  [[nodiscard]] const std::string& device() const { return device_; }

 private:
  DeviceFault fault_;
  std::string device_;
};

}  // namespace flyball
