// NVIDIA GPUs through libnvidia-ml, loaded at run time. NVML's codes, milliwatts, millijoules and symbol versions end
// in this file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "base/monotonic_time.h"
#include "driver/gpu_vendors.h"
#include "driver/nvml_abi.h"
#include "driver/shared_library.h"

namespace flyball {
namespace {

constexpr const char* kNvmlVendor = "nvml";
constexpr const char* kNoNvmlMend = "install the NVIDIA driver, or try simulated GPUs: flyball sim up --help";

constexpr double kTooLarge = 4294967296.0;  // for the interface's numbers

Watts from_milliwatts(unsigned value) { return Watts(value / 1e3); }
Joules from_millijoules(unsigned long long value) { return Joules(static_cast<double>(value) / 1e3); }
Megahertz from_megahertz(unsigned value) { return Megahertz(value); }

DeviceFault nvml_fault_of(NvmlReturn code) {
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
  if (code == kNvmlErrorLibRmVersionMismatch) {
    return "the driver was updated under the running kernel module: reload it or restart the machine";
  }
  return mend_of(nvml_fault_of(code), kNoNvmlMend, "nvidia-smi --gpu-reset");
}

template <class Function>
using Call = LibraryCall<Function, kNvmlErrorFunctionNotFound>;

// Every function that we call.
struct NvmlCalls {
  const SharedLibrary& library;

