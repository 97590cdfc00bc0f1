// How far off a job model is on measurements that it has not seen.
#pragma once

#include <cstddef>
#include <span>

#include "cluster/job_model.h"
#include "cluster/random.h"

namespace flyball {

struct HeldOutFit {
  JobModel model;          // fitted to the rows that were not held out
  std::size_t fitted = 0;  // rows
  std::size_t held = 0;    // rows
  ModelError on_fitted;
  ModelError on_held;  // NaN where no row is held out
};

// Holds out each row with the probability `share` (from 0 to 1), drawn from `random` row by row, fits a model to the
// rest and compares it with both. Where every row would be held out, all are fitted to instead. Throws what
// fit_job_model() does.
[[nodiscard]] HeldOutFit fit_held_out(std::span<const JobMeasurement> measured, Megahertz f0, double share,
                                      Random& random);

}  // namespace flyball
