// Makes devices the sampler's meters.
#pragma once

#include <memory>
#include <vector>

#include "driver/cpu.h"
#include "driver/gpu.h"
#include "measure/sampler.h"

namespace flyball {

// The meter reads the energy counter every time. Power costs a second call, and drivers renew it no more often; it is
// read when the counter has changed, but at most every 10 ms, else every 100 ms, or every 20 ms once the counter has
// stood still for a second. Without a counter it is read every time. Where the counter takes long to read (0.2 ms), the
// driver's record of power is read with it (MeterReading::shape). The meter keeps the device open.
[[nodiscard]] Meter meter_of(std::shared_ptr<const GpuDevice> gpu);

// Makes meters of the package and, where it can be measured, its memory ("DRAM:0"). Throws what a first reading throws,
// so that the caller learns of a counter that this process may not read.
[[nodiscard]] std::vector<Meter> meters_of(const std::shared_ptr<const CpuDevice>& cpu);

}  // namespace flyball
