// The computation DAG of one training iteration: what runs, on which stage, after what.
//
// Nodes are operations (computations, and constant-time operations such as transfers); an edge says that one must end
// before the other begins. Operations of the same stage and instruction share one OperationType and so one set of
// measured options, which the solver relies on. Nodes are numbered in topological order, so that every pass over the
// schedule is one loop over an array.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/names.h"
#include "base/units.h"
#include "pipeline/schedule.h"
#include "profile/profile.h"

namespace flyball {

// When an engine asks for the clock of a computation.
enum class ClocksAsked {
  kAtBegin,   // when the computation begins, as Zeus's pipeline client does: a stage waits at the clock of its last one
  kWhenFree,  // as soon as the one before has ended, as Flyball's sessions do: a wait is at the next one's clock, and
              // may hide the change
  kAhead,     // while the one before runs, as long before its end as the change takes: sessions with lead time
};
template <>
inline constexpr auto kNamesOf<ClocksAsked> = name_list("at-begin", "when-free", "ahead");

struct OperationType {
  int stage = 0;
  std::string instruction;
  // Measured options as in the profile, highest clock first and within a clock fastest first.
  std::vector<ClockOption> options;
  // False for transfers: they delay their successor, but the stage's GPU may compute meanwhile and, while it does not,
  // is charged as blocking.
  bool occupies_stage = true;
  // What the stage draws above its blocking power while it waits at an option's clock, after an operation that ran at
  // it; one per option. Empty where waiting costs the same at all clocks, and for operations that keep the clock.
  std::vector<Watts> waiting_above{};
  // Whether the stage waits meanwhile and draws what waiting does: its energy is that at the blocking power.
  bool waits = false;
  LabelTable labels{};  // of the options
};

struct Computation {
  std::int32_t type = 0;
  std::int32_t microbatch = 0;  // -1 for operations of the whole iteration
  std::int32_t chunk = 0;
};

// Immutable once build_dag() has returned it; safe to share between threads.
class ComputationDag {
 public:
  struct Edge {
    std::int32_t before = 0;
    std::int32_t after = 0;
  };

  // Takes nodes in any order and renumbers them topologically (by start level, then in the given order). Edges may be
  // repeated. Throws InputError naming the nodes of a cycle, and when all operations together take more than 2e9 s at
  // their slowest. Cost O(nodes + edges).
  ComputationDag(std::string source, int stages, std::vector<OperationType> types,
                 std::vector<Computation> computations, const std::vector<Edge>& edges);

  // Sets OperationType::waiting_above, one power per option, and OperationType::waits.
  void set_waiting_above(std::size_t type, std::vector<Watts> powers) {
    types_[type].waiting_above = std::move(powers);
  }
  void set_waits(std::size_t type) { types_[type].waits = true; }
  // Sets at which clock stages wait with free changes; LateClocks is told for itself when late ones are asked for.
  void set_clocks_asked(ClocksAsked asked) { clocks_asked_ = asked; }
  // Says that transfers occupy both stages (PipelineSpec): each waits for what both run before it, and both wait.
  void set_transfers_occupy_both() { transfers_occupy_both_ = true; }

  [[nodiscard]] ClocksAsked clocks_asked() const { return clocks_asked_; }
  [[nodiscard]] bool transfers_occupy_both() const { return transfers_occupy_both_; }
  [[nodiscard]] int size() const { return static_cast<int>(computations_.size()); }
  [[nodiscard]] int stages() const { return stages_; }
  [[nodiscard]] std::size_t edge_count() const { return predecessors_.size(); }
  [[nodiscard]] const Computation& operator[](int i) const { return computations_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::span<const Computation> computations() const { return computations_; }
  [[nodiscard]] std::span<const OperationType> types() const { return types_; }
  [[nodiscard]] const OperationType& type_of(int i) const { return types_[static_cast<std::size_t>((*this)[i].type)]; }
  [[nodiscard]] std::span<const std::int32_t> predecessors(int i) const {
    return {predecessors_.data() + pred_begin_[static_cast<std::size_t>(i)],
            predecessors_.data() + pred_begin_[static_cast<std::size_t>(i) + 1]};
  }
  [[nodiscard]] std::span<const std::int32_t> successors(int i) const {
    return {successors_.data() + succ_begin_[static_cast<std::size_t>(i)],
            successors_.data() + succ_begin_[static_cast<std::size_t>(i) + 1]};
  }
  // The operations that occupy a stage, in the order in which it runs them.
  [[nodiscard]] std::span<const std::int32_t> stage_order(int stage) const {
    return stage_order_[static_cast<std::size_t>(stage)];
  }
  // Returns the node's index in the constructor's list.
  [[nodiscard]] int original_index(int i) const { return original_[static_cast<std::size_t>(i)]; }
  // "F12 stage 3"; "F12/1 stage 3" for model chunk 1, for messages and pictures.
  [[nodiscard]] std::string label(int i) const;

 private:
  int stages_;
  ClocksAsked clocks_asked_ = ClocksAsked::kAtBegin;
  bool transfers_occupy_both_ = false;
  std::vector<OperationType> types_;
  std::vector<Computation> computations_;
  std::vector<std::int32_t> original_;
  std::vector<std::size_t> pred_begin_, succ_begin_;
  std::vector<std::int32_t> predecessors_, successors_;
  std::vector<std::vector<std::int32_t>> stage_order_;
};

// Returns the nodes of a cycle, each before the next and the last before the first; nothing where there is none.
[[nodiscard]] std::vector<std::int32_t> find_cycle(std::size_t nodes, const std::vector<ComputationDag::Edge>& edges);

}  // namespace flyball
