// AMD SMI's codes, watts, microwatts, hertz and structure versions end in this file.
#include "device/amd_smi.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "device/amd_gpu.h"
#include "device/amd_smi_abi.h"
#include "device/gpu_library.h"
#include "device/patience.h"
#include "device/rocm_smi.h"
#include "device/shared_library.h"

namespace flyball {
namespace {

constexpr const char* kVendor = "amd-smi";
constexpr const char* kNoDriverMend = "install AMD's ROCm, or try simulated GPUs: flyball sim up --help";
constexpr std::uint32_t kYearOfSocketPower = 25;

DeviceFault fault_of(AmdSmiStatus status) {
  switch (status) {
    case kAmdSmiInitError:
    case kAmdSmiFailLoadModule:
    case kAmdSmiDriverNotLoaded:
    case kAmdSmiNoDriver: return DeviceFault::kNoDriver;
    case kAmdSmiNoPermission: return DeviceFault::kPermission;
    case kAmdSmiNotSupported:
    case kAmdSmiNotYetImplemented: return DeviceFault::kUnsupported;
    case kAmdSmiInvalid:
    case kAmdSmiOutOfBounds: return DeviceFault::kInvalid;
    case kAmdSmiNotFound: return DeviceFault::kLost;
    case kAmdSmiTimeout: return DeviceFault::kTimeout;
    default: return DeviceFault::kDriver;
  }
}

struct Calls {
  decltype(amdsmi_init)* init;
  decltype(amdsmi_shut_down)* shut_down;
  decltype(amdsmi_get_lib_version)* version;
  decltype(amdsmi_status_code_to_string)* status_string;
  decltype(amdsmi_get_socket_handles)* sockets;
  decltype(amdsmi_get_processor_handles)* processors;
  decltype(amdsmi_get_processor_type)* processor_type;
  decltype(amdsmi_get_gpu_asic_info)* asic;
  decltype(amdsmi_get_gpu_device_uuid)* uuid;
  decltype(amdsmi_get_gpu_device_bdf)* place;
  decltype(amdsmi_get_power_info)* power;
  decltype(amdsmi_get_energy_count)* energy;
  decltype(amdsmi_get_clk_freq)* frequencies;
  decltype(amdsmi_get_temp_metric)* temperature;
  decltype(amdsmi_get_gpu_activity)* usage;
  decltype(amdsmi_get_power_cap_info)* power_cap;
  decltype(amdsmi_set_power_cap)* set_power_cap;
  decltype(amdsmi_set_gpu_clk_range)* set_clock_range;
  decltype(amdsmi_set_gpu_perf_level)* set_performance;

  explicit Calls(const SharedLibrary& library) {
    library.resolve(init, "amdsmi_init");
    library.resolve(shut_down, "amdsmi_shut_down");
    library.resolve(version, "amdsmi_get_lib_version");
    library.resolve(status_string, "amdsmi_status_code_to_string");
    library.resolve(sockets, "amdsmi_get_socket_handles");
    library.resolve(processors, "amdsmi_get_processor_handles");
    library.resolve(processor_type, "amdsmi_get_processor_type");
    library.resolve(asic, "amdsmi_get_gpu_asic_info");
    library.resolve(uuid, "amdsmi_get_gpu_device_uuid");
    library.resolve(place, "amdsmi_get_gpu_device_bdf");
    library.resolve(power, "amdsmi_get_power_info");
    library.resolve(energy, "amdsmi_get_energy_count");
    library.resolve(frequencies, "amdsmi_get_clk_freq");
    library.resolve(temperature, "amdsmi_get_temp_metric");
    library.resolve(usage, "amdsmi_get_gpu_activity");
    library.resolve(power_cap, "amdsmi_get_power_cap_info");
    library.resolve(set_power_cap, "amdsmi_set_power_cap");
    library.resolve(set_clock_range, "amdsmi_set_gpu_clk_range");
    library.resolve(set_performance, "amdsmi_set_gpu_perf_level");
  }
};

// Calls that a library lacks answer as a device does that cannot.
template <class Function, class... Arguments>
AmdSmiStatus invoke(Function* function, Arguments... arguments) {
  return function != nullptr ? function(arguments...) : kAmdSmiNotSupported;
}

// The library, initialised for as long as it lives.
class AmdSmi {
 public:
  explicit AmdSmi(const std::vector<std::string>& names)
      : library_(std::make_shared<const SharedLibrary>(names, kVendor, kNoDriverMend)), call(*library_) {
    if (call.init == nullptr || call.shut_down == nullptr || call.sockets == nullptr || call.processors == nullptr ||
        call.version == nullptr) {
      throw DeviceError(DeviceFault::kNoDriver, kVendor, fmt::format("{} is not AMD SMI", names.front()),
                        kNoDriverMend);
    }
    check(call.init(kAmdSmiInitGpus), kVendor, "amdsmi_init");
    if (call.version(&version_) != kAmdSmiSuccess) version_ = {};
  }
  ~AmdSmi() { close_aside(library_, call.shut_down); }
  AmdSmi(const AmdSmi&) = delete;
  AmdSmi& operator=(const AmdSmi&) = delete;

