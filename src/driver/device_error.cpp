#include "driver/device_error.h"

#include <fmt/format.h>

#include <utility>

namespace flyball {
namespace {

std::string describe(DeviceFault fault, const std::string& device, const std::string& problem,
                     const std::string& mend) {
  std::string text = fmt::format("{}: {}: {}", device, name_of(fault), problem);
  if (!mend.empty()) text += "\n  to mend: " + mend;
  return text;
}

}  // namespace

std::string_view name_of(DeviceFault fault) {
  switch (fault) {
    case DeviceFault::kNoDriver: return "no driver";
    case DeviceFault::kPermission: return "permission denied";
    case DeviceFault::kUnsupported: return "not supported";
    case DeviceFault::kInvalid: return "invalid value";
    case DeviceFault::kLost: return "device lost";
    case DeviceFault::kTimeout: return "no answer";
    case DeviceFault::kDriver: return "driver error";
  }
  return "driver error";
}

std::string_view key_of(DeviceFault fault) {
  switch (fault) {
    case DeviceFault::kNoDriver: return "no_driver";
    case DeviceFault::kPermission: return "permission";
    case DeviceFault::kUnsupported: return "unsupported";
    case DeviceFault::kInvalid: return "invalid";
    case DeviceFault::kLost: return "lost";
    case DeviceFault::kTimeout: return "timeout";
    case DeviceFault::kDriver: return "driver";
  }
  return "driver";
}

DeviceError::DeviceError(DeviceFault fault, std::string device, const std::string& problem, const std::string& mend)
    : SystemError(describe(fault, device, problem, mend)), fault_(fault), device_(std::move(device)) {}

}  // namespace flyball
