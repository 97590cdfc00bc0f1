// AMD GPUs through librocm_smi64 or libamd_smi, loaded at run time.
#pragma once

#include <string>

#include "device/gpu.h"

namespace flyball {

// As open_nvml. `library` empty: the first that is there of the two.
[[nodiscard]] GpuLibrary open_rocm_smi(const std::string& library = {});

}  // namespace flyball
