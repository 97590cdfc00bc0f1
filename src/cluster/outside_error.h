// How far off the time model is outside of the sizes that it was fitted to: what a scheduler relies on when it gives a
// job more GPUs than it has seen.
#pragma once

#include <array>
#include <span>

#include "cluster/iteration_cost.h"

namespace flyball {

// For n = 1, 2, 4, ... a model is fitted to all packed configurations of up to n GPUs and says how much longer or
// shorter an iteration takes on 2 n with the same batch and clock; held against the medians of what was measured on
// both.
struct OutsideError {
  struct Step {
    int count = 0;
    double error = 0.0;  // mean absolute, of the predicted time over the measured one; NaN for none
  };
  // Both within a node; from one node to two; several nodes each.
  std::array<Step, 3> steps;
};
// A node has as many GPUs as the largest configuration on one.
[[nodiscard]] OutsideError outside_error(std::span<const JobMeasurement> measured, Megahertz f0);

}  // namespace flyball
