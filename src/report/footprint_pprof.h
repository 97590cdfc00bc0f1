// Writes a footprint as a profile for pprof, which draws it as an energy flame graph.
//
// The format is pprof's public profile.proto, compressed by gzip. The stack of a sample is the device and the parts of
// a row's name; pass and device are labels. Values are whole numbers, and of units pprof knows those of memory, of time
// and Google's compute units (internal/measurement/measurement.go), so that it prints any other unit as it stands and
// never scales it. Each sample therefore has its energy four times, in nJ, uJ, mJ and J, and the profile says which of
// them is to be shown first: the coarsest in which the whole footprint has five digits. In each unit the samples add up
// to the whole. All profiles have the same types, so that pprof compares any two of them. Busy time is in nanoseconds.
#pragma once

#include <string>

#include "account/footprint.h"

namespace flyball {

[[nodiscard]] std::string footprint_pprof(const Footprint& footprint);

}  // namespace flyball
