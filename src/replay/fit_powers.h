// The part of fit_iteration that concerns power.
#pragma once

#include <cstddef>
#include <vector>

#include "replay/iteration_model.h"

namespace flyball {

// Powers from the stages' energies, with times as the model has them; fills `power`, `waiting` and the powers
// of `costs`. The model has its times already. Throws InputError where the solver finds nothing.
void fit_powers(const RecordedIteration& iteration, const std::vector<std::size_t>& points, IterationModel& model);

}  // namespace flyball
