// A processor package as a meter. It is no throttle, since Flyball sets no processor clocks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "driver/device_error.h"

namespace flyball {

// Every call may throw DeviceError; kPermission is usual, since kernels have let only root read RAPL since 2020.
// Thread-safe.
class CpuDevice {
 public:
  virtual ~CpuDevice() = default;
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  [[nodiscard]] virtual std::size_t index() const = 0;        // the package
  [[nodiscard]] std::string label() const;                    // "CPU:0", as in traces
  [[nodiscard]] virtual const std::string& name() const = 0;  // "package-0"

  // Both functions return the energy since this object was made. A wrap-around of the hardware's counter is noticed if
  // the call comes at least once per wrap (about a minute at full power on some servers).
  [[nodiscard]] virtual Joules package_energy() const = 0;
  [[nodiscard]] virtual std::optional<Joules> dram_energy() const = 0;  // nothing where there is no DRAM domain

 protected:
  CpuDevice() = default;
};

}  // namespace flyball
