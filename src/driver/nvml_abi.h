// NVIDIA's public NVML interface, as far as Flyball and common Python clients use it. The driver (nvml.cpp) calls it in
// the library that the loader finds; the simulated library (sim/) implements it.
//
// This is the binary interface only, in our own words: sizes, offsets, numbers and symbol names are the vendor's, which
// has frozen them; they were taken from its published documentation and from nvidia-ml-py 13.615. The product links
// none of it by name: `decltype(nvmlInit_v2)*` is the type of what dlsym returns. Vendor units: MHz, mW, mJ, degrees
// Celsius, bytes; times in microseconds since 1970. Booleans are 0 or 1 in an unsigned int.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flyball {

// Every call's answer. It is a number and no enumeration, since newer libraries answer newer numbers.
using NvmlReturn = unsigned int;
inline constexpr NvmlReturn kNvmlSuccess = 0;
inline constexpr NvmlReturn kNvmlErrorUninitialized = 1;
inline constexpr NvmlReturn kNvmlErrorInvalidArgument = 2;
inline constexpr NvmlReturn kNvmlErrorNotSupported = 3;
inline constexpr NvmlReturn kNvmlErrorNoPermission = 4;
inline constexpr NvmlReturn kNvmlErrorNotFound = 6;
inline constexpr NvmlReturn kNvmlErrorInsufficientSize = 7;
inline constexpr NvmlReturn kNvmlErrorDriverNotLoaded = 9;
inline constexpr NvmlReturn kNvmlErrorTimeout = 10;
inline constexpr NvmlReturn kNvmlErrorLibraryNotFound = 12;
inline constexpr NvmlReturn kNvmlErrorFunctionNotFound = 13;
inline constexpr NvmlReturn kNvmlErrorGpuIsLost = 15;
inline constexpr NvmlReturn kNvmlErrorResetRequired = 16;
inline constexpr NvmlReturn kNvmlErrorOperatingSystem = 17;
inline constexpr NvmlReturn kNvmlErrorLibRmVersionMismatch = 18;
inline constexpr NvmlReturn kNvmlErrorFreqNotSupported = 24;
inline constexpr NvmlReturn kNvmlErrorArgumentVersionMismatch = 25;
inline constexpr NvmlReturn kNvmlErrorGpuNotFound = 28;
inline constexpr NvmlReturn kNvmlErrorUnknown = 999;

// Opaque. Belongs to the library; valid until the last nvmlShutdown.
using NvmlDevice = struct NvmlDeviceHandle*;

// nvmlEnableState_t
inline constexpr unsigned kNvmlFeatureDisabled = 0;
inline constexpr unsigned kNvmlFeatureEnabled = 1;

// nvmlBrandType_t
inline constexpr unsigned kNvmlBrandTesla = 2;
inline constexpr unsigned kNvmlBrandGeforce = 5;
inline constexpr unsigned kNvmlBrandNvidia = 14;

// nvmlDeviceArchitecture_t. The energy counter exists from Volta on.
inline constexpr unsigned kNvmlArchPascal = 4;
inline constexpr unsigned kNvmlArchVolta = 5;
inline constexpr unsigned kNvmlArchTuring = 6;
inline constexpr unsigned kNvmlArchAmpere = 7;
inline constexpr unsigned kNvmlArchAda = 8;
inline constexpr unsigned kNvmlArchHopper = 9;
inline constexpr unsigned kNvmlArchBlackwell = 10;

// nvmlClockType_t. Graphics and SM clocks are one clock on every board that the product knows.
inline constexpr unsigned kNvmlClockGraphics = 0;
inline constexpr unsigned kNvmlClockSm = 1;
inline constexpr unsigned kNvmlClockMemory = 2;

// nvmlClockId_t
inline constexpr unsigned kNvmlClockIdCurrent = 0;
inline constexpr unsigned kNvmlClockIdAppTarget = 1;
inline constexpr unsigned kNvmlClockIdAppDefault = 2;
inline constexpr unsigned kNvmlClockIdCustomerBoostMax = 3;

