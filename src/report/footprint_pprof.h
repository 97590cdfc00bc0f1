// Writes a footprint as a profile for pprof and speedscope, which draw it as an energy flame graph.
//
// The format is pprof's public profile.proto, compressed by gzip. Each row of the footprint is a sample with two
// values: energy in nanojoules and busy time in nanoseconds. The stack of a sample is the device and the parts of the
// row's name; pass and device are labels.
#pragma once

#include <string>

#include "account/footprint.h"

namespace flyball {

[[nodiscard]] std::string footprint_pprof(const Footprint& footprint);

}  // namespace flyball
