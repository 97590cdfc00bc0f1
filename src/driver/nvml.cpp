// NVIDIA GPUs through libnvidia-ml, loaded at run time. NVML's codes, milliwatts, millijoules and symbol versions end in
// this file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "driver/gpu_vendors.h"
#include "driver/nvml_abi.h"
#include "driver/patience.h"
#include "driver/shared_library.h"

namespace flyball {
namespace {

constexpr const char* kVendor = "nvml";
constexpr const char* kNoDriverMend = "install the NVIDIA driver, or try simulated GPUs: flyball sim up --help";

Watts from_milliwatts(unsigned value) { return Watts(value / 1e3); }
Joules from_millijoules(unsigned long long value) { return Joules(static_cast<double>(value) / 1e3); }
Megahertz from_megahertz(unsigned value) { return Megahertz(value); }

DeviceFault fault_of(NvmlReturn code) {
  switch (code) {
    case kNvmlErrorDriverNotLoaded:
    case kNvmlErrorLibraryNotFound: return DeviceFault::kNoDriver;
    case kNvmlErrorNoPermission: return DeviceFault::kPermission;
    case kNvmlErrorNotSupported:
    case kNvmlErrorFunctionNotFound: return DeviceFault::kUnsupported;
    case kNvmlErrorInvalidArgument:
    case kNvmlErrorFreqNotSupported: return DeviceFault::kInvalid;
    case kNvmlErrorGpuIsLost:
    case kNvmlErrorResetRequired:
    case kNvmlErrorGpuNotFound: return DeviceFault::kLost;
    case kNvmlErrorTimeout: return DeviceFault::kTimeout;
    default: return DeviceFault::kDriver;
  }
}

std::string mend_of(NvmlReturn code) {
  switch (code) {
    case kNvmlErrorDriverNotLoaded:
    case kNvmlErrorLibraryNotFound: return kNoDriverMend;
    case kNvmlErrorNoPermission: return "do it through the agent (sudo flyball agent), or as root";
    case kNvmlErrorFreqNotSupported:
    case kNvmlErrorInvalidArgument: return "choose a value that 'flyball devices' lists";
    case kNvmlErrorGpuIsLost:
    case kNvmlErrorResetRequired: return "reset the GPU (nvidia-smi --gpu-reset) or restart the machine; see dmesg";
    case kNvmlErrorLibRmVersionMismatch:
      return "the driver was updated under the running kernel module: reload it or restart the machine";
    default: return {};
  }
}

// Every function that we call; null where the library has none by any of its names.
struct Calls {
  decltype(nvmlInit_v2)* init;
  decltype(nvmlShutdown)* shutdown;
  decltype(nvmlErrorString)* error_string;
  decltype(nvmlSystemGetDriverVersion)* driver_version;
  decltype(nvmlDeviceGetCount_v2)* count;
  decltype(nvmlDeviceGetHandleByIndex_v2)* handle;
  decltype(nvmlDeviceGetName)* name;
  decltype(nvmlDeviceGetUUID)* uuid;
  decltype(nvmlDeviceGetPciInfo_v3)* pci_info;
  decltype(nvmlDeviceGetPciInfo_v2)* pci_info_short;
  decltype(nvmlDeviceGetPowerUsage)* power;
  decltype(nvmlDeviceGetFieldValues)* fields;
  decltype(nvmlDeviceGetTotalEnergyConsumption)* energy;
  decltype(nvmlDeviceGetClockInfo)* clock;
  decltype(nvmlDeviceGetTemperature)* temperature;
  decltype(nvmlDeviceGetTemperatureV)* temperature_v;
  decltype(nvmlDeviceGetCurrentClocksEventReasons)* reasons;
  decltype(nvmlDeviceGetUtilizationRates)* utilisation;
  decltype(nvmlDeviceGetSupportedMemoryClocks)* memory_clocks;
  decltype(nvmlDeviceGetSupportedGraphicsClocks)* graphics_clocks;
  decltype(nvmlDeviceGetPowerManagementLimit)* power_limit;
  decltype(nvmlDeviceGetPowerManagementDefaultLimit)* standard_power_limit;
  decltype(nvmlDeviceGetPowerManagementLimitConstraints)* power_limit_range;
  decltype(nvmlDeviceGetPersistenceMode)* persistence;
  decltype(nvmlDeviceGetComputeRunningProcesses_v2)* processes;
  decltype(nvmlDeviceGetComputeRunningProcesses)* processes_short;
  decltype(nvmlDeviceSetGpuLockedClocks)* lock_sm;
  decltype(nvmlDeviceResetGpuLockedClocks)* reset_sm;
  decltype(nvmlDeviceSetMemoryLockedClocks)* lock_memory;
  decltype(nvmlDeviceResetMemoryLockedClocks)* reset_memory;
  decltype(nvmlDeviceSetPowerManagementLimit)* set_power_limit;
  decltype(nvmlDeviceSetPersistenceMode)* set_persistence;

