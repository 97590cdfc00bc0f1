// A plan that executed steps adjust (plan/envpipe.h), in its present state, which a restart of the server must not
// forget.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace flyball {

struct AdjustedPlan {
  std::uint64_t measurements = 0;  // fingerprint of the measurements that it was planned from; it fits no others
  bool finished = false;           // no further step is wanted
  std::vector<std::vector<Megahertz>> clocks;  // by stage, for its computations in their order
};

}  // namespace flyball