  [[nodiscard]] const AmdSmiVersion& version() const { return version_; }

  void check(AmdSmiStatus status, const std::string& device, const char* what) const {
    if (status == kAmdSmiSuccess) return;
    const char* words = nullptr;
    if (invoke(call.status_string, status, &words) != kAmdSmiSuccess || words == nullptr) words = "no words for it";
    throw DeviceError(fault_of(status), device, fmt::format("{}: AMD SMI status {}: {}", what, status, words),
                      amd_mend(fault_of(status), kNoDriverMend));
  }

 private:
  std::shared_ptr<const SharedLibrary> library_;
  AmdSmiVersion version_{};

 public:
  const Calls call;
};

class AmdSmiGpu final : public AmdGpu {
 public:
  AmdSmiGpu(std::shared_ptr<const AmdSmi> library, AmdSmiProcessor processor, GpuIdentity identity)
      : AmdGpu(std::move(identity)), library_(std::move(library)), call_(library_->call), processor_(processor) {}

  Watts power() const override {
    // Larger than any version's structure, as below: a library newer than we know must not write past it.
    alignas(std::uint64_t) std::array<std::byte, 1024> room{};
    check(invoke(call_.power, processor_, static_cast<void*>(room.data())), "reading power");
    std::array<std::uint64_t, 3> watts{};
    if (library_->version().year < kYearOfSocketPower) {
      AmdSmiPower24 known{};
      std::memcpy(&known, room.data(), sizeof known);
      watts = {known.current, known.average, known.average};
    } else {
      AmdSmiPower25 known{};
      std::memcpy(&known, room.data(), sizeof known);
      watts = {known.socket, known.current, known.average};
    }
    // All ones in 16, 32 or 64 bits: not measured.
    const auto* told = std::find_if(watts.begin(), watts.end(), [](std::uint64_t value) { return value < 0xffff; });
    if (told == watts.end()) {
      throw DeviceError(DeviceFault::kUnsupported, label(), "reading power: this board does not tell it");
    }
    return Watts(static_cast<double>(*told));
  }

  std::optional<Joules> total_energy() const override {
    std::uint64_t counter = 0;
    std::uint64_t timestamp = 0;
    float microjoules = 0.0F;
    const AmdSmiStatus status = invoke(call_.energy, processor_, &counter, &microjoules, &timestamp);
    if (status != kAmdSmiSuccess && fault_of(status) == DeviceFault::kUnsupported) return std::nullopt;
    check(status, "reading the energy counter");
    return Joules(static_cast<double>(counter) * static_cast<double>(microjoules) / 1e6);
  }

  double temperature_celsius() const override {
    std::int64_t value = 0;
    const auto read = [&](std::uint32_t sensor) {
      return invoke(call_.temperature, processor_, sensor, kAmdSmiTemperatureCurrent, &value);
    };
    AmdSmiStatus status = read(kAmdSmiTemperatureEdge);
    if (status != kAmdSmiSuccess) status = read(kAmdSmiTemperatureHotspot);  // boards for servers have no edge sensor
    check(status, "reading the temperature");
    return static_cast<double>(value);
  }

  double utilisation() const override {
    AmdSmiUsage usage{};
    check(invoke(call_.usage, processor_, &usage), "reading the utilisation");
    if (usage.graphics > 100) {
      throw DeviceError(DeviceFault::kUnsupported, label(), "reading the utilisation: this board does not tell it");
    }
    return usage.graphics / 100.0;
  }

  Watts power_limit() const override { return from_microwatts(caps("reading the power limit").cap); }

  PowerLimitRange power_limits() const override {
    const AmdSmiPowerCap all = caps("reading the range of power limits");
    return {from_microwatts(all.minimum), from_microwatts(all.maximum), from_microwatts(all.standard)};
  }

 private:
  void check(AmdSmiStatus status, const char* what) const {
    if (status != kAmdSmiSuccess) library_->check(status, label(), what);
  }

  AmdSmiPowerCap caps(const char* what) const {
    AmdSmiPowerCap caps{};
    check(invoke(call_.power_cap, processor_, 0u, &caps), what);
    return caps;
  }

  ClockList read_clocks(AmdClock clock, const char* what) const override {
    AmdFrequencies list{};
    check(invoke(call_.frequencies, processor_, static_cast<std::uint32_t>(clock), &list), what);
    return list_of(list.hertz, std::min<std::size_t>(list.count, std::size(list.hertz)), list.current);
  }

