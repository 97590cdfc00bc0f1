// EnvPipe's rescheduling of a 1F1B pipeline (EnvPipe section 4.3): some forwards move into the bubble before their
// stage's first backward. New bubbles then follow the backwards, and slowing a backward down into such a bubble costs
// no time.
//
// In 1F1B, stage s of S runs S - s forwards before its first backward, then backwards and forwards in turn. The
// rescheduled order differs only in this number, which is called the microbatches in flight, h[s]. Two rules apply:
//   - No deadlock: h must not rise along the stages (plan/stage_orders.h).
//   - No loss of throughput: h must fall by one from stage to stage, as in 1F1B, except after a stage that holds all
//     microbatches. With h[s] = h[s + 1], stage s would send a microbatch and then wait until it is back.
// The second rule implies the first. Where a stage would break it, the later stage is given fewer microbatches.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "pipeline/computation_dag.h"
#include "plan/planner.h"

namespace flyball {

// Returns the microbatches in flight per stage if every stage of the DAG runs in 1F1B's order: forwards and backwards
// of one chunk, optionally data loading before forwards and operations of the whole iteration at the end. Otherwise
// returns none.
[[nodiscard]] std::optional<std::vector<int>> in_flight_of_1f1b(const ComputationDag& dag);

// Checks a memory limit against a DAG. Throws UsageError, which names stage and numbers, unless there is one limit of 1
// or above per stage. It also throws when the DAG runs in 1F1B's order and some stage of it holds more microbatches
// than its limit, since no plan for that order would fit. Other schedules are not checked for what they hold.
void check_memory_limit(const ComputationDag& dag, std::span<const int> memory_limit);

// Returns how many microbatches each stage of a 1F1B pipeline should hold. Beyond 1F1B's number, a stage is given as
// many forwards as fit, each at the stage's valley clock (plan/stage_clock.h), into the bubble before its first
// backward at maximum clocks. The last stage is given none. `memory_limit`, one per stage, is the number of
// microbatches whose activations fit into the stage's memory; empty for no limit. The iteration at maximum clocks never
// becomes longer than 1F1B's. A DAG without stage_orders() keeps 1F1B's numbers. Throws UsageError when the DAG
// does not run in 1F1B's order, and where check_memory_limit() does. Cost: O(microbatches * (nodes + edges)).
[[nodiscard]] std::vector<int> rescheduled_in_flight(const PlanProblem& problem,
                                                     std::span<const int> memory_limit = {});

// Returns a DAG with the same computations and dependencies, and in_flight[s] microbatches in flight on stage s.
// original_index() of the result gives a computation's number in `dag`. Requires that `dag` runs in 1F1B's order and
// has stage_orders(), and that `in_flight` follows the two rules above.
[[nodiscard]] ComputationDag reschedule(const ComputationDag& dag, std::span<const int> in_flight);

}  // namespace flyball
