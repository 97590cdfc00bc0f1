// Orders are read from a DAG by cutting each stage's operations into units that move together: a forward with the
// loading of its data, a backward with what stands before it, and at the end what the whole iteration needs. Transfers
// that occupy both stages get a moment each on one timeline, which puts them between two units of either stage.
#include "plan/stage_orders.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include "base/index.h"
#include "base/own_name.h"
#include "pipeline/instruction.h"
#include "pipeline/timeline.h"

namespace flyball {
namespace {

bool is_kind(const OperationType& type, InstructionKind kind) { return is_of_kind(type.instruction, kind); }
bool is_forward(const OperationType& type) { return is_kind(type, InstructionKind::kForward); }
bool is_weight(const OperationType& type) { return is_kind(type, InstructionKind::kBackwardWeight); }
// What the stage before waits for.
bool is_backward(const OperationType& type) {
  return is_kind(type, InstructionKind::kBackward) || is_kind(type, InstructionKind::kBackwardInput);
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
  if (dag[before].microbatch != dag[after].microbatch || common_name(from.instruction) != common_name(type.instruction))
    return false;
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
        if (before.stage == type.stage) continue;
        // A message that takes no time cannot be given a place, and sent at once it would wait for its receiver.
        if (dag.transfers_occupy_both() || !follows_pipeline(dag, p, user)) return false;
        continue;
      }
      // A transfer that occupies both stages waits for computations that do not send, too, and gets a new place.
      if (dag.transfers_occupy_both()) continue;
      for (const std::int32_t sender : dag.predecessors(p)) {
        if (!follows_pipeline(dag, sender, user)) return false;
      }
    }
  }
  return true;
}

// What a stage runs, in its order: units of operations that move together.
using Lane = std::vector<std::vector<int>>;

// The stage that a transfer goes to.
int receiver_of(const ComputationDag& dag, int transfer) {
  for (const std::int32_t next : dag.successors(transfer)) {
    if (dag.type_of(next).occupies_stage && dag.type_of(next).stage != dag.type_of(transfer).stage) {
      return dag.type_of(next).stage;
    }
  }
  return -1;
}

// Finds places for transfers that occupy both stages, and adds their edges to those of the stages.
class Placement {
 public:
  Placement(const ComputationDag& dag, const std::vector<Lane>& lanes, std::span<const Nanoseconds> expected,
            std::vector<ComputationDag::Edge>& edges)
      : dag_(dag), lanes_(lanes), edges_(edges), durations_(expected.begin(), expected.end()) {
    if (durations_.empty()) {
      for (int i = 0; i < dag.size(); ++i) durations_.push_back(to_nanoseconds(dag.type_of(i).options.front().time));
    }
    find_units();
    for (int i = 0; i < dag.size(); ++i) {
      if (!dag.type_of(i).occupies_stage) transfers_.push_back(transfer(i));
    }
    std::sort(transfers_.begin(), transfers_.end(), [&](const Transfer& one, const Transfer& other) {
      return std::tuple(one.from, one.to, dag[one.node].microbatch) <
             std::tuple(other.from, other.to, dag[other.node].microbatch);
    });
  }

  void place() {
    for (const Transfer& one : transfers_) {
      edges_.push_back({one.maker, one.node});
      edges_.push_back({one.node, one.user});
    }
    make_timeline();
    const Transfer* before = nullptr;  // over the same link in the same direction
    for (Transfer& one : transfers_) {
      if (before != nullptr && (before->from != one.from || before->to != one.to)) before = nullptr;
      place(one, before);
      if (before != nullptr) edges_.push_back({before->node, one.node});
      before = &one;
    }
  }

 private:
  struct Transfer {
    int node;
    int from, to;     // stages
    int maker, user;  // the computation that makes what is sent, and the first operation that needs it
    Nanoseconds moment = 0;
    Nanoseconds end = 0;
  };

