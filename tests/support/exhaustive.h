// Every discrete plan of a tiny pipeline.
#pragma once

#include <functional>

#include "pipeline/timeline.h"
#include "plan/planner.h"

namespace flyball::testing {

// Calls `see` with the makespan and net energy of every combination of measured options.
void for_each_plan(const PlanProblem& problem, const std::function<void(Nanoseconds, double)>& see);

// Least net energy of any plan within `deadline`; infinite when there is none.
[[nodiscard]] double discrete_optimum(const PlanProblem& problem, Nanoseconds deadline);

}  // namespace flyball::testing
