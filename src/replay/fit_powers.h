// The part of fit_iteration() that concerns power. Internal to replay/.
#pragma once

#include <cstddef>
#include <vector>

#include "replay/iteration_model.h"

namespace flyball {

// Fits the powers to the stages' energies, with the times that the model, whose times must be fitted already, predicts.
// Fills `power`, `waiting` and the powers of `costs`. Throws InputError where the solver finds nothing.
void fit_powers(const RecordedIteration& iteration, const std::vector<std::size_t>& points, IterationModel& model);

}  // namespace flyball
