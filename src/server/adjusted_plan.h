// The present state of a plan that executed steps adjust (plan/envpipe.h). It is stored, since a restart of the server
// must not lose it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace flyball {

struct AdjustedPlan {
  std::uint64_t measurements = 0;  // fingerprint of the measurements from which it was planned; it fits no others
  bool finished = false;           // whether no further step is wanted
  std::vector<std::vector<Megahertz>> clocks;  // by stage, for its computations in their order
};

}  // namespace flyball
