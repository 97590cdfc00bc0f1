#include "driver/cpu.h"

#include <fmt/format.h>

namespace flyball {

std::string CpuDevice::label() const { return fmt::format("CPU:{}", index()); }

}  // namespace flyball
