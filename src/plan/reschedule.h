// EnvPipe's rescheduling of a 1F1B pipeline (EnvPipe section 4.3): forwards move up into the bubble before a stage's
// first backward, which leaves bubbles behind backwards, where stretching them costs no time.
//
// In 1F1B stage s of S runs S - s forwards before its first backward, then one backward and one forward in turn. The
// rescheduled order differs in that number alone, the microbatches in flight h[s]. Two rules keep it sound:
//   - no deadlock: h must not rise along the stages. If it did, stage s + 1 would wait for a forward that stage s runs
//     only after a backward that waits for stage s + 1.
//   - no loss of throughput: h must fall by one from stage to stage, as it does in 1F1B, except below a stage that
//     holds all microbatches. With h[s] = h[s + 1] stage s would send a microbatch and then wait until it is back.
// The second implies the first; the repair lowers the later stage until it holds.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "pipeline/computation_dag.h"
#include "plan/planner.h"

namespace flyball {

// Microbatches in flight, per stage, when every stage of the DAG runs in 1F1B's order (forwards and backwards of one
// chunk; data loading before forwards and operations of the whole iteration at the end are allowed). None otherwise.
[[nodiscard]] std::optional<std::vector<int>> in_flight_of_1f1b(const ComputationDag& dag);

// Throws UsageError, naming stage and numbers, when the limits are not one per stage and 1 or above, or when the DAG is
// a 1F1B that holds more microbatches somewhere than the limit allows: no plan for that order would fit. What other
// orders hold is not examined.
void check_memory_limit(const ComputationDag& dag, std::span<const int> memory_limit);

// How many microbatches each stage of a 1F1B pipeline shall hold: as many extra forwards, each stretched to the stage's
// valley clock, as fit into the bubble before its first backward at maximum clocks; none on the last stage.
// `memory_limit` is the number of microbatches whose activations a stage can hold, one per stage; empty for no limit.
// The iteration at maximum clocks never becomes longer than 1F1B's. Where transfers occupy both stages the order stays
// 1F1B's: sends and receives pair by it, and a forward moved up would wait for a receiver that is not there yet. Throws
// UsageError when the DAG is no 1F1B, and what check_memory_limit throws. Cost O(stages * nodes).
[[nodiscard]] std::vector<int> rescheduled_in_flight(const PlanProblem& problem,
                                                     std::span<const int> memory_limit = {});

// The same computations and dependencies with h[s] microbatches in flight on stage s. original_index() of the result
// gives the computation's number in `dag`. Requires a 1F1B DAG and numbers that meet the rules above.
[[nodiscard]] ComputationDag reschedule(const ComputationDag& dag, std::span<const int> in_flight);

}  // namespace flyball
