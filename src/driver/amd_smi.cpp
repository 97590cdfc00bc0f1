// AMD GPUs through libamd_smi, loaded at run time. Written from the vendor's published interface and tested against a
// stand-in only: no AMD board was at hand. AMD SMI's codes, watts, microwatts, hertz and structure versions end in this
// file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "driver/amd_smi_abi.h"
#include "driver/gpu_vendors.h"
#include "driver/shared_library.h"

namespace flyball {
namespace {

constexpr const char* kAmdSmiVendor = "amd-smi";
constexpr const char* kNoAmdSmiMend =
    "install AMD's ROCm, version 6.0 or later, or try simulated GPUs: flyball sim up --help";
constexpr std::uint32_t kYearOfSocketPower = 25;

DeviceFault amd_fault_of(AmdSmiStatus status) {
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

Watts from_microwatts(std::uint64_t value) { return Watts(static_cast<double>(value) / 1e6); }

template <class Function>
using AmdSmiCall = LibraryCall<Function, kAmdSmiNotSupported>;

struct AmdSmiCalls {
  const SharedLibrary& library;

  AmdSmiCall<decltype(amdsmi_init)> init{library, "amdsmi_init"};
  AmdSmiCall<decltype(amdsmi_shut_down)> shut_down{library, "amdsmi_shut_down"};
  AmdSmiCall<decltype(amdsmi_get_lib_version)> version{library, "amdsmi_get_lib_version"};
  AmdSmiCall<decltype(amdsmi_status_code_to_string)> status_string{library, "amdsmi_status_code_to_string"};
  AmdSmiCall<decltype(amdsmi_get_socket_handles)> sockets{library, "amdsmi_get_socket_handles"};
  AmdSmiCall<decltype(amdsmi_get_processor_handles)> processors{library, "amdsmi_get_processor_handles"};
  AmdSmiCall<decltype(amdsmi_get_processor_type)> processor_type{library, "amdsmi_get_processor_type"};
  AmdSmiCall<decltype(amdsmi_get_gpu_asic_info)> asic{library, "amdsmi_get_gpu_asic_info"};
  AmdSmiCall<decltype(amdsmi_get_gpu_device_uuid)> uuid{library, "amdsmi_get_gpu_device_uuid"};
  AmdSmiCall<decltype(amdsmi_get_gpu_device_bdf)> place{library, "amdsmi_get_gpu_device_bdf"};
  AmdSmiCall<decltype(amdsmi_get_power_info)> power{library, "amdsmi_get_power_info"};
  AmdSmiCall<decltype(amdsmi_get_energy_count)> energy{library, "amdsmi_get_energy_count"};
  AmdSmiCall<decltype(amdsmi_get_clk_freq)> frequencies{library, "amdsmi_get_clk_freq"};
  AmdSmiCall<decltype(amdsmi_get_temp_metric)> temperature{library, "amdsmi_get_temp_metric"};
  AmdSmiCall<decltype(amdsmi_get_gpu_activity)> usage{library, "amdsmi_get_gpu_activity"};
  AmdSmiCall<decltype(amdsmi_get_power_cap_info)> power_cap{library, "amdsmi_get_power_cap_info"};
  AmdSmiCall<decltype(amdsmi_set_power_cap)> set_power_cap{library, "amdsmi_set_power_cap"};
  AmdSmiCall<decltype(amdsmi_set_gpu_clk_range)> set_clock_range{library, "amdsmi_set_gpu_clk_range"};
  AmdSmiCall<decltype(amdsmi_set_gpu_perf_level)> set_performance{library, "amdsmi_set_gpu_perf_level"};
};

// The library, initialised for as long as it lives.
class AmdSmi {
 public:
  explicit AmdSmi(const std::vector<std::string>& names)
      : library_(std::make_shared<const SharedLibrary>(names, kAmdSmiVendor, kNoAmdSmiMend)), call{*library_} {
    if (!call.init.is_there() || !call.shut_down.is_there() || !call.sockets.is_there() ||
        !call.processors.is_there() || !call.version.is_there()) {
      throw DeviceError(DeviceFault::kNoDriver, kAmdSmiVendor, fmt::format("{} is not AMD SMI", names.front()),
                        kNoAmdSmiMend);
    }
    check(call.init(kAmdSmiInitGpus), kAmdSmiVendor, "amdsmi_init");
    if (call.version(&version_) != kAmdSmiSuccess) version_ = {};
  }
  ~AmdSmi() {
    // A call that hangs keeps the library loaded.
    call_aside([library = library_, shut_down = call.shut_down] { static_cast<void>(shut_down()); });
  }
  AmdSmi(const AmdSmi&) = delete;
  AmdSmi& operator=(const AmdSmi&) = delete;

  [[nodiscard]] const AmdSmiVersion& version() const { return version_; }

  void check(AmdSmiStatus status, const std::string& device, const char* what) const {
    if (status == kAmdSmiSuccess) return;
    const char* words = nullptr;
    if (call.status_string(status, &words) != kAmdSmiSuccess || words == nullptr) words = "no words for it";
    throw DeviceError(amd_fault_of(status), device, fmt::format("{}: AMD SMI status {}: {}", what, status, words),
                      mend_of(amd_fault_of(status), kNoAmdSmiMend, "amd-smi reset --gpureset"));
  }

 private:
  std::shared_ptr<const SharedLibrary> library_;
  AmdSmiVersion version_{};

 public:
  const AmdSmiCalls call;
};

class AmdSmiGpu final : public GpuDevice {
 public:
  AmdSmiGpu(std::shared_ptr<const AmdSmi> library, AmdSmiProcessor processor, GpuIdentity identity)
      : library_(std::move(library)), call_(library_->call), processor_(processor), identity_(std::move(identity)) {}

  const GpuIdentity& identity() const override { return identity_; }

  Watts power() const override {
    // The room is larger than any version's structure: a library newer than we know must not write past it.
    alignas(std::uint64_t) std::array<std::byte, 1024> room{};
    check(call_.power(processor_, room.data()), "reading power");
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
    // All ones in 16, 32 or 64 bits stand for a power that the board does not measure.
    const auto* told = std::find_if(watts.begin(), watts.end(), [](std::uint64_t value) { return value < 0xffff; });
    if (told == watts.end()) refuse("reading power: this board does not tell it");
    return Watts(static_cast<double>(*told));
  }

  std::optional<Joules> total_energy() const override {
    std::uint64_t counter = 0;
    std::uint64_t timestamp = 0;
    float microjoules = 0.0F;
    const AmdSmiStatus status = call_.energy(processor_, &counter, &microjoules, &timestamp);
    if (status != kAmdSmiSuccess && amd_fault_of(status) == DeviceFault::kUnsupported) return std::nullopt;
    check(status, "reading the energy counter");
    return Joules(static_cast<double>(counter) * static_cast<double>(microjoules) / 1e6);
  }

  Megahertz sm_clock() const override { return current_clock(kAmdSmiClockSystem, "reading the system clock"); }
  Megahertz memory_clock() const override { return current_clock(kAmdSmiClockMemory, "reading the memory clock"); }

  double temperature_celsius() const override {
    std::int64_t value = 0;
    const auto read = [&](std::uint32_t sensor) {
      return call_.temperature(processor_, sensor, kAmdSmiTemperatureCurrent, &value);
    };
    AmdSmiStatus status = read(kAmdSmiTemperatureEdge);
    if (status != kAmdSmiSuccess) status = read(kAmdSmiTemperatureHotspot);  // boards for servers have no edge sensor
    check(status, "reading the temperature");
    return static_cast<double>(value);
  }

  ThrottleReason throttle_reasons() const override { refuse("AMD's library tells no throttle reasons"); }

  double utilisation() const override {
    AmdSmiUsage usage{};
    check(call_.usage(processor_, &usage), "reading the utilisation");
    if (usage.graphics > 100) refuse("reading the utilisation: this board does not tell it");
    return usage.graphics / 100.0;
  }

  std::vector<Megahertz> sm_clocks() const override { return clocks(kAmdSmiClockSystem, "listing the system clocks"); }
  std::vector<Megahertz> memory_clocks() const override {
    return clocks(kAmdSmiClockMemory, "listing the memory clocks");
  }

  Watts power_limit() const override { return from_microwatts(caps("reading the power limit").cap); }

  PowerLimitRange power_limits() const override {
    const AmdSmiPowerCap all = caps("reading the range of power limits");
    return {from_microwatts(all.minimum), from_microwatts(all.maximum), from_microwatts(all.standard)};
  }

  bool persistence() const override { return true; }  // the kernel keeps AMD's devices up at all times
  void set_persistence(bool enabled) override {
    if (!enabled) refuse("AMD's devices are always persistent");
  }

  void lock_sm_clocks(ClockRange range) override { lock(kAmdSmiClockSystem, range, "locking the system clock"); }
  void reset_sm_clocks() override { leave_clocks_to_driver("resetting the system clock"); }
  void lock_memory_clocks(ClockRange range) override { lock(kAmdSmiClockMemory, range, "locking the memory clock"); }
  void reset_memory_clocks() override { leave_clocks_to_driver("resetting the memory clock"); }

  void set_power_limit(Watts limit) override {
    const char* const what = "setting the power limit";
    const auto microwatts = static_cast<std::uint64_t>(whole(limit.value() * 1e6, 1e15, what));
    check(call_.set_power_cap(processor_, 0, microwatts), what);
  }

  ThrottleAccess throttle_access() const override {
    if (!call_.set_clock_range.is_there() || !call_.set_performance.is_there()) {
      return {false, DeviceFault::kUnsupported, "this driver cannot lock clocks", kNoAmdSmiMend};
    }
    return GpuDevice::throttle_access();
  }

 private:
  void check(AmdSmiStatus status, const char* what) const {
    if (status != kAmdSmiSuccess) library_->check(status, label(), what);  // a label is not made for every reading
  }
  [[noreturn]] void refuse(const char* why) const { throw DeviceError(DeviceFault::kUnsupported, label(), why); }

  AmdSmiPowerCap caps(const char* what) const {
    AmdSmiPowerCap caps{};
    check(call_.power_cap(processor_, 0, &caps), what);
    return caps;
  }

  Megahertz current_clock(std::uint32_t clock, const char* what) const {
    AmdSmiFrequencies list{};
    check(call_.frequencies(processor_, clock, &list), what);
    if (list.current >= std::min<std::size_t>(list.count, std::size(list.hertz))) {
      throw DeviceError(DeviceFault::kDriver, label(), fmt::format("{}: the driver names none", what));
    }
    return Megahertz(static_cast<double>(list.hertz[list.current]) / 1e6);
  }

  // Returns no clocks if the device cannot list them.
  std::vector<Megahertz> clocks(std::uint32_t clock, const char* what) const {
    AmdSmiFrequencies list{};
    const AmdSmiStatus status = call_.frequencies(processor_, clock, &list);
    if (status != kAmdSmiSuccess && amd_fault_of(status) == DeviceFault::kUnsupported) return {};
    check(status, what);
    std::vector<Megahertz> clocks;
    for (std::size_t i = 0; i < std::min<std::size_t>(list.count, std::size(list.hertz)); ++i) {
      clocks.emplace_back(static_cast<double>(list.hertz[i]) / 1e6);
    }
    std::sort(clocks.begin(), clocks.end(), [](Megahertz a, Megahertz b) { return a > b; });
    return clocks;
  }

  void lock(std::uint32_t clock, ClockRange range, const char* what) const {
    const double high = whole(range.maximum.value(), 1e6, what);
    const double low = whole(range.minimum.value(), high + 1.0, what);
    check(call_.set_clock_range(processor_, static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high), clock),
          what);
  }

  // Leaving the performance to the driver takes back both ranges: the interface has no narrower way.
  void leave_clocks_to_driver(const char* what) const {
    check(call_.set_performance(processor_, kAmdSmiPerformanceAuto), what);
  }

  std::shared_ptr<const AmdSmi> library_;
  const AmdSmiCalls& call_;
  AmdSmiProcessor processor_;
  GpuIdentity identity_;
};

// Both lists are asked for their length first.
template <class Handle, class List>
std::vector<Handle> handles_of(const AmdSmi& smi, const char* what, List list) {
  std::uint32_t count = 0;
  smi.check(list(&count, nullptr), kAmdSmiVendor, what);
  std::vector<Handle> handles(count);
  if (count > 0) smi.check(list(&count, handles.data()), kAmdSmiVendor, what);
  handles.resize(std::min<std::size_t>(count, handles.size()));
  return handles;
}

// The GPUs of all sockets.
std::vector<AmdSmiProcessor> gpus_of(const AmdSmi& smi) {
  std::vector<AmdSmiProcessor> gpus;
  for (AmdSmiSocket socket : handles_of<AmdSmiSocket>(smi, "listing the sockets", smi.call.sockets)) {
    const auto processors = handles_of<AmdSmiProcessor>(
        smi, "listing the devices",
        [&](std::uint32_t* count, AmdSmiProcessor* list) { return smi.call.processors(socket, count, list); });
    for (AmdSmiProcessor processor : processors) {
      std::uint32_t type = kAmdSmiProcessorGpu;
      const AmdSmiStatus status = smi.call.processor_type(processor, &type);
      if (status != kAmdSmiSuccess || type == kAmdSmiProcessorGpu) gpus.push_back(processor);
    }
  }
  return gpus;
}

// Writes a place as "00000000:C1:00.0". `place` holds the function, the device, the bus and the domain in 3, 5, 8 and
// the other bits.
std::string bus_id(std::uint64_t place) {
  return fmt::format("{:08X}:{:02X}:{:02X}.{:X}", place >> 16, (place >> 8) & 0xff, (place >> 3) & 0x1f, place & 0x7);
}

std::shared_ptr<GpuDevice> open_device(const std::shared_ptr<const AmdSmi>& smi, AmdSmiProcessor processor,
                                       std::size_t index) {
  const AmdSmiCalls& call = smi->call;
  alignas(std::uint64_t) std::array<char, 8192> asic{};  // larger than any version's structure
  smi->check(call.asic(processor, asic.data()), gpu_label(index), "opening the device");
  std::string name(asic.data(), ::strnlen(asic.data(), 64));
  GpuIdentity identity{index, {}, name.empty() ? "AMD GPU" : std::move(name), {}};
  std::uint64_t place = 0;
  if (call.place(processor, &place) == kAmdSmiSuccess) identity.pci_bus_id = bus_id(place);
  std::array<char, 256> uuid{};
  auto length = static_cast<std::uint32_t>(uuid.size() - 1);
  const bool known = call.uuid(processor, &length, uuid.data()) == kAmdSmiSuccess && uuid[0] != '\0';
  identity.uuid = known ? uuid.data() : "PCI-" + identity.pci_bus_id;  // a board without a UUID is known by its place
  return std::make_shared<AmdSmiGpu>(smi, processor, std::move(identity));
}

}  // namespace

CountedBoards load_amd_smi(const std::vector<std::string>& libraries) {
  const auto smi = std::make_shared<const AmdSmi>(libraries);
  const AmdSmiVersion& version = smi->version();
  std::vector<AmdSmiProcessor> gpus = gpus_of(*smi);
  CountedBoards boards;
  boards.version = fmt::format("{}.{}.{}", version.year, version.major, version.minor);
  boards.count = gpus.size();
  boards.open = [smi, gpus = std::move(gpus)](std::size_t board, std::size_t index) {
    return open_device(smi, gpus[board], index);
  };
  return boards;
}

}  // namespace flyball