  Call<decltype(nvmlInit_v2)> init{library, "nvmlInit_v2", "nvmlInit"};
  Call<decltype(nvmlShutdown)> shutdown{library, "nvmlShutdown"};
  LibraryCall<decltype(nvmlErrorString), nullptr> error_string{library, "nvmlErrorString"};
  Call<decltype(nvmlSystemGetDriverVersion)> driver_version{library, "nvmlSystemGetDriverVersion"};
  Call<decltype(nvmlDeviceGetCount_v2)> count{library, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"};
  Call<decltype(nvmlDeviceGetHandleByIndex_v2)> handle{library, "nvmlDeviceGetHandleByIndex_v2",
                                                       "nvmlDeviceGetHandleByIndex"};
  Call<decltype(nvmlDeviceGetName)> name{library, "nvmlDeviceGetName"};
  Call<decltype(nvmlDeviceGetUUID)> uuid{library, "nvmlDeviceGetUUID"};
  Call<decltype(nvmlDeviceGetPciInfo_v3)> pci_info{library, "nvmlDeviceGetPciInfo_v3"};
  Call<decltype(nvmlDeviceGetPciInfo_v2)> pci_info_short{library, "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"};
  Call<decltype(nvmlDeviceGetPowerUsage)> power{library, "nvmlDeviceGetPowerUsage"};
  Call<decltype(nvmlDeviceGetFieldValues)> fields{library, "nvmlDeviceGetFieldValues"};
  Call<decltype(nvmlDeviceGetTotalEnergyConsumption)> energy{library, "nvmlDeviceGetTotalEnergyConsumption"};
  Call<decltype(nvmlDeviceGetSamples)> samples{library, "nvmlDeviceGetSamples"};
  Call<decltype(nvmlDeviceGetClockInfo)> clock{library, "nvmlDeviceGetClockInfo"};
  Call<decltype(nvmlDeviceGetTemperature)> temperature{library, "nvmlDeviceGetTemperature"};
  Call<decltype(nvmlDeviceGetTemperatureV)> temperature_v{library, "nvmlDeviceGetTemperatureV"};
  Call<decltype(nvmlDeviceGetCurrentClocksEventReasons)> reasons{library, "nvmlDeviceGetCurrentClocksEventReasons",
                                                                 "nvmlDeviceGetCurrentClocksThrottleReasons"};
  Call<decltype(nvmlDeviceGetUtilizationRates)> utilisation{library, "nvmlDeviceGetUtilizationRates"};
  Call<decltype(nvmlDeviceGetSupportedMemoryClocks)> memory_clocks{library, "nvmlDeviceGetSupportedMemoryClocks"};
  Call<decltype(nvmlDeviceGetSupportedGraphicsClocks)> graphics_clocks{library, "nvmlDeviceGetSupportedGraphicsClocks"};
  Call<decltype(nvmlDeviceGetPowerManagementLimit)> power_limit{library, "nvmlDeviceGetPowerManagementLimit"};
  Call<decltype(nvmlDeviceGetPowerManagementDefaultLimit)> standard_power_limit{
      library, "nvmlDeviceGetPowerManagementDefaultLimit"};
  Call<decltype(nvmlDeviceGetPowerManagementLimitConstraints)> power_limit_range{
      library, "nvmlDeviceGetPowerManagementLimitConstraints"};
  Call<decltype(nvmlDeviceGetPersistenceMode)> persistence{library, "nvmlDeviceGetPersistenceMode"};
  Call<decltype(nvmlDeviceGetMigMode)> mig_mode{library, "nvmlDeviceGetMigMode"};
  Call<decltype(nvmlDeviceGetComputeRunningProcesses_v2)> processes{library, "nvmlDeviceGetComputeRunningProcesses_v3",
                                                                    "nvmlDeviceGetComputeRunningProcesses_v2"};
  Call<decltype(nvmlDeviceGetComputeRunningProcesses)> processes_short{library, "nvmlDeviceGetComputeRunningProcesses"};
  Call<decltype(nvmlDeviceSetGpuLockedClocks)> lock_sm{library, "nvmlDeviceSetGpuLockedClocks"};
  Call<decltype(nvmlDeviceResetGpuLockedClocks)> reset_sm{library, "nvmlDeviceResetGpuLockedClocks"};
  Call<decltype(nvmlDeviceSetMemoryLockedClocks)> lock_memory{library, "nvmlDeviceSetMemoryLockedClocks"};
  Call<decltype(nvmlDeviceResetMemoryLockedClocks)> reset_memory{library, "nvmlDeviceResetMemoryLockedClocks"};
  Call<decltype(nvmlDeviceSetPowerManagementLimit)> set_power_limit{library, "nvmlDeviceSetPowerManagementLimit"};
  Call<decltype(nvmlDeviceSetPersistenceMode)> set_persistence{library, "nvmlDeviceSetPersistenceMode"};
};

// The library, initialised for as long as it lives.
class Nvml {
 public:
  explicit Nvml(const std::vector<std::string>& names)
      : library_(std::make_shared<const SharedLibrary>(names, kNvmlVendor, kNoNvmlMend)), call{*library_} {
    if (!call.init.is_there() || !call.shutdown.is_there() || !call.count.is_there() || !call.handle.is_there()) {
      throw DeviceError(DeviceFault::kNoDriver, kNvmlVendor,
                        fmt::format("{} is not NVIDIA's management library", names.front()), kNoNvmlMend);
    }
    check(call.init(), kNvmlVendor, "nvmlInit");
  }
  ~Nvml() {
    // A call that hangs keeps the library loaded.
    call_aside([library = library_, shutdown = call.shutdown] { static_cast<void>(shutdown()); });
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] DeviceError error(NvmlReturn code, const std::string& device, const char* what) const {
    const char* words = call.error_string(code);
    return {nvml_fault_of(code), device,
            fmt::format("{}: {}", what, words != nullptr ? words : fmt::format("NVML error {}", code)), mend_of(code)};
  }

  void check(NvmlReturn code, const std::string& device, const char* what) const {
    if (code != kNvmlSuccess) throw error(code, device, what);
  }

 private:
  std::shared_ptr<const SharedLibrary> library_;

 public:
  const NvmlCalls call;
};

class NvmlGpu final : public GpuDevice {
 public:
  NvmlGpu(std::shared_ptr<const Nvml> nvml, NvmlDevice handle, GpuIdentity identity)
      : nvml_(std::move(nvml)), call_(nvml_->call), handle_(handle), identity_(std::move(identity)) {}

  const GpuIdentity& identity() const override { return identity_; }

