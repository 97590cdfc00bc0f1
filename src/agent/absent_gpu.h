// A GPU that its driver counts and would not open when the agent started: it keeps its number, so that the GPUs after
// it keep theirs, and is the GPU itself from the moment when its driver opens it after all.
#pragma once

#include <memory>
#include <vector>

#include "driver/gpu.h"

namespace flyball {

// Returns `gpus` and a stand-in for each of `refused`, in the order of their numbers. Each stand-in asks its driver
// again, one question at a time, in a thread of its own that may hang. Until one is answered, its calls throw
// DeviceError kLost at once and its UUID is empty; then they are the device's. Thread-safe; references to a stand-in's
// identity stay valid.
[[nodiscard]] std::vector<std::shared_ptr<GpuDevice>> with_absent_gpus(std::vector<std::shared_ptr<GpuDevice>> gpus,
                                                                       const std::vector<RefusedGpu>& refused);

}  // namespace flyball
