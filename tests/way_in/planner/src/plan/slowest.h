// The slowest plan that is worth having.
#pragma once

#include <memory>

#include "plan/planner.h"

namespace flyball {

// `slowest`: every computation at its slowest Pareto-optimal option. One point.
[[nodiscard]] std::unique_ptr<Planner> make_slowest();

}  // namespace flyball
