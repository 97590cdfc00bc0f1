// AMD's public ROCm SMI interface, as far as the product uses it: numbers, structures and symbols are the vendor's, in
// our own words, from the header of librocm_smi64 5.2.3 (Debian) and the published sources of version 6.
//
// Vendor units: Hz in lists of clocks and MHz in ranges, microwatts, thousandths of a degree Celsius, per cent; energy
// in units that the call tells, in microjoules.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/amd_abi.h"

namespace flyball {

using RsmiStatus = std::uint32_t;
inline constexpr RsmiStatus kRsmiSuccess = 0;
inline constexpr RsmiStatus kRsmiInvalidArguments = 1;
inline constexpr RsmiStatus kRsmiNotSupported = 2;
inline constexpr RsmiStatus kRsmiFileError = 3;
inline constexpr RsmiStatus kRsmiPermission = 4;
inline constexpr RsmiStatus kRsmiOutOfResources = 5;
inline constexpr RsmiStatus kRsmiInternal = 6;
inline constexpr RsmiStatus kRsmiOutOfBounds = 7;
inline constexpr RsmiStatus kRsmiInitError = 8;
inline constexpr RsmiStatus kRsmiNotYetImplemented = 9;
inline constexpr RsmiStatus kRsmiNotFound = 10;

inline constexpr std::uint32_t kRsmiTemperatureEdge = 0;
inline constexpr std::uint32_t kRsmiTemperatureJunction = 1;
inline constexpr std::uint32_t kRsmiTemperatureCurrent = 0;

inline constexpr std::uint32_t kRsmiPerformanceAuto = 0;

struct RsmiVersion {
  std::uint32_t major;
  std::uint32_t minor;
  std::uint32_t patch;
  const char* build;
};

// rsmi_frequencies_t of library version 5; from version 6 on it is AmdFrequencies. `current` is an index.
struct RsmiFrequencies5 {
  std::uint32_t count;
  std::uint32_t current;
  std::uint64_t hertz[32];
};
static_assert(sizeof(RsmiFrequencies5) == 264);

extern "C" {
RsmiStatus rsmi_init(std::uint64_t flags);
RsmiStatus rsmi_shut_down();
RsmiStatus rsmi_version_get(RsmiVersion* version);
RsmiStatus rsmi_status_string(RsmiStatus status, const char** text);
RsmiStatus rsmi_num_monitor_devices(std::uint32_t* count);
RsmiStatus rsmi_dev_name_get(std::uint32_t device, char* name, std::size_t length);
RsmiStatus rsmi_dev_unique_id_get(std::uint32_t device, std::uint64_t* id);
RsmiStatus rsmi_dev_pci_id_get(std::uint32_t device, std::uint64_t* id);  // domain, bus, device, function
RsmiStatus rsmi_dev_power_ave_get(std::uint32_t device, std::uint32_t sensor, std::uint64_t* microwatts);
RsmiStatus rsmi_dev_power_get(std::uint32_t device, std::uint64_t* microwatts, std::uint32_t* type);
RsmiStatus rsmi_dev_energy_count_get(std::uint32_t device, std::uint64_t* counter, float* microjoules_per_count,
                                     std::uint64_t* timestamp_ns);
RsmiStatus rsmi_dev_gpu_clk_freq_get(std::uint32_t device, std::uint32_t clock, void* frequencies);
RsmiStatus rsmi_dev_temp_metric_get(std::uint32_t device, std::uint32_t sensor, std::uint32_t metric,
                                    std::int64_t* millicelsius);
RsmiStatus rsmi_dev_busy_percent_get(std::uint32_t device, std::uint32_t* percent);
RsmiStatus rsmi_dev_power_cap_get(std::uint32_t device, std::uint32_t sensor, std::uint64_t* microwatts);
RsmiStatus rsmi_dev_power_cap_default_get(std::uint32_t device, std::uint64_t* microwatts);
RsmiStatus rsmi_dev_power_cap_range_get(std::uint32_t device, std::uint32_t sensor, std::uint64_t* maximum_microwatts,
                                        std::uint64_t* minimum_microwatts);
RsmiStatus rsmi_dev_power_cap_set(std::uint32_t device, std::uint32_t sensor, std::uint64_t microwatts);
RsmiStatus rsmi_dev_clk_range_set(std::uint32_t device, std::uint64_t minimum_mhz, std::uint64_t maximum_mhz,
                                  std::uint32_t clock);
RsmiStatus rsmi_dev_perf_level_set(std::int32_t device, std::uint32_t level);
}  // extern "C"

}  // namespace flyball
