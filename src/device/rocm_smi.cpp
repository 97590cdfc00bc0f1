// ROCm SMI's codes, microwatts, hertz and structure versions end in this file.
#include "device/rocm_smi.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

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

std::string mend_of(RsmiStatus status) {
  switch (fault_of(status)) {
    case DeviceFault::kNoDriver: return kNoDriverMend;
    case DeviceFault::kPermission: return "do it through the agent (sudo flyball agent), or as root";
    case DeviceFault::kInvalid: return "choose a value that 'flyball devices' lists";
    case DeviceFault::kLost: return "reset the GPU (rocm-smi --gpureset) or restart the machine; see dmesg";
    default: return {};
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
  explicit RocmSmi(const std::vector<std::string>& names) : library_(names, kVendor, kNoDriverMend), call(library_) {
    if (call.init == nullptr || call.shut_down == nullptr || call.count == nullptr || call.version == nullptr) {
      throw DeviceError(DeviceFault::kNoDriver, kVendor, fmt::format("{} is not AMD's ROCm SMI", names.front()),
                        kNoDriverMend);
    }
    check(call.init(0), kVendor, "rsmi_init");
    if (call.version(&version_) != kRsmiSuccess) version_ = {5, 0, 0, nullptr};
  }
  ~RocmSmi() { call.shut_down(); }
  RocmSmi(const RocmSmi&) = delete;
  RocmSmi& operator=(const RocmSmi&) = delete;

  [[nodiscard]] const RsmiVersion& version() const { return version_; }

  [[nodiscard]] DeviceError error(RsmiStatus status, const std::string& device, const char* what) const {
    const char* words = nullptr;
    if (invoke(call.status_string, status, &words) != kRsmiSuccess || words == nullptr) words = "no words for it";
    return {fault_of(status), device, fmt::format("{}: ROCm SMI status {}: {}", what, status, words), mend_of(status)};
  }
  void check(RsmiStatus status, const std::string& device, const char* what) const {
    if (status != kRsmiSuccess) throw error(status, device, what);
  }

 private:
  SharedLibrary library_;
  RsmiVersion version_{};

 public:
  const Calls call;
};

class RocmGpu final : public GpuDevice {
 public:
  RocmGpu(std::shared_ptr<const RocmSmi> library, std::uint32_t device, GpuIdentity identity)
      : library_(std::move(library)), call_(library_->call), device_(device), identity_(std::move(identity)) {}

  const GpuIdentity& identity() const override { return identity_; }

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

  Megahertz sm_clock() const override { return current_clock(kRsmiClockSystem, "reading the system clock"); }
  Megahertz memory_clock() const override { return current_clock(kRsmiClockMemory, "reading the memory clock"); }

  double temperature_celsius() const override {
    std::int64_t value = 0;
    RsmiStatus status = invoke(call_.temperature, device_, kRsmiTemperatureEdge, kRsmiTemperatureCurrent, &value);
    if (status != kRsmiSuccess) {  // boards for servers have no edge sensor
      status = invoke(call_.temperature, device_, kRsmiTemperatureJunction, kRsmiTemperatureCurrent, &value);
    }
    check(status, "reading the temperature");
    return static_cast<double>(value) / 1e3;
  }

  ThrottleReason throttle_reasons() const override {
    throw DeviceError(DeviceFault::kUnsupported, label(), "ROCm SMI tells no throttle reasons");
  }

  double utilisation() const override {
    std::uint32_t percent = 0;
    check(invoke(call_.busy, device_, &percent), "reading the utilisation");
    return percent / 100.0;
  }

  std::vector<Megahertz> memory_clocks() const override {
    return clocks(kRsmiClockMemory, "listing the memory clocks");
  }
  std::vector<Megahertz> sm_clocks() const override { return clocks(kRsmiClockSystem, "listing the system clocks"); }

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

  bool persistence() const override { return true; }  // the kernel keeps AMD's devices up at all times

  void lock_sm_clocks(ClockRange range) override { set_range(kRsmiClockSystem, range, "locking the system clock"); }
  void reset_sm_clocks() override { reset("resetting the system clock"); }
  void lock_memory_clocks(ClockRange range) override { set_range(kRsmiClockMemory, range, "locking the memory clock"); }
  void reset_memory_clocks() override { reset("resetting the memory clock"); }

  void set_power_limit(Watts limit) override {
    const double microwatts = std::round(limit.value() * 1e6);
    if (!(microwatts >= 0.0 && microwatts < 1e15)) refuse_value(limit.value(), "setting the power limit");
    check(invoke(call_.set_power_cap, device_, 0u, static_cast<std::uint64_t>(microwatts)), "setting the power limit");
  }

  void set_persistence(bool enabled) override {
    if (!enabled) throw DeviceError(DeviceFault::kUnsupported, label(), "AMD's devices are always persistent");
  }

  ThrottleAccess throttle_access() const override {
    if (call_.set_clock_range == nullptr || call_.set_performance == nullptr) {
      return {false, DeviceFault::kUnsupported, "this driver cannot lock clocks", "install ROCm 5 or later"};
    }
    return GpuDevice::throttle_access();
  }

 private:
  struct ClockList {
    std::vector<Megahertz> clocks;  // as the vendor orders them
    std::size_t current = 0;
  };

  static Watts from_microwatts(std::uint64_t value) { return Watts(static_cast<double>(value) / 1e6); }

  void check(RsmiStatus status, const char* what) const { library_->check(status, label(), what); }

  [[noreturn]] void refuse_value(double value, const char* what) const {
    throw DeviceError(DeviceFault::kInvalid, label(), fmt::format("{}: {} is no value for it", what, value),
                      "choose a value that 'flyball devices' lists");
  }

  RsmiStatus read_clocks(std::uint32_t clock, ClockList& list) const {
    // Larger than any version's structure, so that a library newer than we know does not write past it.
    alignas(std::uint64_t) std::array<std::byte, 1024> room{};
    const RsmiStatus status = invoke(call_.frequencies, device_, clock, static_cast<void*>(room.data()));
    if (status != kRsmiSuccess) return status;
    const auto take = [&](const auto& known) {
      const std::size_t count = std::min<std::size_t>(known.count, std::size(known.hertz));
      for (std::size_t i = 0; i < count; ++i) list.clocks.emplace_back(static_cast<double>(known.hertz[i]) / 1e6);
      list.current = known.current;
    };
    if (library_->version().major >= 6) {
      RsmiFrequencies6 known{};
      std::memcpy(&known, room.data(), sizeof known);
      take(known);
    } else {
      RsmiFrequencies5 known{};
      std::memcpy(&known, room.data(), sizeof known);
      take(known);
    }
    return status;
  }

  Megahertz current_clock(std::uint32_t clock, const char* what) const {
    ClockList list;
    check(read_clocks(clock, list), what);
    if (list.current >= list.clocks.size()) {
      throw DeviceError(DeviceFault::kDriver, label(), fmt::format("{}: the driver names none", what));
    }
    return list.clocks[list.current];
  }

  // Clocks that the device cannot list are none.
  std::vector<Megahertz> clocks(std::uint32_t clock, const char* what) const {
    ClockList list;
    const RsmiStatus status = read_clocks(clock, list);
    if (status != kRsmiSuccess && fault_of(status) == DeviceFault::kUnsupported) return {};
    check(status, what);
    std::sort(list.clocks.begin(), list.clocks.end(), [](Megahertz a, Megahertz b) { return a > b; });
    return list.clocks;
  }

  void set_range(std::uint32_t clock, ClockRange range, const char* what) const {
    const double low = std::round(range.minimum.value());
    const double high = std::round(range.maximum.value());
    if (!(low >= 0.0 && low <= high && high < 1e6)) refuse_value(high, what);
    check(invoke(call_.set_clock_range, device_, static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high),
                 clock),
          what);
  }

  // Leaving the performance to the driver takes back both ranges: the interface has no narrower way.
  void reset(const char* what) const {
    check(invoke(call_.set_performance, static_cast<std::int32_t>(device_), kRsmiPerformanceAuto), what);
  }

  std::shared_ptr<const RocmSmi> library_;
  const Calls& call_;
  std::uint32_t device_;
  GpuIdentity identity_;
};

