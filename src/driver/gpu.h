// A GPU as a meter and a throttle, whoever made it. The vendors' drivers (gpu_vendors.h) implement this interface;
// nothing above them sees a vendor's unit or name.
//
// Every call may throw DeviceError. Calls are as slow as the vendor's: reads take microseconds, writes about 10 ms, and
// a broken driver can block for ever, so that a caller who must not wait calls from a thread of its own. A device may
// be used from several threads at once (CountedBoards::open promises it).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "driver/device_error.h"

namespace flyball {

struct GpuIdentity {
  std::size_t index = 0;   // from 0, vendor after vendor (gpu_vendors.h)
  std::string uuid;        // stable over restarts; empty until its driver has answered (absent_gpu.h)
  std::string name;        // "NVIDIA A100-SXM4-80GB"
  std::string pci_bus_id;  // "00000000:3B:00.0"; empty where the driver does not say
};

[[nodiscard]] std::string gpu_label(std::size_t index);  // "GPU:0", as in traces

struct ClockRange {
  Megahertz minimum;
  Megahertz maximum;
};

struct PowerLimitRange {
  Watts minimum;
  Watts maximum;
  Watts standard;  // after a reset
};

struct TimedPower {
  Nanoseconds time = 0;  // CLOCK_MONOTONIC
  Watts power;
};

// Returns what went into a first-order low pass that gave `samples`: mean powers between each two of them. A time
// constant that is wrong moves energy by about as much time, and loses none.
[[nodiscard]] std::vector<TimedPower> without_low_pass(const std::vector<TimedPower>& samples, Seconds time_constant);

// Why the clock is below what was asked. A set of bits.
enum class ThrottleReason : std::uint32_t {
  kNone = 0,
  kIdle = 1u << 0,
  kApplicationClocks = 1u << 1,  // the clock that software locked or asked for
  kPowerLimit = 1u << 2,
  kThermal = 1u << 3,
  kHardwareSlowdown = 1u << 4,  // power brake or hardware thermal protection
  kOther = 1u << 5,
};
[[nodiscard]] constexpr ThrottleReason operator|(ThrottleReason a, ThrottleReason b) {
  return static_cast<ThrottleReason>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
[[nodiscard]] constexpr bool has(ThrottleReason set, ThrottleReason one) {
  return (static_cast<std::uint32_t>(set) & static_cast<std::uint32_t>(one)) != 0;
}
[[nodiscard]] std::vector<std::string> names_of(ThrottleReason set);

// Whether this process may lock a device's clocks, found without changing anything.
struct ThrottleAccess {
  bool allowed = false;
  DeviceFault why = DeviceFault::kPermission;  // where not allowed: kPermission or kUnsupported
  std::string reason;                          // in words, either way
  std::string mend;                            // what the user can do; empty where allowed
};

// Tells whether this process has the privilege that GPU drivers ask for: CAP_SYS_ADMIN in the machine's user namespace,
// not only in a container's.
[[nodiscard]] ThrottleAccess privilege_of_this_process();

// Says what to do about a fault of a GPU; empty where nobody knows. `no_driver` is the vendor's advice where there is
// no driver, `reset` its command that resets a GPU.
[[nodiscard]] std::string mend_of(DeviceFault fault, const char* no_driver, const char* reset);

class GpuDevice {
 public:
  virtual ~GpuDevice() = default;
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  [[nodiscard]] virtual const GpuIdentity& identity() const = 0;
  [[nodiscard]] std::string label() const { return gpu_label(identity().index); }

  // The meter.
  // The driver's latest reading, averaged as its sensor does: over 10 ms to 1 s, depending on the board.
  [[nodiscard]] virtual Watts power() const = 0;
  // Energy since the driver was loaded; nothing where the device has no counter (before Volta).
  [[nodiscard]] virtual std::optional<Joules> total_energy() const = 0;
  // The driver's own record of the board's power after that time (CLOCK_MONOTONIC), oldest first: mean powers, each
  // from the time of the one before until its own. They tell how power went, the counter how much it was. Empty where
  // the driver keeps none.
  [[nodiscard]] virtual std::vector<TimedPower> power_samples([[maybe_unused]] Nanoseconds after) const { return {}; }
  [[nodiscard]] virtual Megahertz sm_clock() const = 0;
  [[nodiscard]] virtual Megahertz memory_clock() const = 0;
  [[nodiscard]] virtual double temperature_celsius() const = 0;
  [[nodiscard]] virtual ThrottleReason throttle_reasons() const = 0;
  [[nodiscard]] virtual double utilisation() const = 0;  // share of the driver's last period with a kernel, 0 to 1

  // What can be set; highest first.
  [[nodiscard]] virtual std::vector<Megahertz> memory_clocks() const = 0;
  [[nodiscard]] virtual std::vector<Megahertz> sm_clocks() const = 0;  // at the highest memory clock
  [[nodiscard]] virtual Watts power_limit() const = 0;
  [[nodiscard]] virtual PowerLimitRange power_limits() const = 0;
  [[nodiscard]] virtual bool persistence() const = 0;

  // The processes that compute on the GPU, of all users, by the numbers that the driver gives. None where it does not
  // tell.
  [[nodiscard]] virtual std::vector<pid_t> compute_processes() const { return {}; }

  // Whether the GPU is divided into instances (NVIDIA's MIG). What is measured is then their sum, and what is set holds
  // for all of them.
  [[nodiscard]] virtual bool divided() const { return false; }
  // Throws DeviceError kUnsupported where the GPU is divided. Callers that set something for one user ask this first;
  // what brings settings back does not.
  void refuse_divided() const;

  // The throttle. All need privilege (DeviceFault::kPermission) and last until reset or until the driver is unloaded,
  // beyond the end of this process: callers that may die hold a lease of the agent instead.
  virtual void lock_sm_clocks(ClockRange range) = 0;
  virtual void reset_sm_clocks() = 0;
  virtual void lock_memory_clocks(ClockRange range) = 0;
  virtual void reset_memory_clocks() = 0;
  virtual void set_power_limit(Watts limit) = 0;
  virtual void set_persistence(bool enabled) = 0;

  // Drivers cannot be asked, so this judges by what the device lists and by the process's privilege.
  [[nodiscard]] virtual ThrottleAccess throttle_access() const;

 protected:
  GpuDevice() = default;

  // Rounds `value` to the whole number that a vendor's call takes. Throws DeviceError kInvalid where that is not in [0,
  // too_large).
  [[nodiscard]] double whole(double value, double too_large, const char* what) const;
};

// A device that its driver counts but did not open.
struct RefusedGpu {
  std::size_t index = 0;
  DeviceError why;
  // Asks the driver once more. It throws DeviceError, may hang for ever, and owns what it uses, the library included.
  std::function<std::shared_ptr<GpuDevice>()> open;
};

}  // namespace flyball
