// The workloads of the synthetic profiles: layers, their forward times on a GPU, and the published partitions into
// stages. Every workload is a data file (data/workloads/NAME.toml) that names its sources.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "profile/gpu_model.h"

namespace flyball {

struct Layer {
  std::string kind;  // "layer", "encoder", "head", ...
  Seconds forward;   // one microbatch on one GPU at the maximum clock
};

struct PublishedPartition {
  std::vector<int> bounds;  // stages + 1 layer indices
  double imbalance = 0.0;   // longest over shortest stage, as printed; 0 where nothing is printed
};

// A workload on one GPU model. Immutable; safe to share between threads.
struct WorkloadModel {
  std::string name;
  std::string title;
  std::string source;       // "Perseus tables 7 and 10"
  int microbatch_size = 0;  // samples; 0 where none is published
  int microbatches = 0;     // of one iteration and pipeline, as published; 0 where none is
  int tensor_parallel = 1;
  double backward_ratio = 0.0;  // backward over forward time
  std::vector<Layer> layers;
  Activity forward;
  Activity backward;
  bool fitted = false;  // false: the activities are the GPU's general ones
  // Only where an iteration of this workload was measured on this GPU: by how much the energy of an operation at any
  // clock is multiplied, so that an iteration takes the measured energy (docs/profiles.md). The layers' times are then
  // fitted to the measured time.
  std::optional<double> power_scale;
  std::vector<PublishedPartition> partitions;

  // The published bounds for that many stages; null when none are known.
  [[nodiscard]] const PublishedPartition* published(int stages) const;
};

// Returns the names of all workloads, sorted.
[[nodiscard]] std::vector<std::string> workload_models();

// Returns a workload. Throws UsageError, which names the known ones, when there is none of this name.
[[nodiscard]] WorkloadModel load_workload_model(std::string_view name, const GpuModel& gpu);

// Splits the layers, in order, so that the longest stage is as short as possible, with the earliest bounds among
// equals: what frameworks do when asked to balance time. Requires 1 <= stages <= layers. Cost O(stages * layers^2).
[[nodiscard]] std::vector<int> balanced_bounds(std::span<const Layer> layers, int stages);

}  // namespace flyball