  void set_clock_range(AmdClock clock, std::uint64_t low_mhz, std::uint64_t high_mhz, const char* what) override {
    check(invoke(call_.set_clock_range, processor_, low_mhz, high_mhz, static_cast<std::uint32_t>(clock)), what);
  }

  // Leaving the performance to the driver takes back both ranges: the interface has no narrower way.
  void leave_clocks_to_driver(const char* what) override {
    check(invoke(call_.set_performance, processor_, kAmdSmiPerformanceAuto), what);
  }

  void set_power_cap(std::uint64_t microwatts, const char* what) override {
    check(invoke(call_.set_power_cap, processor_, 0u, microwatts), what);
  }

  bool can_set_clocks() const override { return call_.set_clock_range != nullptr && call_.set_performance != nullptr; }

  std::shared_ptr<const AmdSmi> library_;
  const Calls& call_;
  AmdSmiProcessor processor_;
};

// Both lists are asked for their length first.
template <class Handle, class List>
std::vector<Handle> handles_of(const AmdSmi& smi, const char* what, List list) {
  std::uint32_t count = 0;
  smi.check(list(&count, nullptr), kVendor, what);
  std::vector<Handle> handles(count);
  if (count > 0) smi.check(list(&count, handles.data()), kVendor, what);
  handles.resize(std::min<std::size_t>(count, handles.size()));
  return handles;
}

struct Opened {
  std::shared_ptr<const AmdSmi> smi;
  std::vector<AmdSmiProcessor> gpus;  // of all sockets
};

Opened open_library(const std::vector<std::string>& names) {
  Opened opened;
  opened.smi = std::make_shared<const AmdSmi>(names);
  const AmdSmi& smi = *opened.smi;
  const auto sockets = handles_of<AmdSmiSocket>(smi, "listing the sockets", smi.call.sockets);
  for (AmdSmiSocket socket : sockets) {
    const auto processors = handles_of<AmdSmiProcessor>(
        smi, "listing the devices",
        [&](std::uint32_t* count, AmdSmiProcessor* list) { return smi.call.processors(socket, count, list); });
    for (AmdSmiProcessor processor : processors) {
      std::uint32_t type = kAmdSmiProcessorGpu;
      const AmdSmiStatus status = invoke(smi.call.processor_type, processor, &type);
      if (status != kAmdSmiSuccess || type == kAmdSmiProcessorGpu) opened.gpus.push_back(processor);
    }
  }
  return opened;
}

std::shared_ptr<GpuDevice> open_device(const std::shared_ptr<const AmdSmi>& smi, AmdSmiProcessor processor,
                                       std::size_t index) {
  const Calls& call = smi->call;
  alignas(std::uint64_t) std::array<char, 8192> asic{};  // larger than any version's structure
  smi->check(invoke(call.asic, processor, static_cast<void*>(asic.data())), fmt::format("GPU:{}", index),
             "opening the device");
  std::string name(asic.data(), ::strnlen(asic.data(), 64));
  GpuIdentity identity{index, {}, name.empty() ? "AMD GPU" : std::move(name), {}};
  std::uint64_t place = 0;
  if (invoke(call.place, processor, &place) == kAmdSmiSuccess) identity.pci_bus_id = amd_bus_id(place >> 16, place);
  std::array<char, 256> uuid{};
  auto length = static_cast<std::uint32_t>(uuid.size() - 1);
  const bool known = invoke(call.uuid, processor, &length, uuid.data()) == kAmdSmiSuccess && uuid[0] != '\0';
  identity.uuid = known ? uuid.data() : amd_uuid_of_place(identity.pci_bus_id);
  return std::make_shared<AmdSmiGpu>(smi, processor, std::move(identity));
}

}  // namespace

GpuLibrary open_amd_smi(const std::string& library, std::size_t first_index, Seconds patience) {
  std::vector<std::string> names = {"libamd_smi.so", "libamd_smi.so.26", "libamd_smi.so.25", "libamd_smi.so.24"};
  if (!library.empty()) names = {library};
  Opened opened = answer_within(patience, kVendor, [names] { return open_library(names); });
  const AmdSmiVersion& version = opened.smi->version();
  GpuLibrary result;
  result.vendor = kVendor;
  result.version = fmt::format("{}.{}.{}", version.year, version.major, version.minor);
  const std::size_t count = opened.gpus.size();
  open_devices(result, count, first_index, [opened = std::move(opened), first_index](std::size_t device) {
    return open_device(opened.smi, opened.gpus[device], first_index + device);
  });
  return result;
}

GpuLibrary open_amd(const std::string& amd_smi_library, const std::string& rocm_smi_library, std::size_t first_index,
                    Seconds patience) {
  try {
    return open_amd_smi(amd_smi_library, first_index, patience);
  } catch (const DeviceError& error) {
    if (error.fault() != DeviceFault::kNoDriver) throw;
  }
  return open_rocm_smi(rocm_smi_library, first_index, patience);
}

}  // namespace flyball
