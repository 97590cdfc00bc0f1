// A plan that executed steps adjust (plan/envpipe.h), as far as they have: what a restart of the server must not
// forget.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace flyball {

struct AdjustedPlan {
  std::uint64_t measurements = 0;              // fingerprint of what was planned from; it fits no others
  bool finished = false;                       // no further step is wanted
  std::vector<std::vector<Megahertz>> clocks;  // by stage, of its computations in their order
};

}  // namespace flyball