// nvmlTemperatureSensors_t and nvmlTemperatureThresholds_t
inline constexpr unsigned kNvmlTemperatureGpu = 0;
inline constexpr unsigned kNvmlThresholdShutdown = 0;
inline constexpr unsigned kNvmlThresholdSlowdown = 1;

// Why the clock is not the highest: nvmlClocksEventReasons (earlier "throttle reasons"), a set of bits.
inline constexpr unsigned long long kNvmlReasonNone = 0;
inline constexpr unsigned long long kNvmlReasonGpuIdle = 0x1;
inline constexpr unsigned long long kNvmlReasonApplicationsClocks = 0x2;
inline constexpr unsigned long long kNvmlReasonSwPowerCap = 0x4;
inline constexpr unsigned long long kNvmlReasonHwSlowdown = 0x8;
inline constexpr unsigned long long kNvmlReasonSyncBoost = 0x10;
inline constexpr unsigned long long kNvmlReasonSwThermalSlowdown = 0x20;
inline constexpr unsigned long long kNvmlReasonHwThermalSlowdown = 0x40;
inline constexpr unsigned long long kNvmlReasonHwPowerBrake = 0x80;

// What nvmlDeviceGetFieldValues can be asked (field ids), and of which part of the board (scope ids).
inline constexpr unsigned kNvmlFieldTotalEnergy = 83;           // mJ, unsigned long long
inline constexpr unsigned kNvmlFieldPowerAverage = 185;         // mW, unsigned int, over one second
inline constexpr unsigned kNvmlFieldPowerInstant = 186;         // mW, unsigned int
inline constexpr unsigned kNvmlFieldPowerMinimumLimit = 187;    // mW
inline constexpr unsigned kNvmlFieldPowerMaximumLimit = 188;    // mW
inline constexpr unsigned kNvmlFieldPowerDefaultLimit = 189;    // mW
inline constexpr unsigned kNvmlFieldPowerCurrentLimit = 190;    // mW
inline constexpr unsigned kNvmlFieldPowerRequestedLimit = 192;  // mW
inline constexpr unsigned kNvmlPowerScopeGpu = 0;
inline constexpr unsigned kNvmlPowerScopeModule = 1;

// nvmlValueType_t: which member of NvmlValue holds a field's value.
inline constexpr unsigned kNvmlValueUnsignedInt = 1;
inline constexpr unsigned kNvmlValueUnsignedLongLong = 3;

inline constexpr unsigned kNvmlTotalPowerSamples = 0;  // nvmlSamplingType_t: mW, unsigned int

// Sizes of text buffers that callers pass, the ending zero included.
inline constexpr unsigned kNvmlNameSize = 96;
inline constexpr unsigned kNvmlUuidSize = 96;
inline constexpr unsigned kNvmlVersionSize = 80;
inline constexpr unsigned kNvmlSerialSize = 30;

struct NvmlPciInfo {      // nvmlPciInfo_t, third version
  char bus_id_short[16];  // "0000:3B:00.0"
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;  // device id in the upper half, vendor id (0x10DE) in the lower
  unsigned pci_subsystem_id;
  char bus_id[32];  // "00000000:3B:00.0"
};
static_assert(sizeof(NvmlPciInfo) == 68);

struct NvmlPciInfoShort {  // nvmlPciInfo_t, first and second version
  char bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  unsigned reserved[4];
};
static_assert(sizeof(NvmlPciInfoShort) == 52);

struct NvmlUtilization {  // nvmlUtilization_t, percent of the driver's last sample period
  unsigned gpu;
  unsigned memory;
};
static_assert(sizeof(NvmlUtilization) == 8);

