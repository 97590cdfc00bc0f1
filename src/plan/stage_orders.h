// The order in which the stages of a pipeline run their forwards and backwards, and other orders that they can run in.
//
// A stage takes its microbatches in turn, in forwards and in backwards, so that its order is a staircase: the number of
// forwards that it has run before each backward. Under 1F1B, backward b of stage s of S has min(M, b + S - s) forwards
// before it. The orders of neighbouring stages can run together when before every backward the earlier stage has run at
// least as many forwards as the later one. Otherwise the earlier stage would run one of the forwards only after a
// backward that waits for the later stage, while the later stage waits for that forward.
//
// Where backwards are in two parts (Zero Bubble, ICLR'24), the gradient of the activations goes to the stage before as
// soon as it is there, and takes the backward's place in all of this. The gradient of the weights waits for nothing but
// the activations' gradient of the same stage, and nothing but the end of the iteration waits for it: it has a place of
// its own in the order. The activations of a microbatch are held until its weights' gradient has ended.
#pragma once

#include <array>
#include <compare>
#include <optional>
#include <span>
#include <vector>

#include "pipeline/computation_dag.h"

namespace flyball {

// The order of one stage, which takes M microbatches in turn.
struct StageOrder {
  // Entry b is the number of forwards that the stage runs before backward b (before the gradient of the activations,
  // where backwards are in two parts): at least b + 1, no fewer than entry b - 1, and at most M. There are M entries.
  std::vector<int> forwards{};
  // Where backwards are in two parts, entry w is the number of forwards and gradients of the activations that the stage
  // runs before weight gradient w: at least forwards[w] + w + 1, no fewer than entry w - 1, and at most 2 M. There are
  // M entries; none where backwards are whole.
  std::vector<int> weights{};

  [[nodiscard]] int microbatches() const { return static_cast<int>(forwards.size()); }
  [[nodiscard]] bool splits_backward() const { return !weights.empty(); }
  [[nodiscard]] auto operator<=>(const StageOrder&) const = default;
};

// The orders of all stages.
using Orders = std::vector<StageOrder>;

// Returns the order of every stage, or none where no staircase describes the DAG: where it has several chunks,
// backwards in two parts on some stages alone, or microbatches that overtake each other. Loading before forwards and
// operations of the whole iteration at the end of a stage are allowed. Cost: O(nodes).
[[nodiscard]] std::optional<std::vector<StageOrder>> present_orders(const ComputationDag& dag);

// Returns present_orders() where reorder() can give the DAG other orders, or none where it cannot: where dependencies
// other than from stage to stage would be lost. Cost: O(nodes + edges).
[[nodiscard]] std::optional<std::vector<StageOrder>> stage_orders(const ComputationDag& dag);

// Returns the order that runs `in_flight` forwards first, then backwards and forwards in turn.
[[nodiscard]] StageOrder in_turn(int microbatches, int in_flight);

// Returns the same with backwards in two parts: behind the activations' gradient of microbatch b comes the weights' of
// microbatch b - `late`; those that are left come at the end. It holds in_flight + late microbatches, or all.
[[nodiscard]] StageOrder in_turn_split(int microbatches, int in_flight, int late);

// Returns the order with other forwards. Each weight gradient stays behind the activations' gradient that it came
// after, with as many forwards between the two as before, or as there are.
[[nodiscard]] StageOrder with_forwards(const StageOrder& order, std::vector<int> forwards);

// Returns the most microbatches whose activations the stage holds at once, which it does from the begin of the forward
// to the end of the backward, of the weights' gradient where that is a part of its own. Cost: O(microbatches).
[[nodiscard]] int most_in_flight(const StageOrder& order);

// Returns that of every stage in its present order; empty where there are no present_orders(), as with several chunks.
[[nodiscard]] std::vector<int> most_in_flight(const ComputationDag& dag);

// Tells whether the stages can run in these orders together. All orders must have the same number of microbatches, one
// or more.
[[nodiscard]] bool can_run(std::span<const StageOrder> orders);

// Returns a DAG with the same computations and dependencies, in which the stages run in these orders. original_index()
// of the result gives a computation's number in `dag`. Requires that stage_orders(dag) is not none, and that
// can_run(orders). Cost: O(nodes + edges).
//
// Where transfers occupy both stages (PipelineSpec), they get places that fit the orders. A stage that runs ahead
// of its receiver would wait for it if messages were received only when they are needed; with F0 F1 F2 F3 B0 ... on
// the first stage and 1F1B's order on the second, both would wait for ever. So a message may be received early and
// sent late: its transfer stands between two computations of the sender, anywhere behind the one that makes it, and
// between two of the receiver, anywhere before the one that needs it. All of a stage's transfers between two
// computations are posted together. Each transfer gets a moment on a timeline on which transfers occupy nobody and
// operations take `expected`, by their numbers in `dag`: the moment at which it delays the two stages least. Nobody
// waits in a circle then, since everything follows the moments. Transfers of a link in one direction follow each
// other in the order of their microbatches. Where `expected` is empty, operations take the time of their first
// option.
[[nodiscard]] ComputationDag reorder(const ComputationDag& dag, std::span<const StageOrder> orders,
                                     std::span<const Nanoseconds> expected = {});

// How many transfers a stage posts together: activations to the next stage and from the one before, gradients to the
// one before and from the next. Those of a link in one direction go by their microbatches.
using PostedTransfers = std::array<int, 4>;

// Returns what the stage posts before each computation (operations of constant time are none) and behind the one before
// that, of transfers that occupy both stages; nothing where there are none. After the last computation it sends what is
// left. Cost: O(nodes + edges).
[[nodiscard]] std::vector<PostedTransfers> posted_transfers(const ComputationDag& dag, int stage);

}  // namespace flyball
