// What the commands of flyball cluster print alike.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cluster/simulator.h"

namespace flyball {

// The agreed fields (docs/manual/cluster.md), without wall_seconds.
[[nodiscard]] nlohmann::ordered_json result_json(const SimulationResult& result);

}  // namespace flyball
