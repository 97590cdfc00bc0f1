// What a job's ranks are seen to do with the order of their computations (docs/decisions/0056).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/computation_dag.h"
#include "wire/job_messages.h"

namespace flyball {

// Stored by number: new ones go to the end.
enum class OrderSeen {
  kAsTold,          // nothing else was reported
  kNotAsPlanned,    // they do not run the order that was planned, but the schedule's: plans keep that
  kNotAsScheduled,  // they run yet another order: in addition, plans do not wait for their steps
};

// Tells whether planners may choose another order than the schedule's.
[[nodiscard]] bool may_reorder(const JobRequest& request, OrderSeen seen);

// Tells what a report shows, where the order that the rank was to run is no other one than the schedule's
// (`planned` = 0), or has this number. `stage` is the rank's. Cost: linear in the computations of an iteration.
[[nodiscard]] OrderSeen order_seen_in(const JobRequest& request, int stage, std::int64_t planned,
                                      const std::vector<std::string>& instructions);

// Returns a sentence on what was seen, and how to mend it; empty for kAsTold.
[[nodiscard]] std::string order_trouble(const JobRequest& request, OrderSeen seen);

// Returns a sentence where the job's planner would choose an order, but may not because nobody said that the ranks
// execute one; empty otherwise.
[[nodiscard]] std::string kept_order_warning(const JobRequest& request);

// Returns the number of a DAG's order as ranks compare it (RankSchedule::order): 0 where it is that of `scheduled`.
// Cost: linear in the operations.
[[nodiscard]] std::int64_t number_of_order(const ComputationDag& dag, const ComputationDag& scheduled);

}  // namespace flyball
