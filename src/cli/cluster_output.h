// Output that several commands of flyball cluster print in the same form.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cluster/simulator.h"

namespace flyball {

// Returns the fields that docs/manual/cluster.md lists, without wall_seconds.
[[nodiscard]] nlohmann::ordered_json result_json(const SimulationResult& result);

}  // namespace flyball
