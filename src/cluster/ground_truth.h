// The simulator's truth: what an iteration really takes, from a table of measurements. The truth has another form than
// the performance models (job_model.h), so that their predictions can be wrong.
//
// Between measured points, the time per iteration and the power of a GPU are interpolated linearly in the logarithms:
// over clocks, then local batches, then nodes, then GPUs. Outside the measured range the nearest point is used, except
// that time continues as 1/f beyond the clocks. The shipped tables (data/cluster/*.csv) are synthetic:
// scripts/synth_cluster_tables says how they were made and to what they were calibrated.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cluster/iteration_cost.h"
#include "cluster/measurements.h"

namespace flyball {

// Immutable; safe to share between threads.
class GroundTruth {
 public:
  // Throws InputError, with `source` in its text, when a row has no energy.
  GroundTruth(const std::string& source, const MeasurementSet& measured);

  [[nodiscard]] const std::vector<std::string>& models() const { return models_; }
  [[nodiscard]] int find_model(std::string_view name) const;  // -1: none

  // The batch sizes (of all GPUs together) that were measured, rising.
  [[nodiscard]] const std::vector<int>& batch_sizes(int model) const;

  // Returns time and energy of an iteration. Cost: O(log points).
  [[nodiscard]] IterationCost at(int model, const JobConfiguration& configuration) const;

  // Returns how such a job uses each of its GPUs, interpolated as above; all 0 where the table does not say.
  [[nodiscard]] GpuUse use(int model, const JobConfiguration& configuration) const;

 private:
  // One axis of the table: logarithms in rising order, and for each the index into the next axis' tables or `points_`.
  struct Axis {
    std::vector<double> keys;
    std::vector<std::size_t> children;
  };
  struct Point {
    double log_time = 0.0;
    double log_power = 0.0;  // of one GPU
    GpuUse use;
  };

  [[nodiscard]] Point interpolate(std::size_t axis, std::size_t depth, const double* coordinates) const;

  std::vector<std::string> models_;
  std::vector<std::vector<int>> batch_sizes_;
  std::vector<std::size_t> roots_;  // by model: its axis of GPUs
  std::vector<Axis> axes_;
  std::vector<Point> points_;
};

// Returns the synthetic table that is shipped for this GPU model; short names such as "v100" are understood. Throws
// UsageError, which lists the models, where there is none.
[[nodiscard]] GroundTruth load_ground_truth(std::string_view gpu);
[[nodiscard]] std::vector<std::string> ground_truth_gpus();

}  // namespace flyball
