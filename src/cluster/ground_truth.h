// The simulator's truth: what an iteration really takes, from a table of measurements. It is not of the form of the
// performance models (job_model.h), so that what they predict can be wrong.
//
// Between measured points, the time per iteration and the power of a GPU are interpolated linearly in the logarithms:
// over clocks, then local batches, then nodes, then GPUs. Outside the measured range the nearest point holds, except
// that time goes on as 1/f beyond the clocks. The shipped tables (data/cluster/*.csv) are synthetic: scripts/
// synth_cluster_tables says how they were made and what they were calibrated to.
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
  // Throws InputError (`source` names the set) where a row lacks its energy: nothing could be said about power.
  GroundTruth(const std::string& source, const MeasurementSet& measured);

  [[nodiscard]] const std::vector<std::string>& models() const { return models_; }
  [[nodiscard]] int find_model(std::string_view name) const;  // -1: none

  // The batch sizes (of all GPUs together) that were measured, rising.
  [[nodiscard]] const std::vector<int>& batch_sizes(int model) const;

  // O(log points).
  [[nodiscard]] IterationCost at(int model, const JobConfiguration& configuration) const;

  // What such a job takes of each GPU, interpolated linearly over the same logarithms; all 0 where the table does not
  // say.
  [[nodiscard]] GpuUse use(int model, const JobConfiguration& configuration) const;

 private:
  // One axis of the table: rising logarithms, and what lies at each (an index into the next axis' tables, or
  // `points_`).
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

// The synthetic table shipped for that GPU model, short names included ("v100", "a100"). Throws UsageError naming those
// there are.
[[nodiscard]] GroundTruth load_ground_truth(std::string_view gpu);
[[nodiscard]] std::vector<std::string> ground_truth_gpus();

}  // namespace flyball
