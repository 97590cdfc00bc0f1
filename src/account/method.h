// The methods of attribution by their names: how operations are given their energy.
#pragma once

#include <cstdint>

#include "base/names.h"

namespace flyball {

enum class AccountMethod : std::uint8_t {
  kAuto,     // chosen for each device
  kSweep,    // operations that run at the same time share the power of the reading
  kRegress,  // mean powers fitted to all readings
  kBoth,     // the sweep, corrected by what the fitted powers say that it takes from one operation and gives to another
};
template <>
inline constexpr auto kNamesOf<AccountMethod> = name_list("auto", "sweep", "regress", "both");

}  // namespace flyball
