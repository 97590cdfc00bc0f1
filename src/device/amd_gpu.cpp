#include "device/amd_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace flyball {

std::string amd_mend(DeviceFault fault, const char* no_driver) {
  switch (fault) {
    case DeviceFault::kNoDriver: return no_driver;
    case DeviceFault::kPermission: return "do it through the agent (sudo flyball agent), or as root";
    case DeviceFault::kInvalid: return "choose a value that 'flyball devices' lists";
    case DeviceFault::kLost: return "reset the GPU (amd-smi reset --gpureset) or restart the machine; see dmesg";
    default: return {};
  }
}

Watts from_microwatts(std::uint64_t value) { return Watts(static_cast<double>(value) / 1e6); }

std::string amd_bus_id(std::uint64_t domain, std::uint64_t place) {
  return fmt::format("{:08X}:{:02X}:{:02X}.{:X}", domain, (place >> 8) & 0xff, (place >> 3) & 0x1f, place & 0x7);
}

std::string amd_uuid_of_place(const std::string& bus_id) { return "PCI-" + bus_id; }

AmdGpu::ClockList AmdGpu::list_of(const std::uint64_t* hertz, std::size_t count, std::size_t current) {
  ClockList list;
  for (std::size_t i = 0; i < count; ++i) list.clocks.emplace_back(static_cast<double>(hertz[i]) / 1e6);
  list.current = current;
  return list;
}

Megahertz AmdGpu::current_clock(AmdClock clock, const char* what) const {
  const ClockList list = read_clocks(clock, what);
  if (list.current >= list.clocks.size()) {
    throw DeviceError(DeviceFault::kDriver, label(), fmt::format("{}: the driver names none", what));
  }
  return list.clocks[list.current];
}

// Clocks that the device cannot list are none.
std::vector<Megahertz> AmdGpu::clocks(AmdClock clock, const char* what) const {
  ClockList list;
  try {
    list = read_clocks(clock, what);
  } catch (const DeviceError& error) {
    if (error.fault() == DeviceFault::kUnsupported) return {};
    throw;
  }
  std::sort(list.clocks.begin(), list.clocks.end(), [](Megahertz a, Megahertz b) { return a > b; });
  return list.clocks;
}

Megahertz AmdGpu::sm_clock() const { return current_clock(AmdClock::kSystem, "reading the system clock"); }
Megahertz AmdGpu::memory_clock() const { return current_clock(AmdClock::kMemory, "reading the memory clock"); }
std::vector<Megahertz> AmdGpu::sm_clocks() const { return clocks(AmdClock::kSystem, "listing the system clocks"); }
std::vector<Megahertz> AmdGpu::memory_clocks() const { return clocks(AmdClock::kMemory, "listing the memory clocks"); }

ThrottleReason AmdGpu::throttle_reasons() const {
  throw DeviceError(DeviceFault::kUnsupported, label(), "AMD's libraries tell no throttle reasons");
}

void AmdGpu::set_persistence(bool enabled) {
  if (!enabled) throw DeviceError(DeviceFault::kUnsupported, label(), "AMD's devices are always persistent");
}

void AmdGpu::lock(AmdClock clock, ClockRange range, const char* what) {
  const double low = std::round(range.minimum.value());
  const double high = std::round(range.maximum.value());
  if (!(low >= 0.0 && low <= high && high < 1e6)) refuse_value(high, what);
  set_clock_range(clock, static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high), what);
}

void AmdGpu::lock_sm_clocks(ClockRange range) { lock(AmdClock::kSystem, range, "locking the system clock"); }
void AmdGpu::lock_memory_clocks(ClockRange range) { lock(AmdClock::kMemory, range, "locking the memory clock"); }
void AmdGpu::reset_sm_clocks() { leave_clocks_to_driver("resetting the system clock"); }
void AmdGpu::reset_memory_clocks() { leave_clocks_to_driver("resetting the memory clock"); }

void AmdGpu::set_power_limit(Watts limit) {
  const char* const what = "setting the power limit";
  const double microwatts = std::round(limit.value() * 1e6);
  if (!(microwatts >= 0.0 && microwatts < 1e15)) refuse_value(limit.value(), what);
  set_power_cap(static_cast<std::uint64_t>(microwatts), what);
}

ThrottleAccess AmdGpu::throttle_access() const {
  if (!can_set_clocks()) {
    return {false, DeviceFault::kUnsupported, "this driver cannot lock clocks", "install ROCm 5 or later"};
  }
  return GpuDevice::throttle_access();
}

void AmdGpu::refuse_value(double value, const char* what) const {
  throw DeviceError(DeviceFault::kInvalid, label(), fmt::format("{}: {} is no value for it", what, value),
                    "choose a value that 'flyball devices' lists");
}

}  // namespace flyball