  explicit Calls(const SharedLibrary& library) {
    library.resolve(init, "nvmlInit_v2", "nvmlInit");
    library.resolve(shutdown, "nvmlShutdown");
    library.resolve(error_string, "nvmlErrorString");
    library.resolve(driver_version, "nvmlSystemGetDriverVersion");
    library.resolve(count, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount");
    library.resolve(handle, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex");
    library.resolve(name, "nvmlDeviceGetName");
    library.resolve(uuid, "nvmlDeviceGetUUID");
    library.resolve(pci_info, "nvmlDeviceGetPciInfo_v3");
    library.resolve(pci_info_short, "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo");
    library.resolve(power, "nvmlDeviceGetPowerUsage");
    library.resolve(fields, "nvmlDeviceGetFieldValues");
    library.resolve(energy, "nvmlDeviceGetTotalEnergyConsumption");
    library.resolve(clock, "nvmlDeviceGetClockInfo");
    library.resolve(temperature, "nvmlDeviceGetTemperature");
    library.resolve(temperature_v, "nvmlDeviceGetTemperatureV");
    library.resolve(reasons, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons");
    library.resolve(utilisation, "nvmlDeviceGetUtilizationRates");
    library.resolve(memory_clocks, "nvmlDeviceGetSupportedMemoryClocks");
    library.resolve(graphics_clocks, "nvmlDeviceGetSupportedGraphicsClocks");
    library.resolve(power_limit, "nvmlDeviceGetPowerManagementLimit");
    library.resolve(standard_power_limit, "nvmlDeviceGetPowerManagementDefaultLimit");
    library.resolve(power_limit_range, "nvmlDeviceGetPowerManagementLimitConstraints");
    library.resolve(persistence, "nvmlDeviceGetPersistenceMode");
    library.resolve(processes, "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2");
    library.resolve(processes_short, "nvmlDeviceGetComputeRunningProcesses");
    library.resolve(lock_sm, "nvmlDeviceSetGpuLockedClocks");
    library.resolve(reset_sm, "nvmlDeviceResetGpuLockedClocks");
    library.resolve(lock_memory, "nvmlDeviceSetMemoryLockedClocks");
    library.resolve(reset_memory, "nvmlDeviceResetMemoryLockedClocks");
    library.resolve(set_power_limit, "nvmlDeviceSetPowerManagementLimit");
    library.resolve(set_persistence, "nvmlDeviceSetPersistenceMode");
  }
};

// The library, initialised for as long as it lives.
class Nvml {
 public:
  explicit Nvml(const std::vector<std::string>& names)
      : library_(std::make_shared<const SharedLibrary>(names, kVendor, kNoDriverMend)), call(*library_) {
    if (call.init == nullptr || call.shutdown == nullptr || call.count == nullptr || call.handle == nullptr) {
      throw DeviceError(DeviceFault::kNoDriver, kVendor,
                        fmt::format("{} is not NVIDIA's management library", names.front()), kNoDriverMend);
    }
    check(call.init(), kVendor, "nvmlInit");
  }
  ~Nvml() {
    // Where it hangs, it keeps the library loaded.
    call_aside([library = library_, shutdown = call.shutdown] { static_cast<void>(shutdown()); });
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] DeviceError error(NvmlReturn code, const std::string& device, const char* what) const {
    const char* words = call.error_string != nullptr ? call.error_string(code) : nullptr;
    return {fault_of(code), device,
            fmt::format("{}: {}", what, words != nullptr ? words : fmt::format("NVML error {}", code)), mend_of(code)};
  }

  void check(NvmlReturn code, const std::string& device, const char* what) const {
    if (code != kNvmlSuccess) throw error(code, device, what);
  }

 private:
  std::shared_ptr<const SharedLibrary> library_;

 public:
  const Calls call;
};

// Calls that a library lacks answer as a device does that cannot.
template <class Function, class... Arguments>
NvmlReturn invoke(Function* function, Arguments... arguments) {
  return function != nullptr ? function(arguments...) : kNvmlErrorFunctionNotFound;
}

class NvmlGpu final : public GpuDevice {
 public:
  NvmlGpu(std::shared_ptr<const Nvml> nvml, NvmlDevice handle, GpuIdentity identity)
      : nvml_(std::move(nvml)), call_(nvml_->call), handle_(handle), identity_(std::move(identity)) {}

  const GpuIdentity& identity() const override { return identity_; }

  // From Ampere on, the plain call tells the mean of a whole second; the field, where there is one, the sensor itself.
  Watts power() const override {
    if (has_instant_power_.load(std::memory_order_relaxed)) {
      NvmlFieldValue field{};
      field.field = kNvmlFieldPowerInstant;
      field.scope = kNvmlPowerScopeGpu;
      const NvmlReturn code = invoke(call_.fields, handle_, 1, &field);
      if (code == kNvmlSuccess && field.status == kNvmlSuccess && field.value_type == kNvmlValueUnsignedInt) {
        return from_milliwatts(field.value.unsigned_int);
      }
      const NvmlReturn failed = code != kNvmlSuccess ? code : field.status;
      const DeviceFault fault = fault_of(failed);
      if (fault == DeviceFault::kLost || fault == DeviceFault::kTimeout) check(failed, "reading power");
      has_instant_power_.store(false, std::memory_order_relaxed);
    }
    unsigned value = 0;
    check(invoke(call_.power, handle_, &value), "reading power");
    return from_milliwatts(value);
  }

  std::optional<Joules> total_energy() const override {
    unsigned long long value = 0;
    const NvmlReturn code = invoke(call_.energy, handle_, &value);
    if (fault_of(code) == DeviceFault::kUnsupported) return std::nullopt;
    check(code, "reading the energy counter");
    return from_millijoules(value);
  }

  Megahertz sm_clock() const override { return clock(kNvmlClockSm, "reading the SM clock"); }
  Megahertz memory_clock() const override { return clock(kNvmlClockMemory, "reading the memory clock"); }

  double temperature_celsius() const override {
    unsigned value = 0;
    NvmlReturn code = invoke(call_.temperature, handle_, kNvmlTemperatureGpu, &value);
    if (code == kNvmlErrorFunctionNotFound && call_.temperature_v != nullptr) {
      NvmlTemperature reading{kNvmlTemperatureVersion1, kNvmlTemperatureGpu, 0};
      check(call_.temperature_v(handle_, &reading), "reading the temperature");
      return reading.temperature;
    }
    check(code, "reading the temperature");
    return value;
  }

  ThrottleReason throttle_reasons() const override {
    unsigned long long bits = 0;
    check(invoke(call_.reasons, handle_, &bits), "reading the throttle reasons");
    static constexpr std::array<std::pair<unsigned long long, ThrottleReason>, 5> kKnown{{
        {kNvmlReasonGpuIdle, ThrottleReason::kIdle},
        {kNvmlReasonApplicationsClocks, ThrottleReason::kApplicationClocks},
        {kNvmlReasonSwPowerCap, ThrottleReason::kPowerLimit},
        {kNvmlReasonSwThermalSlowdown | kNvmlReasonHwThermalSlowdown, ThrottleReason::kThermal},
        {kNvmlReasonHwSlowdown | kNvmlReasonHwPowerBrake, ThrottleReason::kHardwareSlowdown},
    }};
    ThrottleReason reasons = ThrottleReason::kNone;
    for (const auto& [mask, reason] : kKnown) {
      if ((bits & mask) != 0) reasons = reasons | reason;
      bits &= ~mask;
    }
    return bits != 0 ? reasons | ThrottleReason::kOther : reasons;
  }

  double utilisation() const override {
    NvmlUtilization value{};
    check(invoke(call_.utilisation, handle_, &value), "reading the utilisation");
    return value.gpu / 100.0;
  }

  std::vector<Megahertz> memory_clocks() const override {
    return clock_list(
        [this](unsigned* count, unsigned* list) { return invoke(call_.memory_clocks, handle_, count, list); },
        "listing the memory clocks");
  }

  std::vector<Megahertz> sm_clocks() const override {
    const std::vector<Megahertz> memory = memory_clocks();
    if (memory.empty()) return {};
    const auto highest = static_cast<unsigned>(memory.front().value());
    return clock_list(
        [this, highest](unsigned* count, unsigned* list) {
          return invoke(call_.graphics_clocks, handle_, highest, count, list);
        },
        "listing the SM clocks");
  }

  Watts power_limit() const override {
    unsigned value = 0;
    check(invoke(call_.power_limit, handle_, &value), "reading the power limit");
    return from_milliwatts(value);
  }

  PowerLimitRange power_limits() const override {
    unsigned minimum = 0;
    unsigned maximum = 0;
    unsigned standard = 0;
    check(invoke(call_.power_limit_range, handle_, &minimum, &maximum), "reading the range of power limits");
    check(invoke(call_.standard_power_limit, handle_, &standard), "reading the default power limit");
    return {from_milliwatts(minimum), from_milliwatts(maximum), from_milliwatts(standard)};
  }

  bool persistence() const override {
    unsigned value = 0;
    check(invoke(call_.persistence, handle_, &value), "reading the persistence mode");
    return value == kNvmlFeatureEnabled;
  }

  std::vector<pid_t> compute_processes() const override {
    return call_.processes != nullptr ? process_list<NvmlProcess>(call_.processes)
                                      : process_list<NvmlProcess1>(call_.processes_short);
  }

  void lock_sm_clocks(ClockRange range) override {
    const auto [minimum, maximum] = to_megahertz(range, "locking the SM clock");
    check(invoke(call_.lock_sm, handle_, minimum, maximum), "locking the SM clock");
  }
  void reset_sm_clocks() override { check(invoke(call_.reset_sm, handle_), "resetting the SM clock"); }

  void lock_memory_clocks(ClockRange range) override {
    const auto [minimum, maximum] = to_megahertz(range, "locking the memory clock");
    check(invoke(call_.lock_memory, handle_, minimum, maximum), "locking the memory clock");
  }
  void reset_memory_clocks() override { check(invoke(call_.reset_memory, handle_), "resetting the memory clock"); }

  void set_power_limit(Watts limit) override {
    const unsigned milliwatts = to_unsigned(limit.value() * 1e3, "setting the power limit");
    check(invoke(call_.set_power_limit, handle_, milliwatts), "setting the power limit");
  }

  void set_persistence(bool enabled) override {
    check(invoke(call_.set_persistence, handle_, enabled ? kNvmlFeatureEnabled : kNvmlFeatureDisabled),
          "setting the persistence mode");
  }

  ThrottleAccess throttle_access() const override {
    if (call_.lock_sm == nullptr || call_.reset_sm == nullptr) {
      return {false, DeviceFault::kUnsupported, "this driver cannot lock clocks", "install driver 418 or later"};
    }
    ThrottleAccess access = GpuDevice::throttle_access();
    if (!access.allowed) return access;
    // The process looks privileged; the driver has the last word. Setting the persistence mode to what it is asks for
    // the same privilege as the clocks and changes nothing.
    unsigned mode = 0;
    if (invoke(call_.persistence, handle_, &mode) == kNvmlSuccess &&
        invoke(call_.set_persistence, handle_, mode) == kNvmlErrorNoPermission) {
      return {false, DeviceFault::kPermission, "the driver refuses this process although it is root",
              mend_of(kNvmlErrorNoPermission)};
    }
    return access;
  }

 private:
  void check(NvmlReturn code, const char* what) const {
    if (code != kNvmlSuccess) throw nvml_->error(code, label(), what);  // a label is not made for every reading
  }

  Megahertz clock(unsigned type, const char* what) const {
    unsigned value = 0;
    check(invoke(call_.clock, handle_, type, &value), what);
    return from_megahertz(value);
  }

  // Clocks that the device cannot list are none.
  template <class List>
  std::vector<Megahertz> clock_list(List list, const char* what) const {
    std::vector<unsigned> values(256);
    auto count = static_cast<unsigned>(values.size());
    NvmlReturn code = list(&count, values.data());
    if (code == kNvmlErrorInsufficientSize) {
      values.resize(count);
      code = list(&count, values.data());
    }
    if (fault_of(code) == DeviceFault::kUnsupported) return {};
    check(code, what);
    std::vector<Megahertz> clocks;
    clocks.reserve(count);
    for (unsigned i = 0; i < count && i < values.size(); ++i) clocks.push_back(from_megahertz(values[i]));
    return clocks;
  }

  template <class Process, class List>
  std::vector<pid_t> process_list(List* list) const {
    std::vector<Process> processes(64);
    NvmlReturn code = kNvmlErrorInsufficientSize;
    auto count = static_cast<unsigned>(processes.size());
    // Between the two more may have come.
    for (int attempt = 0; attempt < 4 && code == kNvmlErrorInsufficientSize; ++attempt) {
      processes.resize(std::max<std::size_t>(2u * count, processes.size()));
      count = static_cast<unsigned>(processes.size());
      code = invoke(list, handle_, &count, processes.data());
    }
    if (fault_of(code) == DeviceFault::kUnsupported) return {};
    check(code, "listing the processes");
    std::vector<pid_t> pids;
    for (unsigned i = 0; i < count && i < processes.size(); ++i) pids.push_back(static_cast<pid_t>(processes[i].pid));
    return pids;
  }

  unsigned to_unsigned(double value, const char* what) const {
    const double rounded = std::round(value);
    if (!(rounded >= 0.0 && rounded < 4294967296.0)) {
      throw DeviceError(DeviceFault::kInvalid, label(), fmt::format("{}: {} is no value for it", what, value),
                        "choose a value that 'flyball devices' lists");
    }
    return static_cast<unsigned>(rounded);
  }
  std::pair<unsigned, unsigned> to_megahertz(ClockRange range, const char* what) const {
    return {to_unsigned(range.minimum.value(), what), to_unsigned(range.maximum.value(), what)};
  }

  std::shared_ptr<const Nvml> nvml_;
  const Calls& call_;
  NvmlDevice handle_;
  GpuIdentity identity_;
  mutable std::atomic<bool> has_instant_power_ = true;
};

std::string bus_id(const Calls& call, NvmlDevice handle) {
  NvmlPciInfo pci{};
  if (invoke(call.pci_info, handle, &pci) == kNvmlSuccess) return pci.bus_id;
  NvmlPciInfoShort old{};
  if (invoke(call.pci_info_short, handle, &old) == kNvmlSuccess) return old.bus_id;
  return {};
}

std::shared_ptr<GpuDevice> open_device(const std::shared_ptr<const Nvml>& nvml, unsigned board, std::size_t index) {
  const Calls& call = nvml->call;
  NvmlDevice handle = nullptr;
  std::array<char, kNvmlUuidSize> uuid{};
  std::array<char, kNvmlNameSize> name{};
  NvmlReturn code = call.handle(board, &handle);
  if (code == kNvmlSuccess) code = invoke(call.uuid, handle, uuid.data(), kNvmlUuidSize);
  if (code == kNvmlSuccess) code = invoke(call.name, handle, name.data(), kNvmlNameSize);
  nvml->check(code, fmt::format("GPU:{}", index), "opening the device");
  return std::make_shared<NvmlGpu>(nvml, handle, GpuIdentity{index, uuid.data(), name.data(), bus_id(call, handle)});
}

}  // namespace

CountedBoards load_nvml(const std::vector<std::string>& libraries) {
  const auto nvml = std::make_shared<const Nvml>(libraries);
  CountedBoards boards;
  std::array<char, kNvmlVersionSize> version{};
  if (invoke(nvml->call.driver_version, version.data(), kNvmlVersionSize) == kNvmlSuccess) {
    boards.version = version.data();
  }
  unsigned count = 0;
  nvml->check(nvml->call.count(&count), kVendor, "counting the devices");
  boards.count = count;
  boards.open = [nvml](std::size_t board, std::size_t index) {
    return open_device(nvml, static_cast<unsigned>(board), index);
  };
  return boards;
}

}  // namespace flyball
