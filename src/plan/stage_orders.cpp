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
bool is_backward(const OperationType& type) { return type.instruction == instruction_name(InstructionKind::kBackward); }

struct StageUnits {
  std::vector<std::vector<int>> forwards;
  std::vector<std::vector<int>> backwards;
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
    if (!is_forward(type) && !is_backward(type)) {
      // Whatever has a choice of clocks and is neither belongs to another schedule.
      if (type.options.size() > 1) units.in_turn = false;
      continue;
    }
    auto& list = is_forward(type) ? units.forwards : units.backwards;
    if (computation.chunk != 0 || computation.microbatch != static_cast<int>(list.size())) units.in_turn = false;
    list.push_back(std::exchange(pending, {}));
    if (is_backward(type)) units.order.push_back(static_cast<int>(units.forwards.size()));
  }
  units.tail = std::move(pending);
  return units;
}

bool is_proper(const StageUnits& units) {
  if (!units.in_turn || units.forwards.empty() || units.backwards.size() != units.forwards.size()) return false;
  for (std::size_t b = 0; b < units.order.size(); ++b) {
    if (units.order[b] <= static_cast<int>(b)) return false;
  }
  return units.order.back() == static_cast<int>(units.forwards.size());
}

// Whether the microbatch comes from the stage before (forwards) or after (backwards), perhaps by a transfer.
bool follows_pipeline(const ComputationDag& dag, int before, int after) {
  const OperationType& type = dag.type_of(after);
  const OperationType& from = dag.type_of(before);
  if (dag[before].microbatch != dag[after].microbatch || from.instruction != type.instruction) return false;
  return is_forward(type) ? from.stage + 1 == type.stage : is_backward(type) && from.stage == type.stage + 1;
}

// Returns for each computation the forward or backward that it moves with, or -1 at the end of a stage.
std::vector<int> heads_of(const ComputationDag& dag) {
  std::vector<int> heads(at(dag.size()), -1);
  for (int stage = 0; stage < dag.stages(); ++stage) {
    int head = -1;
    const auto order = dag.stage_order(stage);
    for (auto i = order.rbegin(); i != order.rend(); ++i) {
      if (is_forward(dag.type_of(*i)) || is_backward(dag.type_of(*i))) head = *i;
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
    const int user = type.instruction == kDataLoadName && heads[at(i)] >= 0 ? heads[at(i)] : i;
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
    if (orders.back().size() != orders.front().size()) return std::nullopt;
  }
  return orders;
}

std::optional<std::vector<StageOrder>> stage_orders(const ComputationDag& dag) {
  return follows_pipeline(dag) ? present_orders(dag) : std::nullopt;
}

StageOrder in_turn(int microbatches, int in_flight) {
  StageOrder order;
  for (int b = 0; b < microbatches; ++b) order.push_back(std::min(microbatches, b + in_flight));
  return order;
}

int most_in_flight(const StageOrder& order) {
  int most = 0;
  for (std::size_t b = 0; b < order.size(); ++b) most = std::max(most, order[b] - static_cast<int>(b));
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
    for (std::size_t b = 0; b < orders[s].size(); ++b) {
      if (orders[s][b] < orders[s + 1][b]) return false;
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
    for (std::size_t b = 0; b < order.size(); ++b) {
      while (next < at(order[b])) append(units.forwards[next++]);
      append(units.backwards[b]);
    }
    append(units.tail);
  }
  return {"reordered pipeline",
          dag.stages(),
          {dag.types().begin(), dag.types().end()},
          {dag.computations().begin(), dag.computations().end()},
          edges};
}

}  // namespace flyball
