// ROCm SMI's codes, microwatts, hertz and structure versions end in this file.
#include "device/rocm_smi.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "device/amd_gpu.h"
#include "device/gpu_library.h"
#include "device/patience.h"
#include "device/rocm_smi_abi.h"
#include "device/shared_library.h"

namespace flyball {
namespace {

constexpr const char* kVendor = "rocm-smi";
constexpr const char* kNoDriverMend = "install AMD's ROCm, or try simulated GPUs: flyball sim up --help";

DeviceFault fault_of(RsmiStatus status) {
  switch (status) {
    case kRsmiInitError: return DeviceFault::kNoDriver;
    case kRsmiPermission: return DeviceFault::kPermission;
    case kRsmiNotSupported:
    case kRsmiNotYetImplemented: return DeviceFault::kUnsupported;
    case kRsmiInvalidArguments:
    case kRsmiOutOfBounds: return DeviceFault::kInvalid;
    case kRsmiNotFound: return DeviceFault::kLost;
    default: return DeviceFault::kDriver;
  }
}

struct Calls {
  decltype(rsmi_init)* init;
  decltype(rsmi_shut_down)* shut_down;
  decltype(rsmi_version_get)* version;
  decltype(rsmi_status_string)* status_string;
  decltype(rsmi_num_monitor_devices)* count;
  decltype(rsmi_dev_name_get)* name;
  decltype(rsmi_dev_unique_id_get)* unique_id;
  decltype(rsmi_dev_pci_id_get)* pci_id;
  decltype(rsmi_dev_power_ave_get)* average_power;
  decltype(rsmi_dev_power_get)* power;
  decltype(rsmi_dev_energy_count_get)* energy;
  decltype(rsmi_dev_gpu_clk_freq_get)* frequencies;
  decltype(rsmi_dev_temp_metric_get)* temperature;
  decltype(rsmi_dev_busy_percent_get)* busy;
  decltype(rsmi_dev_power_cap_get)* power_cap;
  decltype(rsmi_dev_power_cap_default_get)* standard_power_cap;
  decltype(rsmi_dev_power_cap_range_get)* power_cap_range;
  decltype(rsmi_dev_power_cap_set)* set_power_cap;
  decltype(rsmi_dev_clk_range_set)* set_clock_range;
  decltype(rsmi_dev_perf_level_set)* set_performance;

  explicit Calls(const SharedLibrary& library) {
    library.resolve(init, "rsmi_init");
    library.resolve(shut_down, "rsmi_shut_down");
    library.resolve(version, "rsmi_version_get");
    library.resolve(status_string, "rsmi_status_string");
    library.resolve(count, "rsmi_num_monitor_devices");
    library.resolve(name, "rsmi_dev_name_get");
    library.resolve(unique_id, "rsmi_dev_unique_id_get");
    library.resolve(pci_id, "rsmi_dev_pci_id_get");
    library.resolve(average_power, "rsmi_dev_power_ave_get");
    library.resolve(power, "rsmi_dev_power_get");
    library.resolve(energy, "rsmi_dev_energy_count_get");
    library.resolve(frequencies, "rsmi_dev_gpu_clk_freq_get");
    library.resolve(temperature, "rsmi_dev_temp_metric_get");
    library.resolve(busy, "rsmi_dev_busy_percent_get");
    library.resolve(power_cap, "rsmi_dev_power_cap_get");
    library.resolve(standard_power_cap, "rsmi_dev_power_cap_default_get");
    library.resolve(power_cap_range, "rsmi_dev_power_cap_range_get");
    library.resolve(set_power_cap, "rsmi_dev_power_cap_set");
    library.resolve(set_clock_range, "rsmi_dev_clk_range_set");
    library.resolve(set_performance, "rsmi_dev_perf_level_set", "rsmi_dev_perf_level_set_v1");
  }
};

// Calls that a library lacks answer as a device does that cannot.
template <class Function, class... Arguments>
RsmiStatus invoke(Function* function, Arguments... arguments) {
  return function != nullptr ? function(arguments...) : kRsmiNotSupported;
}

// The library, initialised for as long as it lives.
class RocmSmi {
 public:
  explicit RocmSmi(const std::vector<std::string>& names)
      : library_(std::make_shared<const SharedLibrary>(names, kVendor, kNoDriverMend)), call(*library_) {
    if (call.init == nullptr || call.shut_down == nullptr || call.count == nullptr || call.version == nullptr) {
      throw DeviceError(DeviceFault::kNoDriver, kVendor, fmt::format("{} is not AMD's ROCm SMI", names.front()),
                        kNoDriverMend);
    }
    check(call.init(0), kVendor, "rsmi_init");
    if (call.version(&version_) != kRsmiSuccess) version_ = {5, 0, 0, nullptr};
  }
  ~RocmSmi() { close_aside(library_, call.shut_down); }
  RocmSmi(const RocmSmi&) = delete;
  RocmSmi& operator=(const RocmSmi&) = delete;