  void find_units() {
    units_.resize(lanes_.size());
    for (std::size_t stage = 0; stage < lanes_.size(); ++stage) {
      for (std::size_t k = 0; k < lanes_[stage].size(); ++k) {
        const int last = lanes_[stage][k].back();
        const OperationType& head = dag_.type_of(last);
        if (!is_forward(head) && !is_backward(head)) continue;
        std::vector<std::size_t>& units = units_[stage][is_forward(head) ? 0 : 1];
        if (units.size() <= at(dag_[last].microbatch)) units.resize(at(dag_[last].microbatch) + 1);
        units[at(dag_[last].microbatch)] = k;
      }
    }
  }

  Transfer transfer(int node) const {
    const int from = dag_.type_of(node).stage;
    const int to = receiver_of(dag_, node);
    const auto unit = [&](int stage) -> const std::vector<int>& {
      return lanes_[at(stage)][units_[at(stage)][to > from ? 0 : 1][at(dag_[node].microbatch)]];
    };
    return {node, from, to, unit(from).back(), unit(to).front()};
  }

  // When operations begin and end where transfers only delay their receivers.
  void make_timeline() {
    const ComputationDag plain("pipeline", dag_.stages(), {dag_.types().begin(), dag_.types().end()},
                               {dag_.computations().begin(), dag_.computations().end()}, edges_);
    std::vector<Nanoseconds> durations;
    for (int i = 0; i < plain.size(); ++i) durations.push_back(durations_[at(plain.original_index(i))]);
    std::vector<Nanoseconds> finish(durations.size());
    static_cast<void>(makespan(plain, durations, finish));
    finish_.resize(durations.size());
    for (int i = 0; i < plain.size(); ++i) finish_[at(plain.original_index(i))] = finish[at(i)];
  }

  Nanoseconds begin(int i) const { return finish_[at(i)] - durations_[at(i)]; }
  Nanoseconds begin(int stage, std::size_t unit) const { return begin(lanes_[at(stage)][unit].front()); }

  // The first unit of the stage that begins at the moment or later.
  std::size_t first_from(int stage, Nanoseconds moment) const {
    const Lane& lane = lanes_[at(stage)];
    const auto found = std::partition_point(lane.begin(), lane.end(),
                                            [&](const std::vector<int>& unit) { return begin(unit.front()) < moment; });
    return static_cast<std::size_t>(found - lane.begin());
  }

  void place(Transfer& one, const Transfer* before) {
    // Only moments at which something begins make a difference.
    std::vector<Nanoseconds> moments{begin(one.user)};
    for (const int stage : {one.from, one.to}) {
      for (std::size_t k = first_from(stage, begin(one.maker) + 1); k < lanes_[at(stage)].size(); ++k) {
        const Nanoseconds moment = begin(stage, k);
        if (moment >= begin(one.user)) break;
        if (before == nullptr || moment >= before->moment) moments.push_back(moment);
      }
    }
    std::pair<Nanoseconds, Nanoseconds> least{};
    for (const Nanoseconds moment : moments) {
      Nanoseconds end = before == nullptr ? 0 : before->end;
      for (const int stage : {one.from, one.to}) {
        if (const std::size_t next = first_from(stage, moment); next > 0) {
          end = std::max(end, finish_[at(lanes_[at(stage)][next - 1].back())]);
        }
      }
      end += durations_[at(one.node)];
      Nanoseconds delay = 0;
      for (const int stage : {one.from, one.to}) {
        const std::size_t next = first_from(stage, moment);
        if (next < lanes_[at(stage)].size()) delay += std::max<Nanoseconds>(0, end - begin(stage, next));
      }
      const std::pair cost(delay, end);
      if (one.end > 0 && !(cost < least)) continue;
      least = cost;
      one.moment = moment;
      one.end = end;
    }
    for (const int stage : {one.from, one.to}) {
      const Lane& lane = lanes_[at(stage)];
      const std::size_t next = first_from(stage, one.moment);
      if (next > 0) edges_.push_back({lane[next - 1].back(), one.node});
      if (next < lane.size()) edges_.push_back({one.node, lane[next].front()});
    }
  }

