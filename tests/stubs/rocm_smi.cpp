// A stand-in for librocm_smi64 with two boards, of the version that STUB_ROCM_VERSION names (5 or 6). Its writes are
// refused unless STUB_ROCM_ROOT is set.
#include "device/rocm_smi_abi.h"

#include <cstdlib>
#include <cstring>

namespace flyball {
namespace {

struct Board {
  std::uint64_t minimum_mhz = 0;
  std::uint64_t maximum_mhz = 0;
  std::uint64_t cap_microwatts = 300'000'000;
  std::uint64_t energy_count = 0;
};
Board boards[2];

unsigned version() {
  const char* text = std::getenv("STUB_ROCM_VERSION");
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : 6;
}
bool root() { return std::getenv("STUB_ROCM_ROOT") != nullptr; }

}  // namespace

extern "C" {

RsmiStatus rsmi_init(std::uint64_t) { return std::getenv("STUB_ROCM_NO_KERNEL") ? kRsmiInitError : kRsmiSuccess; }
RsmiStatus rsmi_shut_down() { return kRsmiSuccess; }
RsmiStatus rsmi_version_get(RsmiVersion* result) {
  *result = {version(), 3, 1, "stub"};
  return kRsmiSuccess;
}
RsmiStatus rsmi_status_string(RsmiStatus, const char** text) {
  *text = "the stub says no";
  return kRsmiSuccess;
}
RsmiStatus rsmi_num_monitor_devices(std::uint32_t* count) {
  *count = 2;
  return kRsmiSuccess;
}
RsmiStatus rsmi_dev_name_get(std::uint32_t, char* name, std::size_t length) {
  std::strncpy(name, "AMD Instinct MI250X", length);
  return kRsmiSuccess;
}
RsmiStatus rsmi_dev_unique_id_get(std::uint32_t device, std::uint64_t* id) {
  if (device == 1) return kRsmiNotSupported;
  *id = 0x1234'5678'9abc'def0;
  return kRsmiSuccess;
}
RsmiStatus rsmi_dev_pci_id_get(std::uint32_t device, std::uint64_t* id) {
  *id = device == 0 ? 0xc100 : (std::uint64_t{1} << 32 | 0xc6'0a);
  return kRsmiSuccess;
}
RsmiStatus rsmi_dev_power_ave_get(std::uint32_t, std::uint32_t, std::uint64_t* microwatts) {
  *microwatts = 91'500'000;
  return kRsmiSuccess;
}
RsmiStatus rsmi_dev_energy_count_get(std::uint32_t device, std::uint64_t* counter, float* unit, std::uint64_t* time) {
  if (device == 1) return kRsmiNotSupported;
  *counter = boards[device].energy_count += 1'000'000;
  *unit = 15.3F;
  *time = 1;
  return kRsmiSuccess;
}
RsmiStatus rsmi_dev_gpu_clk_freq_get(std::uint32_t, std::uint32_t clock, void* frequencies) {
  if (clock == static_cast<std::uint32_t>(AmdClock::kMemory)) return kRsmiNotSupported;
  const std::uint64_t hertz[3] = {500'000'000, 800'000'000, 1'700'000'000};
  if (version() >= 6) {
    auto* known = static_cast<AmdFrequencies*>(frequencies);
    *known = {};
    known->count = 3;
    known->current = 1;
    std::memcpy(known->hertz, hertz, sizeof hertz);
  } else {
    auto* known = static_cast<RsmiFrequencies5*>(frequencies);
    *known = {};
    known->count = 3;
    known->current = 1;
    std::memcpy(known->hertz, hertz, sizeof hertz);
  }
  return kRsmiSuccess;
}
RsmiStatus rsmi_dev_temp_metric_get(std::uint32_t, std::uint32_t sensor, std::uint32_t, std::int64_t* millicelsius) {
  if (sensor == kRsmiTemperatureEdge) return kRsmiNotSupported;
  *millicelsius = 41'250;
  return kRsmiSuccess;
}
RsmiStatus rsmi_dev_busy_percent_get(std::uint32_t, std::uint32_t* percent) {
  *percent = 37;
  return kRsmiSuccess;
}
RsmiStatus rsmi_dev_power_cap_get(std::uint32_t device, std::uint32_t, std::uint64_t* microwatts) {
  *microwatts = boards[device].cap_microwatts;
  return kRsmiSuccess;
}
RsmiStatus rsmi_dev_power_cap_default_get(std::uint32_t, std::uint64_t* microwatts) {
  *microwatts = 300'000'000;
  return kRsmiSuccess;
}
RsmiStatus rsmi_dev_power_cap_range_get(std::uint32_t, std::uint32_t, std::uint64_t* maximum, std::uint64_t* minimum) {
  *maximum = 560'000'000;
  *minimum = 0;
  return kRsmiSuccess;
}
RsmiStatus rsmi_dev_power_cap_set(std::uint32_t device, std::uint32_t, std::uint64_t microwatts) {
  if (!root()) return kRsmiPermission;
  if (microwatts > 560'000'000) return kRsmiOutOfBounds;
  boards[device].cap_microwatts = microwatts;
  return kRsmiSuccess;
}
// The test sees a range as the lowest and highest clock that the board takes from then on: in the power limit.
RsmiStatus rsmi_dev_clk_range_set(std::uint32_t device, std::uint64_t minimum, std::uint64_t maximum, std::uint32_t) {
  if (!root()) return kRsmiPermission;
  boards[device].minimum_mhz = minimum;
  boards[device].maximum_mhz = maximum;
  boards[device].cap_microwatts = maximum * 1'000;
  return kRsmiSuccess;
}
RsmiStatus rsmi_dev_perf_level_set(std::int32_t device, std::uint32_t level) {
  if (!root()) return kRsmiPermission;
  if (level != kRsmiPerformanceAuto) return kRsmiNotSupported;
  boards[device] = {};
  return kRsmiSuccess;
}

}  // extern "C"
}  // namespace flyball
