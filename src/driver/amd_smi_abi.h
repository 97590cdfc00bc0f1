// AMD's public AMD SMI interface (libamd_smi, ROCm 6.0 and later), as far as Flyball uses it. Numbers, structures and
// symbols are the vendor's, in our own words, from its published header and the structures of its Python package,
// compared over versions 6.0.2, 6.2.4, 6.4.4 and 7.0.2; where these differ, a comment says so.
//
// Vendor units: Hz in lists of clocks and MHz in ranges, watts for power and microwatts for its limits, degrees
// Celsius, per cent; energy in units that the call tells, in microjoules. What a board does not measure is all ones, in
// 16 or in 32 bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flyball {

using AmdSmiStatus = std::uint32_t;
inline constexpr AmdSmiStatus kAmdSmiSuccess = 0;
inline constexpr AmdSmiStatus kAmdSmiInvalid = 1;
inline constexpr AmdSmiStatus kAmdSmiNotSupported = 2;
inline constexpr AmdSmiStatus kAmdSmiNotYetImplemented = 3;
inline constexpr AmdSmiStatus kAmdSmiFailLoadModule = 4;
inline constexpr AmdSmiStatus kAmdSmiTimeout = 8;
inline constexpr AmdSmiStatus kAmdSmiNoPermission = 10;
inline constexpr AmdSmiStatus kAmdSmiOutOfBounds = 17;
inline constexpr AmdSmiStatus kAmdSmiInitError = 18;
inline constexpr AmdSmiStatus kAmdSmiNotFound = 31;
inline constexpr AmdSmiStatus kAmdSmiDriverNotLoaded = 34;
inline constexpr AmdSmiStatus kAmdSmiNoDriver = 51;

inline constexpr std::uint64_t kAmdSmiInitGpus = 2;
inline constexpr std::uint32_t kAmdSmiProcessorGpu = 1;

inline constexpr std::uint32_t kAmdSmiTemperatureEdge = 0;
inline constexpr std::uint32_t kAmdSmiTemperatureHotspot = 1;
inline constexpr std::uint32_t kAmdSmiTemperatureCurrent = 0;

inline constexpr std::uint32_t kAmdSmiPerformanceAuto = 0;

// amdsmi_clk_type_t.
inline constexpr std::uint32_t kAmdSmiClockSystem = 0;
inline constexpr std::uint32_t kAmdSmiClockMemory = 4;

using AmdSmiSocket = void*;
using AmdSmiProcessor = void*;

// amdsmi_version_t: ROCm 6 puts the year before the other three, ROCm 7 calls it the major number.
struct AmdSmiVersion {
  std::uint32_t year;
  std::uint32_t major;
  std::uint32_t minor;
  std::uint32_t release;
  const char* build;
};
static_assert(sizeof(AmdSmiVersion) == 24);

// amdsmi_power_info_t as it begins until year 24 (ROCm 6.3), and from year 25 on.
struct AmdSmiPower24 {
  std::uint32_t current;  // MI300 and later
  std::uint32_t average;  // boards before
};
struct AmdSmiPower25 {
  std::uint64_t socket;  // whichever of the two there is
  std::uint32_t current;
  std::uint32_t average;
};

// `current` is an index.
struct AmdSmiFrequencies {
  bool has_deep_sleep;
  std::uint32_t count;
  std::uint32_t current;
  std::uint64_t hertz[33];
};
static_assert(sizeof(AmdSmiFrequencies) == 280 && offsetof(AmdSmiFrequencies, hertz) == 16);

struct AmdSmiPowerCap {
  std::uint64_t cap;
  std::uint64_t standard;
  std::uint64_t dpm_mhz;
  std::uint64_t minimum;
  std::uint64_t maximum;
  std::uint64_t reserved[3];
};
static_assert(sizeof(AmdSmiPowerCap) == 64);

struct AmdSmiUsage {
  std::uint32_t graphics;
  std::uint32_t memory;
  std::uint32_t media;
  std::uint32_t reserved[13];
};
static_assert(sizeof(AmdSmiUsage) == 64);

extern "C" {
AmdSmiStatus amdsmi_init(std::uint64_t flags);
AmdSmiStatus amdsmi_shut_down();
AmdSmiStatus amdsmi_get_lib_version(AmdSmiVersion* version);
AmdSmiStatus amdsmi_status_code_to_string(AmdSmiStatus status, const char** text);
AmdSmiStatus amdsmi_get_socket_handles(std::uint32_t* count, AmdSmiSocket* sockets);
AmdSmiStatus amdsmi_get_processor_handles(AmdSmiSocket socket, std::uint32_t* count, AmdSmiProcessor* processors);
AmdSmiStatus amdsmi_get_processor_type(AmdSmiProcessor processor, std::uint32_t* type);
AmdSmiStatus amdsmi_get_gpu_asic_info(AmdSmiProcessor processor, void* info);  // begins with the product's name
AmdSmiStatus amdsmi_get_gpu_device_uuid(AmdSmiProcessor processor, std::uint32_t* length, char* uuid);
AmdSmiStatus amdsmi_get_gpu_device_bdf(AmdSmiProcessor processor, std::uint64_t* place);  // domain above 16 bits
AmdSmiStatus amdsmi_get_power_info(AmdSmiProcessor processor, void* power);
AmdSmiStatus amdsmi_get_energy_count(AmdSmiProcessor processor, std::uint64_t* counter, float* microjoules_per_count,
                                     std::uint64_t* timestamp_ns);
AmdSmiStatus amdsmi_get_clk_freq(AmdSmiProcessor processor, std::uint32_t clock, AmdSmiFrequencies* frequencies);
AmdSmiStatus amdsmi_get_temp_metric(AmdSmiProcessor processor, std::uint32_t sensor, std::uint32_t metric,
                                    std::int64_t* celsius);
AmdSmiStatus amdsmi_get_gpu_activity(AmdSmiProcessor processor, AmdSmiUsage* usage);
AmdSmiStatus amdsmi_get_power_cap_info(AmdSmiProcessor processor, std::uint32_t sensor, AmdSmiPowerCap* caps);
AmdSmiStatus amdsmi_set_power_cap(AmdSmiProcessor processor, std::uint32_t sensor, std::uint64_t microwatts);
AmdSmiStatus amdsmi_set_gpu_clk_range(AmdSmiProcessor processor, std::uint64_t minimum_mhz, std::uint64_t maximum_mhz,
                                      std::uint32_t clock);
AmdSmiStatus amdsmi_set_gpu_perf_level(AmdSmiProcessor processor, std::uint32_t level);
}  // extern "C"

}  // namespace flyball