  const ComputationDag& dag_;
  const std::vector<Lane>& lanes_;
  std::vector<ComputationDag::Edge>& edges_;
  std::vector<Nanoseconds> durations_;
  // By stage, of forwards and of backwards, by microbatch: the place of its unit in the lane.
  std::vector<std::array<std::vector<std::size_t>, 2>> units_;
  std::vector<Transfer> transfers_;
  std::vector<Nanoseconds> finish_;
};

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

ComputationDag reorder(const ComputationDag& dag, std::span<const StageOrder> orders,
                       std::span<const Nanoseconds> expected) {
  assert(can_run(orders));
  std::vector<ComputationDag::Edge> edges;
  const bool occupy_both = dag.transfers_occupy_both();
  for (int i = 0; i < dag.size(); ++i) {
    const OperationType& type = dag.type_of(i);
    for (const std::int32_t p : dag.predecessors(i)) {
      const OperationType& before = dag.type_of(p);
      const bool same_stage = before.stage == type.stage && before.occupies_stage && type.occupies_stage;
      const bool transfer = !before.occupies_stage || !type.occupies_stage;
      if (!same_stage && !(transfer && occupy_both)) edges.push_back({p, i});
    }
  }
  std::vector<Lane> lanes(at(dag.stages()));
  for (int stage = 0; stage < dag.stages(); ++stage) {
    Lane& lane = lanes[at(stage)];
    const StageUnits units = units_of(dag, stage);
    const StageOrder& order = orders[at(stage)];
    std::size_t next = 0;
    std::size_t weight = 0;
    // Appends a forward or backward, and the weight gradients that come behind it.
    const auto append_head = [&](const std::vector<int>& unit, std::size_t before) {
      lane.push_back(unit);
      while (weight < order.weights.size() && at(order.weights[weight]) == before + 1) {
        lane.push_back(units.weights[weight++]);
      }
    };
    for (std::size_t b = 0; b < order.forwards.size(); ++b) {
      for (; next < at(order.forwards[b]); ++next) append_head(units.forwards[next], next + b);
      append_head(units.backwards[b], next + b);
    }
    if (!units.tail.empty()) lane.push_back(units.tail);
    int previous = -1;
    for (const std::vector<int>& unit : lane) {
      for (const int i : unit) {
        if (previous >= 0) edges.push_back({previous, i});
        previous = i;
      }
    }
  }
  if (occupy_both) Placement(dag, lanes, expected, edges).place();
  ComputationDag reordered("reordered pipeline", dag.stages(), {dag.types().begin(), dag.types().end()},
                           {dag.computations().begin(), dag.computations().end()}, edges);
  reordered.set_clocks_asked(dag.clocks_asked());
  if (occupy_both) reordered.set_transfers_occupy_both();
  return reordered;
}

std::vector<PostedTransfers> posted_transfers(const ComputationDag& dag, int stage) {
  if (!dag.transfers_occupy_both()) return {};
  std::vector<PostedTransfers> posted;
  std::vector<bool> seen(at(dag.size()), false);
  PostedTransfers here{};
  for (const int i : dag.stage_order(stage)) {
    for (const std::int32_t p : dag.predecessors(i)) {
      if (dag.type_of(p).occupies_stage || seen[at(p)]) continue;
      seen[at(p)] = true;
      const bool forward = receiver_of(dag, p) > dag.type_of(p).stage;
      ++here[(forward ? 0U : 2U) + (dag.type_of(p).stage == stage ? 0U : 1U)];
    }
    if (!is_constant_operation(dag.type_of(i).instruction)) posted.push_back(std::exchange(here, {}));
  }
  return posted;
}

}  // namespace flyball
