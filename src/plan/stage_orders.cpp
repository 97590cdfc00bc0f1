// Orders are read from a DAG by cutting each stage's operations into units that move together: a forward with the
// loading of its data, a backward with what stands before it, and at the end what the whole iteration needs.
#include "plan/stage_orders.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/index.h"
#include "pipeline/instruction.h"

namespace flyball {
namespace {

bool is_forward(const OperationType& type) { return type.instruction == instruction_name(InstructionKind::kForward); }
bool is_weight(const OperationType& type) {
  return type.instruction == instruction_name(InstructionKind::kBackwardWeight);
}
// What the stage before waits for.
bool is_backward(const OperationType& type) {
  return type.instruction == instruction_name(InstructionKind::kBackward) ||
         type.instruction == instruction_name(InstructionKind::kBackwardInput);
}
bool is_head(const OperationType& type) { return is_forward(type) || is_backward(type) || is_weight(type); }

struct StageUnits {
  std::vector<std::vector<int>> forwards;
  std::vector<std::vector<int>> backwards;
  std::vector<std::vector<int>> weights;
  std::vector<int> tail;  // gradient synchronisation, optimizer step
  StageOrder order;
  bool in_turn = true;  // one chunk, microbatches from 0 upwards
};

StageUnits units_of(const ComputationDag& dag, int stage) {
  StageUnits units;
  std::vector<int> pending;
  for (const int i : dag.stage_order(stage)) {
    const Computation& computation = dag[i];
    const OperationType& type = dag.type_of(i);
    pending.push_back(i);
    if (!is_head(type)) {
      // Whatever has a choice of clocks and is none of these belongs to another schedule.
      if (type.options.size() > 1) units.in_turn = false;
      continue;
    }
    auto& list = is_forward(type) ? units.forwards : is_backward(type) ? units.backwards : units.weights;
    if (computation.chunk != 0 || computation.microbatch != static_cast<int>(list.size())) units.in_turn = false;
    list.push_back(std::exchange(pending, {}));
    if (is_backward(type)) units.order.forwards.push_back(static_cast<int>(units.forwards.size()));
    if (is_weight(type)) {
      units.order.weights.push_back(static_cast<int>(units.forwards.size() + units.backwards.size()));
    }
  }
  units.tail = std::move(pending);
  return units;
}

bool is_proper(const StageUnits& units) {
  const std::size_t microbatches = units.forwards.size();
  if (!units.in_turn || microbatches == 0 || units.backwards.size() != microbatches) return false;
  const auto& [forwards, weights] = units.order;
  if (!weights.empty() && weights.size() != microbatches) return false;
  for (std::size_t b = 0; b < microbatches; ++b) {
    if (at(forwards[b]) <= b) return false;
    if (!weights.empty() && at(weights[b]) < at(forwards[b]) + b + 1) return false;
  }
  return at(forwards.back()) == microbatches;
}

// Whether the microbatch comes from the stage before (forwards) or after (backwards), perhaps by a transfer.
bool follows_pipeline(const ComputationDag& dag, int before, int after) {
  const OperationType& type = dag.type_of(after);
  const OperationType& from = dag.type_of(before);
  if (dag[before].microbatch != dag[after].microbatch || from.instruction != type.instruction) return false;
  return is_forward(type) ? from.stage + 1 == type.stage : is_backward(type) && from.stage == type.stage + 1;
}

// Returns for each computation the forward, backward or part of a backward that it moves with, or -1 at the end of a
// stage.
std::vector<int> heads_of(const ComputationDag& dag) {
  std::vector<int> heads(at(dag.size()), -1);
  for (int stage = 0; stage < dag.stages(); ++stage) {
    int head = -1;
    const auto order = dag.stage_order(stage);
    for (auto i = order.rbegin(); i != order.rend(); ++i) {
      if (is_head(dag.type_of(*i))) head = *i;
      heads[at(*i)] = head;
    }
  }
  return heads;
}

bool follows_pipeline(const ComputationDag& dag) {
  const std::vector<int> heads = heads_of(dag);
  for (int i = 0; i < dag.size(); ++i) {
    const OperationType& type = dag.type_of(i);
    if (!type.occupies_stage || dag[i].microbatch < 0) continue;  // a stage's last operations wait for any
    const int user = is_constant_operation(type.instruction) && heads[at(i)] >= 0 ? heads[at(i)] : i;
    for (const std::int32_t p : dag.predecessors(i)) {
      const OperationType& before = dag.type_of(p);
      if (before.occupies_stage) {
        if (before.stage != type.stage && !follows_pipeline(dag, p, user)) return false;
        continue;
      }
      // A transfer that occupies both stages waits for computations that do not send, too.
      for (const std::int32_t sender : dag.predecessors(p)) {
        if (!follows_pipeline(dag, sender, user)) return false;
      }
    }
  }
  return true;
}

}  // namespace

std::optional<std::vector<StageOrder>> present_orders(const ComputationDag& dag) {
  std::vector<StageOrder> orders;
  for (int stage = 0; stage < dag.stages(); ++stage) {
    StageUnits units = units_of(dag, stage);
    if (!is_proper(units)) return std::nullopt;
    orders.push_back(std::move(units.order));
    if (orders.back().microbatches() != orders.front().microbatches()) return std::nullopt;
    if (orders.back().splits_backward() != orders.front().splits_backward()) return std::nullopt;
  }
  return orders;
}

std::optional<std::vector<StageOrder>> stage_orders(const ComputationDag& dag) {
  return follows_pipeline(dag) ? present_orders(dag) : std::nullopt;
}

StageOrder in_turn(int microbatches, int in_flight) {
  StageOrder order;
  for (int b = 0; b < microbatches; ++b) order.forwards.push_back(std::min(microbatches, b + in_flight));
  return order;
}

StageOrder in_turn_split(int microbatches, int in_flight, int late) {
  StageOrder order = in_turn(microbatches, in_flight);
  for (int w = 0; w < microbatches; ++w) {
    const int behind = std::min(microbatches - 1, w + late);
    order.weights.push_back(order.forwards[at(behind)] + behind + 1);
  }
  return order;
}

StageOrder with_forwards(const StageOrder& order, std::vector<int> forwards) {
  StageOrder other{std::move(forwards)};
  int behind = 0;  // the last gradient of the activations before the weight gradient
  for (const int weight : order.weights) {
    while (behind + 1 < order.microbatches() && order.forwards[at(behind + 1)] + behind + 2 <= weight) ++behind;
    const int between = weight - (order.forwards[at(behind)] + behind + 1);
    const int next = behind + 1 < order.microbatches() ? other.forwards[at(behind + 1)] : order.microbatches();
    other.weights.push_back(std::min(other.forwards[at(behind)] + between, next) + behind + 1);
  }
  return other;
}

int most_in_flight(const StageOrder& order) {
  int most = 0;
  std::size_t freed = 0;
  for (int b = 0; b < order.microbatches(); ++b) {
    const int forwards = order.forwards[at(b)];
    if (!order.splits_backward()) {
      most = std::max(most, forwards - b);
      continue;
    }
    // Most are held when a forward has begun, and before it forwards and gradients of the activations have run.
    for (int f = b == 0 ? 0 : order.forwards[at(b - 1)]; f < forwards; ++f) {
      while (freed < order.weights.size() && order.weights[freed] <= f + b) ++freed;
      most = std::max(most, f + 1 - static_cast<int>(freed));
    }
  }
  return most;
}

std::vector<int> most_in_flight(const ComputationDag& dag) {
  std::vector<int> most;
  for (const StageOrder& order : present_orders(dag).value_or(std::vector<StageOrder>{})) {
    most.push_back(most_in_flight(order));
  }
  return most;
}

bool can_run(std::span<const StageOrder> orders) {
  for (std::size_t s = 0; s + 1 < orders.size(); ++s) {
    for (std::size_t b = 0; b < orders[s].forwards.size(); ++b) {
      if (orders[s].forwards[b] < orders[s + 1].forwards[b]) return false;
    }
  }
  return true;
}

ComputationDag reorder(const ComputationDag& dag, std::span<const StageOrder> orders) {
  assert(can_run(orders));
  std::vector<ComputationDag::Edge> edges;
  for (int i = 0; i < dag.size(); ++i) {
    const OperationType& type = dag.type_of(i);
    for (const std::int32_t p : dag.predecessors(i)) {
      const OperationType& before = dag.type_of(p);
      const bool same_stage = before.stage == type.stage && before.occupies_stage && type.occupies_stage;
      if (!same_stage) edges.push_back({p, i});
    }
  }
  for (int stage = 0; stage < dag.stages(); ++stage) {
    const StageUnits units = units_of(dag, stage);
    const StageOrder& order = orders[at(stage)];
    int previous = -1;
    const auto append = [&](const std::vector<int>& unit) {
      for (const int i : unit) {
        if (previous >= 0) edges.push_back({previous, i});
        previous = i;
      }
    };
    std::size_t next = 0;
    std::size_t weight = 0;
    // Appends a forward or backward, and the weight gradients that come behind it.
    const auto append_head = [&](const std::vector<int>& unit, std::size_t before) {
      append(unit);
      while (weight < order.weights.size() && at(order.weights[weight]) == before + 1) append(units.weights[weight++]);
    };
    for (std::size_t b = 0; b < order.forwards.size(); ++b) {
      for (; next < at(order.forwards[b]); ++next) append_head(units.forwards[next], next + b);
      append_head(units.backwards[b], next + b);
    }
    append(units.tail);
  }
  ComputationDag reordered("reordered pipeline", dag.stages(), {dag.types().begin(), dag.types().end()},
                           {dag.computations().begin(), dag.computations().end()}, edges);
  reordered.set_clocks_asked(dag.clocks_asked());
  return reordered;
}

}  // namespace flyball
