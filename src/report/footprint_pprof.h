// A footprint as a profile for pprof and speedscope: an energy flame graph.
//
// The format is the public profile.proto of pprof, gzip. Every row is a sample with two values, energy in microjoules
// and busy time in nanoseconds; its stack is the device and the parts of its name; pass and device are labels.
#pragma once

#include <string>

#include "account/footprint.h"

namespace flyball {

[[nodiscard]] std::string footprint_pprof(const Footprint& footprint);

}  // namespace flyball
