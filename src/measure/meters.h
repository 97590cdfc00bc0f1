// Devices as the sampler's meters.
#pragma once

#include <memory>
#include <vector>

#include "driver/cpu.h"
#include "driver/gpu.h"
#include "measure/sampler.h"

namespace flyball {

// Reads the energy counter every time. The power, which drivers renew as seldom and which costs a second call, is read
// where the counter has changed, at most every 10 ms, else every 100 ms, and every 20 ms of a counter that has stood
// for a second; without a counter, every time. Keeps the device open.
[[nodiscard]] Meter meter_of(std::shared_ptr<const GpuDevice> gpu);

// The package and, where there is one, its memory ("DRAM:0"). Throws what a first reading throws, so that a counter
// that this process may not read is told from one that it may.
[[nodiscard]] std::vector<Meter> meters_of(const std::shared_ptr<const CpuDevice>& cpu);

}  // namespace flyball
