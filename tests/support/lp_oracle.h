// The relaxed problem as a linear programme, solved by GLPK: an oracle that shares nothing with the flow solver.
#pragma once

#include <span>

#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "profile/cost_curve.h"

namespace flyball::testing {

// Least net energy (J) of the relaxation at iteration time `time`. Fails the test when GLPK finds no optimum.
[[nodiscard]] double lp_bound(const ComputationDag& dag, std::span<const CostCurve> curves, Nanoseconds time);

}  // namespace flyball::testing
