// In which order the stages of a pipeline run their forwards and backwards, and what other orders there are.
//
// A stage takes its microbatches in turn, forwards and backwards alike, so that its order is a staircase: how many
// forwards it has run before each backward. Backward b of stage s of S has min(M, b + S - s) forwards before it under
// 1F1B. Orders of neighbouring stages can run together when at every step of the staircase the
// earlier stage has run at least as many forwards as the later one: otherwise it would hold back a forward, behind a
// backward that waits for the later stage, which waits for that forward.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "pipeline/computation_dag.h"

namespace flyball {

// By backward: how many forwards the stage runs before it, from 1 to the number of microbatches M. Backward b has at
// least b + 1, and no fewer than the backward before it.
using StageOrder = std::vector<int>;

// Returns the order of every stage, or none where the DAG is another kind of pipeline: several chunks, backwards in two
// parts, microbatches that overtake each other. Loading before forwards and operations of the whole iteration at the
// end of a stage are allowed. Cost O(nodes).
[[nodiscard]] std::optional<std::vector<StageOrder>> present_orders(const ComputationDag& dag);

// The same where the DAG can be reordered. None where dependencies other than from stage to stage would be lost, and
// where transfers occupy both stages (PipelineSpec): such a transfer waits for what the receiver runs before it and
// holds up what the sender runs after it, so that another order needs others of these edges, and can_run() would have
// to be stricter. With two stages, F0 F1 F2 F3 B0 ... above 1F1B's order locks up: F2 is not received before B1 of the
// second stage, which comes after B0 is received, for which the first stage has no time before F3. Cost
// O(nodes + edges).
[[nodiscard]] std::optional<std::vector<StageOrder>> stage_orders(const ComputationDag& dag);

// The order that runs `in_flight` forwards, then backwards and forwards in turn.
[[nodiscard]] StageOrder in_turn(int microbatches, int in_flight);

// The most microbatches of which the stage holds activations at once: those between their forward and their backward.
[[nodiscard]] int most_in_flight(const StageOrder& order);

// Whether the stages can run in these orders together. Orders have the same number of microbatches, one or more.
[[nodiscard]] bool can_run(std::span<const StageOrder> orders);

// Returns the same computations and dependencies, with the stages in these orders. original_index() of the result gives
// the computation's number in `dag`. Requires that stage_orders(dag) is not none, and can_run(orders). Cost O(nodes +
// edges).
[[nodiscard]] ComputationDag reorder(const ComputationDag& dag, std::span<const StageOrder> orders);

}  // namespace flyball
