// Devices as the sampler's meters.
#pragma once

#include <memory>
#include <vector>

#include "device/cpu.h"
#include "device/gpu.h"
#include "device/sampler.h"

namespace flyball {

// Reads the energy counter every time and the power, which drivers renew seldom and which costs a second call, when the
// counter has changed or after kPowerReadingPeriod; without a counter, power every time. Keeps the device open.
inline constexpr Seconds kPowerReadingPeriod{0.020};
[[nodiscard]] Meter meter_of(std::shared_ptr<const GpuDevice> gpu);

// The package and, where there is one, its memory ("DRAM:0"). Throws what a first reading throws, so that a counter
// that this process may not read is told from one that it may.
[[nodiscard]] std::vector<Meter> meters_of(const std::shared_ptr<const CpuDevice>& cpu);

}  // namespace flyball
