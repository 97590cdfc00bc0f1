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
#include "forecast/run_description.h"
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
  std::optional<Watts> power_cap;    // likewise: take the fastest point at which a GPU draws no more on average
};

struct PlanBill {
  EnergySheet sheet;      // without a name
  std::size_t point = 0;  // the point of the frontier that the sheet is for
};

// Returns the bill. `blocking` holds one power per stage, and the frontier's plans must be plans of `dag`. Throws
// UsageError where the frontier is empty or has no such point, or none below the power cap.
[[nodiscard]] PlanBill bill_of_plan(const ComputationDag& dag, const Frontier& frontier,
                                    const std::vector<Watts>& blocking, const PlannedRun& run);

// What a plan's point takes over all-maximum clocks: iteration time, and the energy of all GPUs, blocked ones included.
struct ClockFactors {
  double time = 1.0;
  double energy = 1.0;
};
[[nodiscard]] ClockFactors clock_factors(const PlanBill& bill);

// Returns a run whose nodes compute at a plan's clocks in place of all-maximum ones: forward and backward take longer
// by the factor of time, and their accelerators' energy changes by that of energy; all other components draw what they
// did, for as much longer. Throws UsageError where a type of node has no accelerator.
[[nodiscard]] RunDescription at_clocks(RunDescription run, const ClockFactors& factors);

}  // namespace flyball
