// Intel and AMD processor energy through the kernel's powercap files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "driver/cpu.h"

namespace flyball {

inline constexpr const char* kPowercapRoot = "/sys/class/powercap";

// The root that FLYBALL_POWERCAP_ROOT names (a simulated tree), else kPowercapRoot.
[[nodiscard]] std::string powercap_root();

// One device per package of the tree (intel-rapl:N), its DRAM domain (intel-rapl:N:M, name "dram") included. Reads the
// energy only when asked, so a tree whose files only root may read is still listed. Throws DeviceError, kNoDriver when
// the tree has no package.
[[nodiscard]] std::vector<std::shared_ptr<CpuDevice>> open_rapl(const std::string& root = powercap_root());

}  // namespace flyball
