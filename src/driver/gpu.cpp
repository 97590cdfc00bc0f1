// A process's privilege is read from /proc/self: CAP_SYS_ADMIN in its effective capabilities, and a user namespace
// that maps all numbers to themselves, since drivers ask for the capability in the machine's own.
#include "driver/gpu.h"

#include <fmt/format.h>
#include <linux/capability.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <utility>

namespace flyball {
namespace {

constexpr const char* kHowToThrottle =
    "let the agent, which runs as root, hold the clocks (sudo flyball agent), or run this command as root";

constexpr const char* kChooseAListedValue = "choose a value that 'flyball devices' lists";
constexpr const char* kDivided = "MIG divides this GPU, and a clock or power limit would hold for all of its instances";
constexpr const char* kMakeWhole = "use another GPU, or switch MIG off, which ends all work on it (nvidia-smi -mig 0)";

std::uint64_t effective_capabilities() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (!line.starts_with("CapEff:")) continue;
    const std::size_t digits = line.find_first_not_of(" \t", 7);
    if (digits == std::string::npos) break;
    std::uint64_t mask = 0;
    std::from_chars(line.data() + digits, line.data() + line.size(), mask, 16);
    return mask;
  }
  return 0;
}

// Capabilities of a user namespace below the machine's own say nothing to a driver.
bool in_first_user_namespace() {
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  if (!(map >> inside >> outside >> count)) return true;  // a kernel without user namespaces
  return inside == 0 && outside == 0 && count == 0xffffffffu;
}

}  // namespace

ThrottleAccess privilege_of_this_process() {
  if ((effective_capabilities() & (std::uint64_t{1} << CAP_SYS_ADMIN)) == 0) {
    return {false, DeviceFault::kPermission, "drivers let only root (CAP_SYS_ADMIN) set clocks", kHowToThrottle};
  }
  if (!in_first_user_namespace()) {
    return {false, DeviceFault::kPermission,
            "this process is root in its container only, and drivers ask for the machine's root",
            "run flyball agent on the machine itself"};
  }
  return {true, DeviceFault::kPermission, "this process is root (CAP_SYS_ADMIN)", {}};
}

std::vector<TimedPower> without_low_pass(const std::vector<TimedPower>& samples, Seconds time_constant) {
  std::vector<TimedPower> result;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const Nanoseconds span = samples[i].time - samples[i - 1].time;
    if (span <= 0) continue;
    const Watts rise = samples[i].power - samples[i - 1].power;
    // The filter's output grows by its distance from the input, over the time constant. A sample counts for all the
    // time since the one before: on an H100's record that fits the counter better than the mean of both.
    result.push_back(
        {samples[i].time, std::max(Watts(0), samples[i].power + rise * (time_constant / to_seconds(span)))});
  }
  return result;
}

std::string gpu_label(std::size_t index) { return fmt::format("GPU:{}", index); }

std::string mend_of(DeviceFault fault, const char* no_driver, const char* reset) {
  switch (fault) {
    case DeviceFault::kNoDriver: return no_driver;
    case DeviceFault::kPermission: return "do it through the agent (sudo flyball agent), or as root";
    case DeviceFault::kInvalid: return kChooseAListedValue;
    case DeviceFault::kLost: return fmt::format("reset the GPU ({}) or restart the machine; see dmesg", reset);
    default: return {};
  }
}

double GpuDevice::whole(double value, double too_large, const char* what) const {
  const double rounded = std::round(value);
  if (rounded >= 0.0 && rounded < too_large) return rounded;
  throw DeviceError(DeviceFault::kInvalid, label(), fmt::format("{}: {} is no value for it", what, value),
                    kChooseAListedValue);
}

void GpuDevice::refuse_divided() const {
  if (divided()) throw DeviceError(DeviceFault::kUnsupported, label(), kDivided, kMakeWhole);
}

ThrottleAccess GpuDevice::throttle_access() const {
  if (divided()) return {false, DeviceFault::kUnsupported, kDivided, kMakeWhole};
  if (sm_clocks().empty()) {
    return {false, DeviceFault::kUnsupported, "the driver lists no clocks for this device", "use another device"};
  }
  return privilege_of_this_process();
}

std::vector<std::string> names_of(ThrottleReason set) {
  static constexpr std::array<std::pair<ThrottleReason, const char*>, 6> kNames{{
      {ThrottleReason::kIdle, "idle"},
      {ThrottleReason::kApplicationClocks, "application_clocks"},
      {ThrottleReason::kPowerLimit, "power_limit"},
      {ThrottleReason::kThermal, "thermal"},
      {ThrottleReason::kHardwareSlowdown, "hardware_slowdown"},
      {ThrottleReason::kOther, "other"},
  }};
  std::vector<std::string> names;
  for (const auto& [reason, name] : kNames) {
    if (has(set, reason)) names.emplace_back(name);
  }
  return names;
}

}  // namespace flyball
