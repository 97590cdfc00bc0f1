// Stand-ins for GPUs that their driver counted but would not open when the agent started. A stand-in keeps the GPU's
// number, so that the GPUs after it keep theirs. Once the driver opens the GPU after all, the stand-in passes all calls
// on to it.
#pragma once

#include <memory>
#include <vector>

#include "driver/gpu.h"

namespace flyball {

// Returns `gpus` and a stand-in for each of `refused`, in the order of their numbers. Each stand-in asks its driver
// again and again to open the GPU, in a thread of its own that may hang. Until that succeeds, its calls throw
// DeviceError kLost at once and its UUID is empty. Thread-safe; references to a stand-in's identity stay valid.
[[nodiscard]] std::vector<std::shared_ptr<GpuDevice>> with_absent_gpus(std::vector<std::shared_ptr<GpuDevice>> gpus,
                                                                       const std::vector<RefusedGpu>& refused);

}  // namespace flyball
