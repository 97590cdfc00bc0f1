// The one table of the vendors whose GPUs we know. Whoever counts, opens or looks for GPUs does it here; nothing above
// names a vendor, or asks one and leaves out the others.
//
// One more vendor is four files: its driver (as nvml.cpp), what its header says (as nvml_abi.h), two lines here, and
// docs/manual/devices.md. A test holds AMD's to that; NVIDIA's is the one that boards are simulated for.
//
// GPUs are numbered from 0, vendor after vendor in the order of the table, each vendor's as its library counts them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "driver/gpu.h"
#include "driver/patience.h"

namespace flyball {

// A library that was loaded and has counted its boards.
struct CountedBoards {
  std::string version;  // of the driver; may be empty
  std::size_t count = 0;
  // Opens board 0 to count - 1 as GPU:<index>. Throws DeviceError and may hang for ever; owns what it uses, the library
  // included, which stays loaded until the last board is gone. Boards may be used from several threads at once.
  std::function<std::shared_ptr<GpuDevice>(std::size_t board, std::size_t index)> open;
};

struct GpuVendor {
  std::string name;                    // "nvml", as users see it
  std::vector<std::string> libraries;  // what the dynamic loader is asked for, names or paths, until one is there
  // Throws DeviceError, kNoDriver where the library or the kernel's driver is not there, and may hang for ever.
  CountedBoards (*load)(const std::vector<std::string>& libraries);
};

[[nodiscard]] CountedBoards load_nvml(const std::vector<std::string>& libraries);     // NVIDIA
[[nodiscard]] CountedBoards load_amd_smi(const std::vector<std::string>& libraries);  // AMD, from ROCm 6.0 on

[[nodiscard]] inline std::vector<GpuVendor> gpu_vendors() {
  return {{"nvml", {"libnvidia-ml.so.1"}, load_nvml},
          {"amd-smi", {"libamd_smi.so", "libamd_smi.so.26", "libamd_smi.so.25", "libamd_smi.so.24"}, load_amd_smi}};
}

struct GpuDriver {
  std::string vendor;   // its name in the table
  std::string version;  // may be empty
};

struct OpenedGpus {
  std::vector<GpuDriver> drivers;  // that have answered
  std::vector<std::shared_ptr<GpuDevice>> gpus;
  std::vector<RefusedGpu> refused;
  std::vector<DeviceError> unavailable;  // drivers (kNoDriver, kTimeout, ...) and the refused
};

// All boards of all vendors; none is no error. `patience` is with each library: one that does not answer counts as one
// without boards. A library's boards are opened all at once, each within opening_patience(): one that hangs keeps none
// of the others.
[[nodiscard]] OpenedGpus open_gpus(const std::vector<GpuVendor>& vendors, Seconds patience = opening_patience());

// The GPU with the UUID of `wanted`, else the one at its PCI address; where neither is given, the one of that number,
// and then no other board is opened. Throws DeviceError where there is none, and where a library that might have it, or
// that counts before it, does not answer.
[[nodiscard]] std::shared_ptr<GpuDevice> find_gpu(const GpuIdentity& wanted,
                                                  const std::vector<GpuVendor>& vendors = gpu_vendors());

}  // namespace flyball