struct NvmlMemory {  // nvmlMemory_t, bytes
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
static_assert(sizeof(NvmlMemory) == 24);

inline constexpr unsigned kNvmlMemoryVersion2 = 0x02000028;
struct NvmlMemory2 {  // nvmlMemory_v2_t, bytes
  unsigned version;   // kNvmlMemoryVersion2
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};
static_assert(sizeof(NvmlMemory2) == 40);

struct NvmlBar1Memory {  // nvmlBAR1Memory_t, bytes
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
static_assert(sizeof(NvmlBar1Memory) == 24);

inline constexpr unsigned kNvmlTemperatureVersion1 = 0x0100000C;
struct NvmlTemperature {  // nvmlTemperature_v1_t
  unsigned version;       // kNvmlTemperatureVersion1
  unsigned sensor;
  int temperature;
};
static_assert(sizeof(NvmlTemperature) == 12);

struct NvmlC2cMode {  // nvmlC2cModeInfo_v1_t; carries no version
  unsigned enabled;   // 1 on boards that share their power budget with a CPU (Grace Hopper)
};
static_assert(sizeof(NvmlC2cMode) == 4);

struct NvmlProcess1 {  // nvmlProcessInfo_v1_t
  unsigned pid;
  unsigned long long used_memory;  // bytes, or all ones where unknown
};
static_assert(sizeof(NvmlProcess1) == 16);

struct NvmlProcess {  // nvmlProcessInfo_v2_t and nvmlProcessInfo_v3_t
  unsigned pid;
  unsigned long long used_memory;  // bytes, or all ones where unknown
  unsigned gpu_instance;           // all ones without MIG
  unsigned compute_instance;       // all ones without MIG
};
static_assert(sizeof(NvmlProcess) == 24);

struct NvmlProcessUtilization {  // nvmlProcessUtilizationSample_t, percent
  unsigned pid;
  unsigned long long timestamp_us;
  unsigned sm;
  unsigned memory;
  unsigned encoder;
  unsigned decoder;
};
static_assert(sizeof(NvmlProcessUtilization) == 32);

// Power profiles for kinds of work, from Blackwell on (NVML 12.6). Bit k % 32 of word k / 32 stands for profile k.
inline constexpr unsigned kNvmlPowerProfileMaxP = 0;  // most performance
inline constexpr unsigned kNvmlPowerProfileMaxQ = 1;  // most performance for the energy
struct NvmlMask255 {                                  // nvmlMask255_t
  unsigned words[8];
};

inline constexpr unsigned kNvmlPowerProfileVersion1 = 0x0100002C;
struct NvmlPowerProfile {  // nvmlWorkloadPowerProfileInfo_v1_t
  unsigned version;        // kNvmlPowerProfileVersion1
  unsigned id;
  unsigned priority;
  NvmlMask255 conflicting;
};
static_assert(sizeof(NvmlPowerProfile) == 44);

inline constexpr unsigned kNvmlPowerProfilesVersion1 = 0x01002BF8;
struct NvmlPowerProfiles {  // nvmlWorkloadPowerProfileProfilesInfo_v1_t
  unsigned version;         // kNvmlPowerProfilesVersion1
  NvmlMask255 supported;
  NvmlPowerProfile profiles[255];
};
static_assert(sizeof(NvmlPowerProfiles) == 11256);

inline constexpr unsigned kNvmlCurrentProfilesVersion1 = 0x01000064;
struct NvmlCurrentProfiles {  // nvmlWorkloadPowerProfileCurrentProfiles_v1_t
  unsigned version;           // kNvmlCurrentProfilesVersion1
  NvmlMask255 supported;
  NvmlMask255 requested;
  NvmlMask255 enforced;
};
static_assert(sizeof(NvmlCurrentProfiles) == 100);

inline constexpr unsigned kNvmlRequestedProfilesVersion1 = 0x01000024;
struct NvmlRequestedProfiles {  // nvmlWorkloadPowerProfileRequestedProfiles_v1_t
  unsigned version;             // kNvmlRequestedProfilesVersion1
  NvmlMask255 requested;
};
static_assert(sizeof(NvmlRequestedProfiles) == 36);

union NvmlValue {
  double real;
  unsigned unsigned_int;
  unsigned long unsigned_long;
  unsigned long long unsigned_long_long;
  long long signed_long_long;
  int signed_int;
  unsigned short unsigned_short;
};

struct NvmlFieldValue {       // nvmlFieldValue_t
  std::uint32_t field;        // in: what is asked
  std::uint32_t scope;        // in: of which part of the board
  std::int64_t timestamp_us;  // of the value
  std::int64_t latency_us;    // how long the driver took to get it
  unsigned value_type;        // which member of `value`
  NvmlReturn status;          // of this field; the call itself may succeed while a field fails
  NvmlValue value;
};
static_assert(sizeof(NvmlFieldValue) == 40 && offsetof(NvmlFieldValue, value) == 32);

struct NvmlSample {  // nvmlSample_t
  unsigned long long timestamp_us;
  NvmlValue value;
};
static_assert(sizeof(NvmlSample) == 16);

// NOLINTBEGIN(readability-identifier-naming): the vendor's names
extern "C" {

// The library. Initialisations are counted, and each needs an nvmlShutdown. Functions without a version suffix are
// there for programs that were built long ago.
NvmlReturn nvmlInit();
NvmlReturn nvmlInit_v2();
NvmlReturn nvmlInitWithFlags(unsigned flags);
NvmlReturn nvmlShutdown();
const char* nvmlErrorString(NvmlReturn result);

NvmlReturn nvmlSystemGetDriverVersion(char* version, unsigned length);
NvmlReturn nvmlSystemGetNVMLVersion(char* version, unsigned length);
NvmlReturn nvmlSystemGetCudaDriverVersion(int* version);
NvmlReturn nvmlSystemGetCudaDriverVersion_v2(int* version);
NvmlReturn nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length);

// Finding devices.
NvmlReturn nvmlDeviceGetCount(unsigned* count);
NvmlReturn nvmlDeviceGetCount_v2(unsigned* count);
NvmlReturn nvmlDeviceGetHandleByIndex(unsigned index, NvmlDevice* device);
NvmlReturn nvmlDeviceGetHandleByIndex_v2(unsigned index, NvmlDevice* device);
NvmlReturn nvmlDeviceGetHandleByUUID(const char* uuid, NvmlDevice* device);
NvmlReturn nvmlDeviceGetHandleBySerial(const char* serial, NvmlDevice* device);
NvmlReturn nvmlDeviceGetHandleByPciBusId(const char* bus_id, NvmlDevice* device);
NvmlReturn nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, NvmlDevice* device);

// What a device is.
NvmlReturn nvmlDeviceGetIndex(NvmlDevice device, unsigned* index);
NvmlReturn nvmlDeviceGetMinorNumber(NvmlDevice device, unsigned* minor);
NvmlReturn nvmlDeviceGetName(NvmlDevice device, char* name, unsigned length);
NvmlReturn nvmlDeviceGetUUID(NvmlDevice device, char* uuid, unsigned length);
NvmlReturn nvmlDeviceGetSerial(NvmlDevice device, char* serial, unsigned length);
NvmlReturn nvmlDeviceGetVbiosVersion(NvmlDevice device, char* version, unsigned length);
NvmlReturn nvmlDeviceGetPciInfo(NvmlDevice device, NvmlPciInfoShort* pci);
NvmlReturn nvmlDeviceGetPciInfo_v2(NvmlDevice device, NvmlPciInfoShort* pci);
NvmlReturn nvmlDeviceGetPciInfo_v3(NvmlDevice device, NvmlPciInfo* pci);
NvmlReturn nvmlDeviceGetBrand(NvmlDevice device, unsigned* brand);
NvmlReturn nvmlDeviceGetArchitecture(NvmlDevice device, unsigned* architecture);
NvmlReturn nvmlDeviceGetCudaComputeCapability(NvmlDevice device, int* major, int* minor);
NvmlReturn nvmlDeviceGetNumGpuCores(NvmlDevice device, unsigned* cores);
NvmlReturn nvmlDeviceGetMemoryInfo(NvmlDevice device, NvmlMemory* memory);
NvmlReturn nvmlDeviceGetMemoryInfo_v2(NvmlDevice device, NvmlMemory2* memory);
NvmlReturn nvmlDeviceGetBAR1MemoryInfo(NvmlDevice device, NvmlBar1Memory* memory);
NvmlReturn nvmlDeviceGetC2cModeInfoV(NvmlDevice device, NvmlC2cMode* mode);
NvmlReturn nvmlDeviceGetMigMode(NvmlDevice device, unsigned* current, unsigned* pending);
NvmlReturn nvmlDeviceIsMigDeviceHandle(NvmlDevice device, unsigned* is_instance);
NvmlReturn nvmlDeviceGetEccMode(NvmlDevice device, unsigned* current, unsigned* pending);
// Of corrected errors (0) or others (1), since the driver was loaded (0) or ever (1).
NvmlReturn nvmlDeviceGetTotalEccErrors(NvmlDevice device, unsigned type, unsigned counter, unsigned long long* errors);
NvmlReturn nvmlDeviceGetDriverModel(NvmlDevice device, unsigned* current, unsigned* pending);
NvmlReturn nvmlDeviceGetDriverModel_v2(NvmlDevice device, unsigned* current, unsigned* pending);
NvmlReturn nvmlDeviceGetComputeMode(NvmlDevice device, unsigned* mode);
NvmlReturn nvmlDeviceGetDisplayMode(NvmlDevice device, unsigned* mode);
NvmlReturn nvmlDeviceGetDisplayActive(NvmlDevice device, unsigned* active);
NvmlReturn nvmlDeviceGetMultiGpuBoard(NvmlDevice device, unsigned* multi);
NvmlReturn nvmlDeviceGetFanSpeed(NvmlDevice device, unsigned* percent);

// Clocks, MHz. Lists come highest first; `count` is the room in, the number out, and a call with too little room
// answers kNvmlErrorInsufficientSize with the number needed.
NvmlReturn nvmlDeviceGetClock(NvmlDevice device, unsigned type, unsigned id, unsigned* mhz);
NvmlReturn nvmlDeviceGetClockInfo(NvmlDevice device, unsigned type, unsigned* mhz);
NvmlReturn nvmlDeviceGetMaxClockInfo(NvmlDevice device, unsigned type, unsigned* mhz);
NvmlReturn nvmlDeviceGetMaxCustomerBoostClock(NvmlDevice device, unsigned type, unsigned* mhz);
NvmlReturn nvmlDeviceGetApplicationsClock(NvmlDevice device, unsigned type, unsigned* mhz);
NvmlReturn nvmlDeviceGetDefaultApplicationsClock(NvmlDevice device, unsigned type, unsigned* mhz);
NvmlReturn nvmlDeviceSetApplicationsClocks(NvmlDevice device, unsigned memory_mhz, unsigned graphics_mhz);
NvmlReturn nvmlDeviceResetApplicationsClocks(NvmlDevice device);
NvmlReturn nvmlDeviceGetSupportedMemoryClocks(NvmlDevice device, unsigned* count, unsigned* mhz);
NvmlReturn nvmlDeviceGetSupportedGraphicsClocks(NvmlDevice device, unsigned memory_mhz, unsigned* count, unsigned* mhz);
NvmlReturn nvmlDeviceSetGpuLockedClocks(NvmlDevice device, unsigned minimum_mhz, unsigned maximum_mhz);
NvmlReturn nvmlDeviceResetGpuLockedClocks(NvmlDevice device);
NvmlReturn nvmlDeviceSetMemoryLockedClocks(NvmlDevice device, unsigned minimum_mhz, unsigned maximum_mhz);
NvmlReturn nvmlDeviceResetMemoryLockedClocks(NvmlDevice device);
NvmlReturn nvmlDeviceGetCurrentClocksThrottleReasons(NvmlDevice device, unsigned long long* reasons);
NvmlReturn nvmlDeviceGetSupportedClocksThrottleReasons(NvmlDevice device, unsigned long long* reasons);
NvmlReturn nvmlDeviceGetCurrentClocksEventReasons(NvmlDevice device, unsigned long long* reasons);
NvmlReturn nvmlDeviceGetSupportedClocksEventReasons(NvmlDevice device, unsigned long long* reasons);
NvmlReturn nvmlDeviceGetPerformanceState(NvmlDevice device, unsigned* state);
NvmlReturn nvmlDeviceGetPowerState(NvmlDevice device, unsigned* state);

// Power (mW) and energy (mJ since the driver was loaded).
NvmlReturn nvmlDeviceGetPowerUsage(NvmlDevice device, unsigned* milliwatts);
NvmlReturn nvmlDeviceGetTotalEnergyConsumption(NvmlDevice device, unsigned long long* millijoules);
NvmlReturn nvmlDeviceGetFieldValues(NvmlDevice device, int count, NvmlFieldValue* values);
// What the driver has recorded after a time, oldest first. `count` is the room in, the number out; without room the
// answer is how many there may be at most.
NvmlReturn nvmlDeviceGetSamples(NvmlDevice device, unsigned type, unsigned long long after_us, unsigned* value_type,
                                unsigned* count, NvmlSample* samples);
NvmlReturn nvmlDeviceGetPowerManagementMode(NvmlDevice device, unsigned* mode);
NvmlReturn nvmlDeviceGetPowerManagementLimit(NvmlDevice device, unsigned* milliwatts);
NvmlReturn nvmlDeviceGetPowerManagementDefaultLimit(NvmlDevice device, unsigned* milliwatts);
NvmlReturn nvmlDeviceGetPowerManagementLimitConstraints(NvmlDevice device, unsigned* minimum_milliwatts,
                                                        unsigned* maximum_milliwatts);
NvmlReturn nvmlDeviceGetEnforcedPowerLimit(NvmlDevice device, unsigned* milliwatts);
NvmlReturn nvmlDeviceSetPowerManagementLimit(NvmlDevice device, unsigned milliwatts);

// Power profiles. What is requested is added to what was; of those that conflict, the board enforces one.
NvmlReturn nvmlDeviceWorkloadPowerProfileGetProfilesInfo(NvmlDevice device, NvmlPowerProfiles* profiles);
NvmlReturn nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(NvmlDevice device, NvmlCurrentProfiles* profiles);
NvmlReturn nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(NvmlDevice device, NvmlRequestedProfiles* profiles);
NvmlReturn nvmlDeviceWorkloadPowerProfileClearRequestedProfiles(NvmlDevice device, NvmlRequestedProfiles* profiles);

// The rest of the state.
NvmlReturn nvmlDeviceGetPersistenceMode(NvmlDevice device, unsigned* mode);
NvmlReturn nvmlDeviceSetPersistenceMode(NvmlDevice device, unsigned mode);
NvmlReturn nvmlDeviceGetTemperature(NvmlDevice device, unsigned sensor, unsigned* celsius);
NvmlReturn nvmlDeviceGetTemperatureV(NvmlDevice device, NvmlTemperature* temperature);
NvmlReturn nvmlDeviceGetTemperatureThreshold(NvmlDevice device, unsigned threshold, unsigned* celsius);
NvmlReturn nvmlDeviceGetUtilizationRates(NvmlDevice device, NvmlUtilization* utilization);
// Samples after a time; `count` is the room in, the number out.
NvmlReturn nvmlDeviceGetProcessUtilization(NvmlDevice device, NvmlProcessUtilization* samples, unsigned* count,
                                           unsigned long long after_us);
NvmlReturn nvmlDeviceGetEncoderUtilization(NvmlDevice device, unsigned* percent, unsigned* period_us);
NvmlReturn nvmlDeviceGetDecoderUtilization(NvmlDevice device, unsigned* percent, unsigned* period_us);
NvmlReturn nvmlDeviceGetComputeRunningProcesses(NvmlDevice device, unsigned* count, NvmlProcess1* processes);
NvmlReturn nvmlDeviceGetComputeRunningProcesses_v2(NvmlDevice device, unsigned* count, NvmlProcess* processes);
NvmlReturn nvmlDeviceGetComputeRunningProcesses_v3(NvmlDevice device, unsigned* count, NvmlProcess* processes);
NvmlReturn nvmlDeviceGetGraphicsRunningProcesses(NvmlDevice device, unsigned* count, NvmlProcess1* processes);
NvmlReturn nvmlDeviceGetGraphicsRunningProcesses_v2(NvmlDevice device, unsigned* count, NvmlProcess* processes);
NvmlReturn nvmlDeviceGetGraphicsRunningProcesses_v3(NvmlDevice device, unsigned* count, NvmlProcess* processes);

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

}  // namespace flyball
