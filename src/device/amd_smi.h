// AMD GPUs through libamd_smi (ROCm 6.0 and later), loaded at run time. Written from the vendor's published interface and
// tested against a stand-in only: no AMD board was at hand.
#pragma once

#include <cstddef>
#include <string>

#include "device/gpu.h"
#include "device/patience.h"

namespace flyball {

// As open_nvml; `library` empty: the vendor's usual names, one after the other. Devices are numbered from `first_index`,
// so that they do not share names with another vendor's. Power comes in whole watts from this library. Resetting one
// clock resets both: the interface leaves no other way.
[[nodiscard]] GpuLibrary open_amd_smi(const std::string& library = {}, std::size_t first_index = 0,
                                      Seconds patience = opening_patience());

}  // namespace flyball