  // From Ampere on, the plain call tells the mean of a whole second. The field, if there is one, tells the present
  // power.
  Watts power() const override {
    if (has_instant_power_.load(std::memory_order_relaxed)) {
      NvmlFieldValue field{};
      field.field = kNvmlFieldPowerInstant;
      field.scope = kNvmlPowerScopeGpu;
      const NvmlReturn code = call_.fields(handle_, 1, &field);
      if (code == kNvmlSuccess && field.status == kNvmlSuccess && field.value_type == kNvmlValueUnsignedInt) {
        return from_milliwatts(field.value.unsigned_int);
      }
      const NvmlReturn failed = code != kNvmlSuccess ? code : field.status;
      const DeviceFault fault = nvml_fault_of(failed);
      if (fault == DeviceFault::kLost || fault == DeviceFault::kTimeout) check(failed, "reading power");
      has_instant_power_.store(false, std::memory_order_relaxed);
    }
    return from_milliwatts(read<unsigned>(call_.power, "reading power"));
  }

  std::optional<Joules> total_energy() const override {
    unsigned long long value = 0;
    const NvmlReturn code = call_.energy(handle_, &value);
    if (nvml_fault_of(code) == DeviceFault::kUnsupported) return std::nullopt;
    check(code, "reading the energy counter");
    return from_millijoules(value);
  }

