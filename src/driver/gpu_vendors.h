// The one table of the vendors whose GPUs we know. All code that counts, opens or looks for GPUs goes through it;
// nothing above names a vendor, or asks one vendor and not the others.
//
// To add a vendor, change four files: its driver (like nvml.cpp), its binary interface (like nvml_abi.h), two lines
// here, and docs/manual/devices.md. A test makes sure of this for AMD; NVIDIA also has simulated boards.
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
  // Opens one of the boards 0 to count - 1 as GPU:<index>. It throws DeviceError, may hang for ever, and owns what it
  // uses; the library stays loaded until the last board is gone. Boards may be used from several threads at once.
  std::function<std::shared_ptr<GpuDevice>(std::size_t board, std::size_t index)> open;
};

struct GpuVendor {
  std::string name;                    // "nvml", as users see it
  std::vector<std::string> libraries;  // names or paths that the dynamic loader tries in turn
  // Loads the library and counts its boards. Throws DeviceError, kNoDriver where the library or the kernel's driver is
  // not there; may hang for ever.
  CountedBoards (*load)(const std::vector<std::string>& libraries);
};

[[nodiscard]] CountedBoards load_nvml(const std::vector<std::string>& libraries);     // NVIDIA
[[nodiscard]] CountedBoards load_amd_smi(const std::vector<std::string>& libraries);  // AMD, from ROCm 6.0 on

[[nodiscard]] inline std::vector<GpuVendor> gpu_vendors() {
  return {
      {"nvml", {"libnvidia-ml.so.1"}, load_nvml},
      {"amd-smi", {"libamd_smi.so", "libamd_smi.so.26", "libamd_smi.so.25", "libamd_smi.so.24"}, load_amd_smi},
  };
}

struct GpuDriver {
  std::string vendor;   // its name in the table
  std::string version;  // may be empty
};

struct OpenedGpus {
  std::vector<GpuDriver> drivers;  // that have answered
  std::vector<std::shared_ptr<GpuDevice>> gpus;
  std::vector<RefusedGpu> refused;
  std::vector<DeviceError> unavailable;  // drivers (kNoDriver, kTimeout, ...) and refused boards

  // Whether somebody misses what `error`, one of `unavailable`, is about: where there are GPUs of one vendor, nobody
  // misses another vendor's driver.
  [[nodiscard]] bool misses(const DeviceError& error) const {
    return error.fault() != DeviceFault::kNoDriver || gpus.empty();
  }
};

// Opens all boards of all vendors; that there are none is no error. Each library has `patience` to answer, and counts
// as one without boards if it does not. A library's boards are opened all at the same time, each within
// opening_patience(), so that one that hangs does not hold up the others.
[[nodiscard]] OpenedGpus open_gpus(const std::vector<GpuVendor>& vendors, Seconds patience = opening_patience());

// Opens the GPU with the UUID of `wanted`, else the one at its PCI address; where neither is given, the one with its
// number, and then no other board. Throws DeviceError where there is no such GPU, or where a library does not answer
// that might have it, or whose boards come first in the numbering.
[[nodiscard]] std::shared_ptr<GpuDevice> find_gpu(const GpuIdentity& wanted,
                                                  const std::vector<GpuVendor>& vendors = gpu_vendors());

}  // namespace flyball