  [[nodiscard]] const RsmiVersion& version() const { return version_; }

  [[nodiscard]] DeviceError error(RsmiStatus status, const std::string& device, const char* what) const {
    const char* words = nullptr;
    if (invoke(call.status_string, status, &words) != kRsmiSuccess || words == nullptr) words = "no words for it";
    return {fault_of(status), device, fmt::format("{}: ROCm SMI status {}: {}", what, status, words),
            amd_mend(fault_of(status), kNoDriverMend)};
  }
  void check(RsmiStatus status, const std::string& device, const char* what) const {
    if (status != kRsmiSuccess) throw error(status, device, what);
  }

 private:
  std::shared_ptr<const SharedLibrary> library_;
  RsmiVersion version_{};

 public:
  const Calls call;
};

class RocmGpu final : public AmdGpu {
 public:
  RocmGpu(std::shared_ptr<const RocmSmi> library, std::uint32_t device, GpuIdentity identity)
      : AmdGpu(std::move(identity)), library_(std::move(library)), call_(library_->call), device_(device) {}

  Watts power() const override {
    std::uint64_t microwatts = 0;
    std::uint32_t type = 0;
    RsmiStatus status = invoke(call_.power, device_, &microwatts, &type);
    if (status != kRsmiSuccess) status = invoke(call_.average_power, device_, 0u, &microwatts);
    check(status, "reading power");
    return from_microwatts(microwatts);
  }

  std::optional<Joules> total_energy() const override {
    std::uint64_t counter = 0;
    std::uint64_t timestamp = 0;
    float microjoules = 0.0F;
    const RsmiStatus status = invoke(call_.energy, device_, &counter, &microjoules, &timestamp);
    if (status != kRsmiSuccess && fault_of(status) == DeviceFault::kUnsupported) return std::nullopt;
    check(status, "reading the energy counter");
    return Joules(static_cast<double>(counter) * static_cast<double>(microjoules) / 1e6);
  }

  double temperature_celsius() const override {
    std::int64_t value = 0;
    RsmiStatus status = invoke(call_.temperature, device_, kRsmiTemperatureEdge, kRsmiTemperatureCurrent, &value);
    if (status != kRsmiSuccess) {  // boards for servers have no edge sensor
      status = invoke(call_.temperature, device_, kRsmiTemperatureJunction, kRsmiTemperatureCurrent, &value);
    }
    check(status, "reading the temperature");
    return static_cast<double>(value) / 1e3;
  }

  double utilisation() const override {
    std::uint32_t percent = 0;
    check(invoke(call_.busy, device_, &percent), "reading the utilisation");
    return percent / 100.0;
  }

  Watts power_limit() const override {
    std::uint64_t microwatts = 0;
    check(invoke(call_.power_cap, device_, 0u, &microwatts), "reading the power limit");
    return from_microwatts(microwatts);
  }

  PowerLimitRange power_limits() const override {
    std::uint64_t minimum = 0;
    std::uint64_t maximum = 0;
    std::uint64_t standard = 0;
    check(invoke(call_.power_cap_range, device_, 0u, &maximum, &minimum), "reading the range of power limits");
    check(invoke(call_.standard_power_cap, device_, &standard), "reading the default power limit");
    return {from_microwatts(minimum), from_microwatts(maximum), from_microwatts(standard)};
  }

