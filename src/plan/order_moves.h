// Small changes to the orders of a pipeline's stages, the steps of the search for a better one (joint.h).
//
// A change of one stage drags others along where its neighbours must keep up (can_run() of stage_orders.h), and weight
// gradients move ahead where memory would not do otherwise. Every function returns orders that can_run(), or none
// where there is nothing to change or the memory limit leaves no way. All cost O(stages * microbatches).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "plan/stage_orders.h"

namespace flyball {

// Which steps of a stage change, [first, last): backwards by their microbatches, or weight gradients by theirs.
struct Steps {
  int first;
  int last;
};

// Tells whether no stage holds more microbatches than `limit`, which has an entry for each stage or is empty for no
// limit.
[[nodiscard]] bool fits(const Orders& orders, std::span<const int> limit);

// Returns the order with as few weight gradients as possible moved ahead, none further than needed, so that the stage
// holds at most `limit` microbatches; none where that does not suffice.
[[nodiscard]] std::optional<StageOrder> fitted(StageOrder order, int limit);

// Puts one forward more before each of these backwards of a stage. Earlier stages, and the backwards that follow, keep
// up.
[[nodiscard]] std::optional<Orders> raised(const Orders& orders, int stage, Steps steps, std::span<const int> limit);

// Does the reverse, with one forward less.
[[nodiscard]] std::optional<Orders> lowered(const Orders& orders, int stage, Steps steps);

// Takes one forward less before the first backward of a stage, and keeps that distance: on later stages, too, where
// they would otherwise be further ahead than it.
[[nodiscard]] std::optional<Orders> shallower(const Orders& orders, int stage);

// How far weight gradients move: past one other operation, or behind the next (or former) gradient of the activations.
enum class Reach { kOperation, kMicrobatch };

// Moves these weight gradients of a stage towards the end of the iteration; those that follow are not overtaken.
[[nodiscard]] std::optional<Orders> later(const Orders& orders, int stage, Steps steps, Reach reach,
                                          std::span<const int> limit);

// Moves them towards the begin, as far as the gradients that they need allow.
[[nodiscard]] std::optional<Orders> earlier(const Orders& orders, int stage, Steps steps, Reach reach);

// Moves all weight gradients of a stage to where memory is needed, so that one microbatch less is held than now.
[[nodiscard]] std::optional<Orders> freed_sooner(const Orders& orders, int stage);

}  // namespace flyball
