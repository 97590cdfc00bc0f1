// What AMD's two libraries have in common: the ranges of clocks, how they are reset, what a board cannot say. The drivers
// (amd_smi.h, rocm_smi.h) fill in the calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/amd_abi.h"
#include "device/gpu.h"

namespace flyball {

// What to do about a fault; `no_driver` where there is none.
[[nodiscard]] std::string amd_mend(DeviceFault fault, const char* no_driver);

[[nodiscard]] Watts from_microwatts(std::uint64_t value);

// "00000000:C1:00.0". `place` holds the bus, the device and the function in 8, 5 and 3 bits; what is above is ignored.
[[nodiscard]] std::string amd_bus_id(std::uint64_t domain, std::uint64_t place);

// The uuid of a board that tells none: its place in the machine.
[[nodiscard]] std::string amd_uuid_of_place(const std::string& bus_id);

// Resetting one clock resets both: the interface leaves no other way.
class AmdGpu : public GpuDevice {
 public:
  const GpuIdentity& identity() const final { return identity_; }

  Megahertz sm_clock() const final;
  Megahertz memory_clock() const final;
  std::vector<Megahertz> sm_clocks() const final;
  std::vector<Megahertz> memory_clocks() const final;
  ThrottleReason throttle_reasons() const final;   // kUnsupported
  bool persistence() const final { return true; }  // the kernel keeps AMD's devices up at all times
  void set_persistence(bool enabled) final;

  void lock_sm_clocks(ClockRange range) final;
  void reset_sm_clocks() final;
  void lock_memory_clocks(ClockRange range) final;
  void reset_memory_clocks() final;
  void set_power_limit(Watts limit) final;
  ThrottleAccess throttle_access() const final;

 protected:
  struct ClockList {
    std::vector<Megahertz> clocks;  // as the vendor orders them
    std::size_t current = 0;
  };

  explicit AmdGpu(GpuIdentity identity) : identity_(std::move(identity)) {}

  [[nodiscard]] static ClockList list_of(const std::uint64_t* hertz, std::size_t count, std::size_t current);

  // All throw DeviceError, which says `what` was tried.
  [[nodiscard]] virtual ClockList read_clocks(AmdClock clock, const char* what) const = 0;
  virtual void set_clock_range(AmdClock clock, std::uint64_t low_mhz, std::uint64_t high_mhz, const char* what) = 0;
  virtual void leave_clocks_to_driver(const char* what) = 0;
  virtual void set_power_cap(std::uint64_t microwatts, const char* what) = 0;
  [[nodiscard]] virtual bool can_set_clocks() const = 0;  // whether the library has the calls

 private:
  Megahertz current_clock(AmdClock clock, const char* what) const;
  std::vector<Megahertz> clocks(AmdClock clock, const char* what) const;
  void lock(AmdClock clock, ClockRange range, const char* what);
  [[noreturn]] void refuse_value(double value, const char* what) const;

  GpuIdentity identity_;
};

}  // namespace flyball
