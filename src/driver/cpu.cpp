// The one call of CpuDevice that does not depend on the driver.
#include "driver/cpu.h"

#include <fmt/format.h>

namespace flyball {

std::string CpuDevice::label() const { return fmt::format("CPU:{}", index()); }

}  // namespace flyball
