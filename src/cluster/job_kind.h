// Kinds of jobs. All jobs that train one model with one batch size cost the same per iteration, at each size and speed
// that a scheduler may give them.
//
// A speed is a place on the kind's curve of time and energy, from thrifty (0) to fast. For a data-parallel job it is
// the clock of all its GPUs, for a pipeline-parallel job a point of its planner's frontier. A scheduler chooses
// (GPUs, speed) for both.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cluster/iteration_cost.h"

namespace flyball {

// The costs of an iteration by size and speed.
class CostSheet {
 public:
  CostSheet() = default;
  CostSheet(std::size_t sizes, std::size_t speeds) : speeds_(speeds), costs_(sizes * speeds) {}

  [[nodiscard]] IterationCost& at(std::size_t size, std::size_t speed) { return costs_[size * speeds_ + speed]; }
  [[nodiscard]] const IterationCost& at(std::size_t size, std::size_t speed) const {
    return costs_[size * speeds_ + speed];
  }
  [[nodiscard]] bool empty() const { return costs_.empty(); }

 private:
  std::size_t speeds_ = 0;
  std::vector<IterationCost> costs_;
};

// A kind of jobs.
struct ClusterJobKind {
  std::string model;
  double batch_size = 0.0;        // of all GPUs together
  bool elastic = true;            // false: a pipeline, which has one size only
  std::vector<int> sizes;         // GPUs, rising: powers of two, and what jobs of the kind asked for
  std::vector<Megahertz> clocks;  // of the speeds, rising; empty for a pipeline
  std::size_t speeds = 0;
  std::vector<double> memory_gib;  // by size: the need per GPU that jobs declare; 0: unknown, which counts as all of it
  std::optional<Seconds> restart;  // as measured; without, ClusterSpec::restart
  bool shrinks = false;            // its jobs can give up whole nodes while they run
  std::optional<Seconds> shrink;   // what that costs, as measured; without, a restart

  // The index of this number of GPUs in `sizes`, or -1.
  [[nodiscard]] int size_index(int gpus) const;
  // The sizes from which a scheduler that resizes jobs chooses: the powers of two that leave at least one sample for
  // every GPU, or the one size of a pipeline.
  [[nodiscard]] std::vector<int> elastic_sizes() const;
};

}  // namespace flyball