  // Begins a while before `after`, since what went into the low pass follows from two samples.
  std::vector<TimedPower> power_samples(Nanoseconds after) const override {
    constexpr Seconds kLowPass{0.015};  // measured on an H100
    constexpr Nanoseconds kBefore = 100 * kMillisecond;
    std::vector<NvmlSample> samples(256);  // an H100 keeps 120
    auto count = static_cast<unsigned>(samples.size());
    unsigned type = 0;
    const Nanoseconds since_1970 = read_clock(CLOCK_REALTIME) - monotonic_now();
    const Nanoseconds begin = std::max<Nanoseconds>(0, after - kBefore + since_1970);
    if (call_.samples(handle_, kNvmlTotalPowerSamples, static_cast<unsigned long long>(begin / 1'000), &type, &count,
                      samples.data()) != kNvmlSuccess ||
        type != kNvmlValueUnsignedInt) {
      return {};
    }
    std::vector<TimedPower> record;
    for (std::size_t i = 0; i < std::min<std::size_t>(count, samples.size()); ++i) {
      record.push_back({static_cast<Nanoseconds>(samples[i].timestamp_us) * 1'000 - since_1970,
                        from_milliwatts(samples[i].value.unsigned_int)});
    }
    return without_low_pass(record, kLowPass);
  }

  Megahertz sm_clock() const override { return clock(kNvmlClockSm, "reading the SM clock"); }
  Megahertz memory_clock() const override { return clock(kNvmlClockMemory, "reading the memory clock"); }

  double temperature_celsius() const override {
    unsigned value = 0;
    NvmlReturn code = call_.temperature(handle_, kNvmlTemperatureGpu, &value);
    if (code == kNvmlErrorFunctionNotFound && call_.temperature_v.is_there()) {
      NvmlTemperature reading{kNvmlTemperatureVersion1, kNvmlTemperatureGpu, 0};
      check(call_.temperature_v(handle_, &reading), "reading the temperature");
      return reading.temperature;
    }
    check(code, "reading the temperature");
    return value;
  }

  ThrottleReason throttle_reasons() const override {
    auto bits = read<unsigned long long>(call_.reasons, "reading the throttle reasons");
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
    return read<NvmlUtilization>(call_.utilisation, "reading the utilisation").gpu / 100.0;
  }

  std::vector<Megahertz> memory_clocks() const override {
    return clock_list([this](unsigned* count, unsigned* list) { return call_.memory_clocks(handle_, count, list); },
                      "listing the memory clocks");
  }

  std::vector<Megahertz> sm_clocks() const override {
    const std::vector<Megahertz> memory = memory_clocks();
    if (memory.empty()) return {};
    const auto highest = static_cast<unsigned>(memory.front().value());
    return clock_list([this, highest](unsigned* count,
                                      unsigned* list) { return call_.graphics_clocks(handle_, highest, count, list); },
                      "listing the SM clocks");
  }

  Watts power_limit() const override {
    return from_milliwatts(read<unsigned>(call_.power_limit, "reading the power limit"));
  }

  PowerLimitRange power_limits() const override {
    unsigned minimum = 0;
    unsigned maximum = 0;
    check(call_.power_limit_range(handle_, &minimum, &maximum), "reading the range of power limits");
    const auto standard = read<unsigned>(call_.standard_power_limit, "reading the default power limit");
    return {from_milliwatts(minimum), from_milliwatts(maximum), from_milliwatts(standard)};
  }

  bool persistence() const override {
    return read<unsigned>(call_.persistence, "reading the persistence mode") == kNvmlFeatureEnabled;
  }

  bool divided() const override {
    unsigned current = kNvmlFeatureDisabled;
    unsigned pending = kNvmlFeatureDisabled;
    return call_.mig_mode(handle_, &current, &pending) == kNvmlSuccess && current == kNvmlFeatureEnabled;
  }

  std::vector<pid_t> compute_processes() const override {
    return call_.processes.is_there() ? process_list<NvmlProcess>(call_.processes)
                                      : process_list<NvmlProcess1>(call_.processes_short);
  }

  void lock_sm_clocks(ClockRange range) override {
    const auto [minimum, maximum] = to_megahertz(range, "locking the SM clock");
    check(call_.lock_sm(handle_, minimum, maximum), "locking the SM clock");
  }
  void reset_sm_clocks() override { check(call_.reset_sm(handle_), "resetting the SM clock"); }

  void lock_memory_clocks(ClockRange range) override {
    const auto [minimum, maximum] = to_megahertz(range, "locking the memory clock");
    check(call_.lock_memory(handle_, minimum, maximum), "locking the memory clock");
  }
  void reset_memory_clocks() override { check(call_.reset_memory(handle_), "resetting the memory clock"); }

  void set_power_limit(Watts limit) override {
    const double milliwatts = whole(limit.value() * 1e3, kTooLarge, "setting the power limit");
    check(call_.set_power_limit(handle_, static_cast<unsigned>(milliwatts)), "setting the power limit");
  }

  void set_persistence(bool enabled) override {
    check(call_.set_persistence(handle_, enabled ? kNvmlFeatureEnabled : kNvmlFeatureDisabled),
          "setting the persistence mode");
  }

  ThrottleAccess throttle_access() const override {
    if (!call_.lock_sm.is_there() || !call_.reset_sm.is_there()) {
      return {false, DeviceFault::kUnsupported, "this driver cannot lock clocks", "install driver 418 or later"};
    }
    ThrottleAccess access = GpuDevice::throttle_access();
    if (!access.allowed) return access;
    // The process looks privileged; the driver has the last word. Setting the persistence mode to what it is asks for
    // the same privilege as the clocks and changes nothing.
    unsigned mode = 0;
    if (call_.persistence(handle_, &mode) == kNvmlSuccess &&
        call_.set_persistence(handle_, mode) == kNvmlErrorNoPermission) {
      return {false, DeviceFault::kPermission, "the driver refuses this process although it is root",
              mend_of(kNvmlErrorNoPermission)};
    }
    return access;
  }

 private:
  void check(NvmlReturn code, const char* what) const {
    if (code != kNvmlSuccess) throw nvml_->error(code, label(), what);  // a label is not made for every reading
  }

  template <class Value, class Function>
  Value read(const Call<Function>& call, const char* what) const {
    Value value{};
    check(call(handle_, &value), what);
    return value;
  }

  Megahertz clock(unsigned type, const char* what) const {
    unsigned value = 0;
    check(call_.clock(handle_, type, &value), what);
    return from_megahertz(value);
  }

  // Returns no clocks if the device cannot list them.
  template <class List>
  std::vector<Megahertz> clock_list(List list, const char* what) const {
    std::vector<unsigned> values(256);
    auto count = static_cast<unsigned>(values.size());
    NvmlReturn code = list(&count, values.data());
    if (code == kNvmlErrorInsufficientSize) {
      values.resize(count);
      code = list(&count, values.data());
    }
    if (nvml_fault_of(code) == DeviceFault::kUnsupported) return {};
    check(code, what);
    std::vector<Megahertz> clocks;
    clocks.reserve(count);
    for (unsigned i = 0; i < count && i < values.size(); ++i) clocks.push_back(from_megahertz(values[i]));
    return clocks;
  }

  template <class Process, class List>
  std::vector<pid_t> process_list(const List& list) const {
    std::vector<Process> processes(64);
    NvmlReturn code = kNvmlErrorInsufficientSize;
    auto count = static_cast<unsigned>(processes.size());
    // Between two calls more processes may have come.
    for (int attempt = 0; attempt < 4 && code == kNvmlErrorInsufficientSize; ++attempt) {
      processes.resize(std::max<std::size_t>(2u * count, processes.size()));
      count = static_cast<unsigned>(processes.size());
      code = list(handle_, &count, processes.data());
    }
    if (nvml_fault_of(code) == DeviceFault::kUnsupported) return {};
    check(code, "listing the processes");
    std::vector<pid_t> pids;
    for (unsigned i = 0; i < count && i < processes.size(); ++i) pids.push_back(static_cast<pid_t>(processes[i].pid));
    return pids;
  }

  std::pair<unsigned, unsigned> to_megahertz(ClockRange range, const char* what) const {
    return {static_cast<unsigned>(whole(range.minimum.value(), kTooLarge, what)),
            static_cast<unsigned>(whole(range.maximum.value(), kTooLarge, what))};
  }

  std::shared_ptr<const Nvml> nvml_;
  const NvmlCalls& call_;
  NvmlDevice handle_;
  GpuIdentity identity_;
  mutable std::atomic<bool> has_instant_power_ = true;
};

std::string bus_id(const NvmlCalls& call, NvmlDevice handle) {
  NvmlPciInfo pci{};
  if (call.pci_info(handle, &pci) == kNvmlSuccess) return pci.bus_id;
  NvmlPciInfoShort old{};
  if (call.pci_info_short(handle, &old) == kNvmlSuccess) return old.bus_id;
  return {};
}

std::shared_ptr<GpuDevice> open_device(const std::shared_ptr<const Nvml>& nvml, unsigned board, std::size_t index) {
  const NvmlCalls& call = nvml->call;
  NvmlDevice handle = nullptr;
  std::array<char, kNvmlUuidSize> uuid{};
  std::array<char, kNvmlNameSize> name{};
  NvmlReturn code = call.handle(board, &handle);
  if (code == kNvmlSuccess) code = call.uuid(handle, uuid.data(), kNvmlUuidSize);
  if (code == kNvmlSuccess) code = call.name(handle, name.data(), kNvmlNameSize);
  nvml->check(code, gpu_label(index), "opening the device");
  return std::make_shared<NvmlGpu>(nvml, handle, GpuIdentity{index, uuid.data(), name.data(), bus_id(call, handle)});
}

}  // namespace

CountedBoards load_nvml(const std::vector<std::string>& libraries) {
  const auto nvml = std::make_shared<const Nvml>(libraries);
  CountedBoards boards;
  std::array<char, kNvmlVersionSize> version{};
  if (nvml->call.driver_version(version.data(), kNvmlVersionSize) == kNvmlSuccess) {
    boards.version = version.data();
  }
  unsigned count = 0;
  nvml->check(nvml->call.count(&count), kNvmlVendor, "counting the devices");
  boards.count = count;
  boards.open = [nvml](std::size_t board, std::size_t index) {
    return open_device(nvml, static_cast<unsigned>(board), index);
  };
  return boards;
}

}  // namespace flyball
