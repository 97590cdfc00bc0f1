// Keys and names of the faults stand in one table, in the order of the enumeration.
#include "driver/device_error.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <utility>

namespace flyball {
namespace {

struct Words {
  const char* key;
  const char* name;
};
// The words stand in the order of DeviceFault.
constexpr std::array<Words, 7> kFaults{{
    {"no_driver", "no driver"},
    {"permission", "permission denied"},
    {"unsupported", "not supported"},
    {"invalid", "invalid value"},
    {"lost", "device lost"},
    {"timeout", "no answer"},
    {"driver", "driver error"},
}};
static_assert(kFaults.size() == static_cast<std::size_t>(DeviceFault::kDriver) + 1);

std::string describe(DeviceFault fault, const std::string& device, const std::string& problem,
                     const std::string& mend) {
  std::string text = fmt::format("{}: {}: {}", device, name_of(fault), problem);
  if (!mend.empty()) text += "\n  to mend: " + mend;
  return text;
}

}  // namespace

std::string_view name_of(DeviceFault fault) { return kFaults[static_cast<std::size_t>(fault)].name; }
std::string_view key_of(DeviceFault fault) { return kFaults[static_cast<std::size_t>(fault)].key; }

DeviceError::DeviceError(DeviceFault fault, std::string device, const std::string& problem, const std::string& mend)
    : SystemError(describe(fault, device, problem, mend)), fault_(fault), device_(std::move(device)) {}

}  // namespace flyball
