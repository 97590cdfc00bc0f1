// From plan to bill: what a planned pipeline's whole run takes, against the same run at all-maximum clocks.
//
// Every iteration is as long as the plan's point says; what a stage does not compute it waits, at its blocking power.
// Pure, thread-safe; cost O(operations).
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

struct PlannedRun {
  double iterations = 1.0;
  std::int64_t gpus = 1;             // of a stage, which all do the same: pipelines times GPUs that share a computation
  std::size_t point = 0;             // of the frontier, the fastest first
  std::optional<double> slower_pct;  // in place of `point`: what takes least energy and at most so much longer than at
                                     // all-maximum clocks
};

struct PlanBill {
  EnergySheet sheet;      // without a name
  std::size_t point = 0;  // that it is of
};

// `blocking` holds one power per stage, and the frontier's plans are of `dag`. Throws UsageError where the frontier is
// empty or has no such point.
[[nodiscard]] PlanBill bill_of_plan(const ComputationDag& dag, const Frontier& frontier,
                                    const std::vector<Watts>& blocking, const PlannedRun& run);

}  // namespace flyball
