// Staircases rise and fall step by step; what must not fall below a neighbour is lifted to it afterwards. Weight
// gradients keep their place behind the gradient of the activations that they came after (with_forwards()).
#include "plan/order_moves.h"

#include <algorithm>
#include <utility>

#include "base/index.h"

namespace flyball {
namespace {

// Where a weight gradient comes right behind this gradient of the activations.
int right_behind(const StageOrder& order, int microbatch) { return order.forwards[at(microbatch)] + microbatch + 1; }

// The last gradient of the activations before a weight gradient.
int last_before(const StageOrder& order, int weight) {
  int behind = weight;
  while (behind + 1 < order.microbatches() && right_behind(order, behind + 1) <= order.weights[at(weight)]) ++behind;
  return behind;
}

std::vector<std::vector<int>> forwards_of(const Orders& orders) {
  std::vector<std::vector<int>> forwards;
  for (const StageOrder& order : orders) forwards.push_back(order.forwards);
  return forwards;
}

// The orders with these forwards.
Orders with_forwards(const Orders& orders, const std::vector<std::vector<int>>& forwards) {
  Orders changed;
  for (std::size_t s = 0; s < orders.size(); ++s) {
    const bool same = forwards[s] == orders[s].forwards;
    changed.push_back(same ? orders[s] : with_forwards(orders[s], forwards[s]));
  }
  return changed;
}

// Keeps later stages from running more forwards than earlier ones before the first backwards, up to `last`.
void let_follow(std::vector<std::vector<int>>& forwards, int stage, int last) {
  for (std::size_t s = at(stage) + 1; s < forwards.size(); ++s) {
    for (int b = 0; b < last; ++b) forwards[s][at(b)] = std::min(forwards[s][at(b)], forwards[s - 1][at(b)]);
  }
}

}  // namespace

bool fits(const Orders& orders, std::span<const int> limit) {
  for (std::size_t s = 0; s < limit.size(); ++s) {
    if (most_in_flight(orders[s]) > limit[s]) return false;
  }
  return true;
}

std::optional<StageOrder> fitted(StageOrder order, int limit) {
  if (order.splits_backward()) {
    int freed = 0;
    for (int b = 0; b < order.microbatches(); ++b) {
      for (int f = b == 0 ? 0 : order.forwards[at(b - 1)]; f < order.forwards[at(b)]; ++f) {
        while (freed < order.microbatches() && order.weights[at(freed)] <= f + b) ++freed;
        for (; f + 1 - freed > limit; ++freed) {
          if (freed == order.microbatches() || right_behind(order, freed) > f + b) return std::nullopt;
          order.weights[at(freed)] = f + b;
        }
      }
    }
  }
  if (most_in_flight(order) > limit) return std::nullopt;
  return order;
}

std::optional<Orders> raised(const Orders& orders, int stage, Steps steps, std::span<const int> limit) {
  std::vector<std::vector<int>> forwards = forwards_of(orders);
  std::vector<int>& own = forwards[at(stage)];
  const int microbatches = orders.front().microbatches();
  bool changed = false;
  for (int b = steps.first; b < steps.last && own[at(b)] < microbatches; ++b) {
    ++own[at(b)];
    changed = true;
  }
  if (!changed) return std::nullopt;
  for (int b = steps.first + 1; b < microbatches; ++b) own[at(b)] = std::max(own[at(b)], own[at(b - 1)]);
  for (int s = stage - 1; s >= 0; --s) {
    for (int b = steps.first; b < microbatches; ++b) {
      forwards[at(s)][at(b)] = std::max(forwards[at(s)][at(b)], forwards[at(s + 1)][at(b)]);
    }
  }
  Orders result = with_forwards(orders, forwards);
  for (std::size_t s = 0; s < limit.size(); ++s) {
    std::optional<StageOrder> order = fitted(std::move(result[s]), limit[s]);
    if (!order) return std::nullopt;
    result[s] = std::move(*order);
  }
  return result;
}

std::optional<Orders> lowered(const Orders& orders, int stage, Steps steps) {
  std::vector<std::vector<int>> forwards = forwards_of(orders);
  std::vector<int>& own = forwards[at(stage)];
  bool changed = false;
  for (int b = steps.first; b < steps.last; ++b) {
    if (own[at(b)] == b + 1) continue;
    --own[at(b)];
    changed = true;
  }
  if (!changed) return std::nullopt;
  for (int b = steps.last - 1; b > 0; --b) own[at(b - 1)] = std::min(own[at(b - 1)], own[at(b)]);
  let_follow(forwards, stage, steps.last);
  return with_forwards(orders, forwards);
}

std::optional<Orders> shallower(const Orders& orders, int stage) {
  std::vector<std::vector<int>> forwards = forwards_of(orders);
  std::vector<int>& own = forwards[at(stage)];
  const int microbatches = orders.front().microbatches();
  int ahead = 0;
  for (int b = 0; b < microbatches; ++b) ahead = std::max(ahead, own[at(b)] - b);
  if (ahead == 1) return std::nullopt;
  for (int b = 0; b < microbatches; ++b) own[at(b)] = std::min(own[at(b)], b + ahead - 1);
  let_follow(forwards, stage, microbatches);
  return with_forwards(orders, forwards);
}

std::optional<Orders> later(const Orders& orders, int stage, Steps steps, Reach reach, std::span<const int> limit) {
  const StageOrder& order = orders[at(stage)];
  if (!order.splits_backward()) return std::nullopt;
  const int microbatches = order.microbatches();
  StageOrder moved = order;
  for (int w = steps.first; w < steps.last; ++w) {
    const int behind = std::min(last_before(order, w) + 1, microbatches - 1);
    const int to = reach == Reach::kMicrobatch ? right_behind(order, behind) : order.weights[at(w)] + 1;
    moved.weights[at(w)] = std::min(std::max(to, order.weights[at(w)]), 2 * microbatches);
  }
  for (int w = steps.first + 1; w < microbatches; ++w) {
    moved.weights[at(w)] = std::max(moved.weights[at(w)], moved.weights[at(w - 1)]);
  }
  if (moved == order || (!limit.empty() && most_in_flight(moved) > limit[at(stage)])) return std::nullopt;
  Orders result = orders;
  result[at(stage)] = std::move(moved);
  return result;
}

std::optional<Orders> earlier(const Orders& orders, int stage, Steps steps, Reach reach) {
  const StageOrder& order = orders[at(stage)];
  if (!order.splits_backward()) return std::nullopt;
  StageOrder moved = order;
  for (int w = steps.first; w < steps.last; ++w) {
    const int behind = last_before(order, w);
    const int place = order.weights[at(w)];
    // Behind the same gradient, if forwards stand between, else behind the one before.
    const int former = right_behind(order, place > right_behind(order, behind) ? behind : std::max(behind - 1, 0));
    const int to = reach == Reach::kMicrobatch ? former : place - 1;
    moved.weights[at(w)] = std::max(to, right_behind(order, w));
  }
  for (int w = steps.last - 1; w > 0; --w) {
    moved.weights[at(w - 1)] = std::min(moved.weights[at(w - 1)], moved.weights[at(w)]);
  }
  if (moved == order) return std::nullopt;
  Orders result = orders;
  result[at(stage)] = std::move(moved);
  return result;
}

std::optional<Orders> freed_sooner(const Orders& orders, int stage) {
  const StageOrder& order = orders[at(stage)];
  if (!order.splits_backward()) return std::nullopt;
  std::optional<StageOrder> moved = fitted(order, most_in_flight(order) - 1);
  if (!moved) return std::nullopt;
  Orders result = orders;
  result[at(stage)] = std::move(*moved);
  return result;
}

}  // namespace flyball
