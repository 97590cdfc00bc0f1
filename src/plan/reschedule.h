// EnvPipe's rescheduling of a 1F1B pipeline (EnvPipe section 4.3): some forwards move into the bubble before their
// stage's first backward. That leaves bubbles behind backwards, and stretching a backward into its bubble costs no
// time.
//
// In 1F1B, stage s of S runs S - s forwards before its first backward, then backwards and forwards in turn. The
// rescheduled order differs in that number alone, the microbatches in flight h[s]. Two rules apply:
//   - No deadlock: h must not rise along the stages (plan/stage_orders.h).
//   - No loss of throughput: h must fall by one from stage to stage, as in 1F1B, except after a stage that holds all
//     microbatches. With h[s] = h[s + 1], stage s would send a microbatch and then wait until it is back.
// The second rule implies the first. Where it is broken, the later stage is given fewer microbatches.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "pipeline/computation_dag.h"
#include "plan/planner.h"

namespace flyball {

// The microbatches in flight per stage if every stage of the DAG runs in 1F1B's order: forwards and backwards of one
// chunk, optionally data loading before forwards and operations of the whole iteration at the end. None otherwise.
[[nodiscard]] std::optional<std::vector<int>> in_flight_of_1f1b(const ComputationDag& dag);

// Throws UsageError, naming stage and numbers, unless the limits are one per stage and 1 or above, and when the DAG is
// a 1F1B that holds more microbatches on some stage than its limit: no plan for that order would fit. What other
// schedules hold is not checked.
void check_memory_limit(const ComputationDag& dag, std::span<const int> memory_limit);

// How many microbatches each stage of a 1F1B pipeline should hold: beyond 1F1B's number as many as there are forwards,
// each at the stage's valley clock, that fit into the bubble before the stage's first backward at maximum clocks. The
// last stage gets none. `memory_limit`, one per stage, is the number of microbatches whose activations fit into the
// stage's memory; empty for no limit. The iteration at maximum clocks never becomes longer than 1F1B's. A DAG of which
// there are no stage_orders(), such as one whose transfers occupy both stages, keeps 1F1B's numbers: a forward moved up
// would wait for a receiver that is not there yet. Throws UsageError when the DAG is no 1F1B, and as
// check_memory_limit() does. Cost: O(stages * nodes).
[[nodiscard]] std::vector<int> rescheduled_in_flight(const PlanProblem& problem,
                                                     std::span<const int> memory_limit = {});

// The same computations and dependencies with h[s] microbatches in flight on stage s. original_index() of the result
// gives a computation's number in `dag`. Requires a 1F1B DAG of which there are stage_orders(), and numbers that follow
// the two rules above.
[[nodiscard]] ComputationDag reschedule(const ComputationDag& dag, std::span<const int> in_flight);

}  // namespace flyball