 private:
  void check(RsmiStatus status, const char* what) const {
    if (status != kRsmiSuccess) throw library_->error(status, label(), what);
  }

  ClockList read_clocks(AmdClock clock, const char* what) const override {
    // Larger than any version's structure, so that a library newer than we know does not write past it.
    alignas(std::uint64_t) std::array<std::byte, 1024> room{};
    check(invoke(call_.frequencies, device_, static_cast<std::uint32_t>(clock), static_cast<void*>(room.data())), what);
    const auto read_as = [&](auto known) {
      std::memcpy(&known, room.data(), sizeof known);
      return list_of(known.hertz, std::min<std::size_t>(known.count, std::size(known.hertz)), known.current);
    };
    return library_->version().major >= 6 ? read_as(AmdFrequencies{}) : read_as(RsmiFrequencies5{});
  }

  void set_clock_range(AmdClock clock, std::uint64_t low_mhz, std::uint64_t high_mhz, const char* what) override {
    check(invoke(call_.set_clock_range, device_, low_mhz, high_mhz, static_cast<std::uint32_t>(clock)), what);
  }

  // Leaving the performance to the driver takes back both ranges: the interface has no narrower way.
  void leave_clocks_to_driver(const char* what) override {
    check(invoke(call_.set_performance, static_cast<std::int32_t>(device_), kRsmiPerformanceAuto), what);
  }

  void set_power_cap(std::uint64_t microwatts, const char* what) override {
    check(invoke(call_.set_power_cap, device_, 0u, microwatts), what);
  }

  bool can_set_clocks() const override { return call_.set_clock_range != nullptr && call_.set_performance != nullptr; }

  std::shared_ptr<const RocmSmi> library_;
  const Calls& call_;
  std::uint32_t device_;
};

std::string bus_id(const Calls& call, std::uint32_t device) {
  std::uint64_t id = 0;
  if (invoke(call.pci_id, device, &id) != kRsmiSuccess) return {};
  return amd_bus_id(id >> 32, id);
}

struct Opened {
  std::shared_ptr<const RocmSmi> rocm;
  std::uint32_t count = 0;
};

Opened open_library(const std::vector<std::string>& names) {
  Opened opened;
  opened.rocm = std::make_shared<const RocmSmi>(names);
  opened.rocm->check(opened.rocm->call.count(&opened.count), kVendor, "counting the devices");
  return opened;
}

std::shared_ptr<GpuDevice> open_device(const std::shared_ptr<const RocmSmi>& rocm, std::uint32_t device,
                                       std::size_t index) {
  const Calls& call = rocm->call;
  std::array<char, 256> name{};
  rocm->check(invoke(call.name, device, name.data(), name.size() - 1), fmt::format("GPU:{}", index),
              "opening the device");
  std::uint64_t unique = 0;
  const std::string bus = bus_id(call, device);
  const bool known = invoke(call.unique_id, device, &unique) == kRsmiSuccess && unique != 0;
  std::string uuid = known ? fmt::format("GPU-{:016x}", unique) : amd_uuid_of_place(bus);
  return std::make_shared<RocmGpu>(rocm, device, GpuIdentity{index, std::move(uuid), name.data(), bus});
}

}  // namespace

GpuLibrary open_rocm_smi(const std::string& library, std::size_t first_index, Seconds patience) {
  // ROCm installs no unversioned name without its development package.
  std::vector<std::string> names = {"librocm_smi64.so", "librocm_smi64.so.7", "librocm_smi64.so.6",
                                    "librocm_smi64.so.5", "librocm_smi64.so.1"};
  if (!library.empty()) names = {library};
  const Opened opened = answer_within(patience, kVendor, [names] { return open_library(names); });
  const RsmiVersion& version = opened.rocm->version();
  GpuLibrary result;
  result.vendor = kVendor;
  result.version = fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
  open_devices(result, opened.count, first_index, [rocm = opened.rocm, first_index](std::size_t device) {
    return open_device(rocm, static_cast<std::uint32_t>(device), first_index + device);
  });
  return result;
}

}  // namespace flyball
