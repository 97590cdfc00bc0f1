// Computes from a plan what a pipeline's whole run takes, beside the same run at all-maximum clocks.
//
// Every iteration is as long as the plan's point says, and a stage that does not compute draws its blocking power. All
// functions are pure. Cost: O(operations).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "forecast/bill.h"
#include "pipeline/computation_dag.h"
#include "plan/frontier.h"

namespace flyball {

// The run to compute a bill for.
struct PlannedRun {
  double iterations = 1.0;
  std::int64_t gpus = 1;             // of a stage, all of which do the same: pipelines times tensor-parallel ranks
  std::size_t point = 0;             // of the frontier; the fastest is 0
  std::optional<double> slower_pct;  // in place of `point`: take the point of least energy that is at most so many per
                                     // cent slower than all-maximum clocks
};

struct PlanBill {
  EnergySheet sheet;      // without a name
  std::size_t point = 0;  // the point of the frontier that the sheet is for
};

// Returns the bill. `blocking` holds one power per stage, and the frontier's plans must be plans of `dag`. Throws
// UsageError where the frontier is empty or has no such point.
[[nodiscard]] PlanBill bill_of_plan(const ComputationDag& dag, const Frontier& frontier,
                                    const std::vector<Watts>& blocking, const PlannedRun& run);

}  // namespace flyball
