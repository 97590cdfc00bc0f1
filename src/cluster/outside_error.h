// How far off the time model is beyond the sizes that it was fitted to. A scheduler relies on the model there when it
// gives a job more GPUs than the job has had.
#pragma once

#include <array>
#include <span>

#include "cluster/iteration_cost.h"

namespace flyball {

// For n = 1, 2, 4, ..., a model is fitted to all packed configurations of up to n GPUs and predicts by what factor the
// time of an iteration changes on 2 n, with the same batch and clock. This is compared with the medians measured on n
// and 2 n.
struct OutsideError {
  struct Step {
    int count = 0;
    double error = 0.0;  // mean absolute error of the predicted time over the measured one; NaN for none
  };
  // In order: both sizes within a node; from one node to two; both on several nodes.
  std::array<Step, 3> steps;
};
// Computes these errors. A node is taken to have as many GPUs as the largest configuration on one node.
[[nodiscard]] OutsideError outside_error(std::span<const JobMeasurement> measured, Megahertz f0);

}  // namespace flyball
