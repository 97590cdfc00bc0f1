// Energy of Intel and AMD processors, through the kernel's powercap files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "driver/cpu.h"

namespace flyball {

inline constexpr const char* kPowercapRoot = "/sys/class/powercap";

// Returns the root that FLYBALL_POWERCAP_ROOT names (a simulated tree), else kPowercapRoot.
[[nodiscard]] std::string powercap_root();

// Makes one device per package of the tree (intel-rapl:N), its DRAM domain (intel-rapl:N:M, name "dram") included. A
// file that only root may read fails only when its energy is asked for, so that such a tree is still listed. Throws
// DeviceError, kNoDriver where the tree has no package.
[[nodiscard]] std::vector<std::shared_ptr<CpuDevice>> open_rapl(const std::string& root = powercap_root());

}  // namespace flyball
