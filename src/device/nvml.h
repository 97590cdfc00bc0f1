// NVIDIA GPUs through the vendor's library, loaded at run time.
#pragma once

#include <string>

#include "device/gpu.h"
#include "device/patience.h"

namespace flyball {

// Loads `library` (a file name that the dynamic loader looks up, or a path), initialises it and lists its devices. The
// library stays loaded until the last device is gone. Throws DeviceError: kNoDriver when the library or the kernel driver
// is not there, kTimeout when it does not answer within `patience`; a device that hangs for opening_patience()
// (patience.h) is among the refused. Devices may be used from several threads at once.
[[nodiscard]] GpuLibrary open_nvml(const std::string& library = "libnvidia-ml.so.1",
                                   Seconds patience = opening_patience());

}  // namespace flyball
