// A processor package as a meter. There is no throttle: Flyball sets no CPU clocks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "driver/device_error.h"

namespace flyball {

// Every call may throw DeviceError (kPermission: since 2020 kernels let only root read RAPL). Safe to call from several
// threads.
class CpuDevice {
 public:
  virtual ~CpuDevice() = default;
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  [[nodiscard]] virtual std::size_t index() const = 0;        // the package
  [[nodiscard]] std::string label() const;                    // "CPU:0", as in traces
  [[nodiscard]] virtual const std::string& name() const = 0;  // "package-0"

  // Energy since this object was made; the hardware counter's wrap-around is counted as long as one of the two is
  // called at least once per wrap (about a minute at full power on some servers).
  [[nodiscard]] virtual Joules package_energy() const = 0;
  [[nodiscard]] virtual std::optional<Joules> dram_energy() const = 0;  // nothing where there is no DRAM domain

 protected:
  CpuDevice() = default;
};

}  // namespace flyball