std::string bus_id(const Calls& call, std::uint32_t device) {
  std::uint64_t id = 0;
  if (invoke(call.pci_id, device, &id) != kRsmiSuccess) return {};
  return fmt::format("{:08X}:{:02X}:{:02X}.{:X}", id >> 32, (id >> 8) & 0xff, (id >> 3) & 0x1f, id & 0x7);
}

}  // namespace

GpuLibrary open_rocm_smi(const std::string& library, std::size_t first_index) {
  // ROCm installs no unversioned name without its development package.
  const std::vector<std::string> usual = {"librocm_smi64.so", "librocm_smi64.so.7", "librocm_smi64.so.6",
                                          "librocm_smi64.so.5", "librocm_smi64.so.1"};
  const auto rocm = std::make_shared<const RocmSmi>(library.empty() ? usual : std::vector<std::string>{library});
  const Calls& call = rocm->call;
  GpuLibrary result;
  result.vendor = kVendor;
  result.version = fmt::format("{}.{}.{}", rocm->version().major, rocm->version().minor, rocm->version().patch);

  std::uint32_t count = 0;
  rocm->check(call.count(&count), kVendor, "counting the devices");
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t index = first_index + i;
    std::array<char, 256> name{};
    const RsmiStatus status = invoke(call.name, i, name.data(), name.size() - 1);
    if (status != kRsmiSuccess) {
      result.refused.push_back(rocm->error(status, fmt::format("GPU:{}", index), "opening the device"));
      continue;
    }
    // Consumer boards have no unique number; their place in the machine stands in for it.
    std::uint64_t unique = 0;
    const std::string bus = bus_id(call, i);
    const bool known = invoke(call.unique_id, i, &unique) == kRsmiSuccess && unique != 0;
    std::string uuid = known ? fmt::format("GPU-{:016x}", unique) : "PCI-" + bus;
    result.devices.push_back(std::make_shared<RocmGpu>(rocm, i, GpuIdentity{index, std::move(uuid), name.data(), bus}));
  }
  return result;
}

}  // namespace flyball
