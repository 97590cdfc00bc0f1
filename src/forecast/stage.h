// The stages of data-parallel training and the components of a node, as MC2 names them.
//
// Source of all equations cited in this folder: Wei et al., "MC2 Energy Consumption Model for Massively Distributed
// Data Parallel Training of Deep Neural Network", Journal of Computer Research and Development, 2024.
#pragma once

#include <array>
#include <cstddef>

#include "base/names.h"

namespace flyball {

enum class Component { kProcessor, kAccelerator, kMemory, kDisk, kNetwork };
template <>
inline constexpr auto kNamesOf<Component> = name_list("processor", "accelerator", "memory", "disk", "network");
inline constexpr std::size_t kComponents = kNamesOf<Component>.size();

enum class TrainingStage {
  kSetDataset,      // eq. 19: index the node's share of the data set
  kLoadData,        // eq. 20: a batch from disk to memory
  kPreprocess,      // eq. 21
  kTransfer,        // eq. 22: a batch from memory to the accelerator's
  kModelInOut,      // eqs. 25-26: the model from disk to memory, and back at the end
  kModelTransfer,   // eqs. 27-28: the model to the accelerator's memory, and back at the end
  kForward,         // eq. 29; with eq. 30 unless forward_memory is measured apart
  kForwardMemory,   // eq. 30
  kBackward,        // eq. 31; with eq. 32 unless backward_memory is measured apart
  kBackwardMemory,  // eq. 32
  kCommunication,   // eq. 36: the gradients' all-reduce
  kUpdate,          // eq. 37
  kWait,            // eqs. 39-40: for the slowest node, all components idle
};
template <>
inline constexpr auto kNamesOf<TrainingStage> = name_list("set_dataset", "load_data", "preprocess", "transfer",
                                                          "model_in_out", "model_transfer", "forward", "forward_memory",
                                                          "backward", "backward_memory", "communication", "update",
                                                          "wait");
inline constexpr std::size_t kTrainingStages = kNamesOf<TrainingStage>.size();

// The three groups of stages by which MC2 sums up energy. The wait for the slowest node is part of communicating, as in
// table 7 of the paper.
enum class StageGroup { kPreprocess, kCompute, kCommunicate };
template <>
inline constexpr auto kNamesOf<StageGroup> = name_list("preprocess", "compute", "communicate");
inline constexpr std::size_t kStageGroups = kNamesOf<StageGroup>.size();

// How often a stage runs: once a run, once an epoch, or once an iteration.
enum class Occurrence { kRun, kEpoch, kIteration };
template <>
inline constexpr auto kNamesOf<Occurrence> = name_list("run", "epoch", "iteration");

template <class Value>
using PerComponent = std::array<Value, kComponents>;
template <class Value>
using PerStage = std::array<Value, kTrainingStages>;

[[nodiscard]] constexpr std::size_t index_of(Component component) { return static_cast<std::size_t>(component); }
[[nodiscard]] constexpr std::size_t index_of(TrainingStage stage) { return static_cast<std::size_t>(stage); }
[[nodiscard]] constexpr std::size_t index_of(StageGroup group) { return static_cast<std::size_t>(group); }

[[nodiscard]] StageGroup group_of(TrainingStage stage);

// Returns kRun for the stages that eqs. 23 and 33 weigh by BN/n (data set, model), and kIteration for all others.
[[nodiscard]] Occurrence usual_occurrence(TrainingStage stage);

// Returns which components work in a stage where nothing else is stated. As in eq. 42, a processor that only issues
// reads and writes counts as idle, and so does an accelerator of which only the memory is written. The accelerator
// computes where there is one, else the processor.
[[nodiscard]] PerComponent<bool> usual_activity(TrainingStage stage, bool accelerator);

}  // namespace flyball
