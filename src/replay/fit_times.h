// The parts of fit_iteration that concern time. Each fills its own members of the model.
#pragma once

#include <cstddef>
#include <vector>

#include "replay/iteration_model.h"

namespace flyball {

// Times by clock, the latency and the first microbatch's ratio, from the operations.
void fit_operations(const RecordedIteration& iteration, const std::vector<std::size_t>& points, IterationModel& model);

// The mean of a stage's rows.
void fit_loading(const RecordedIteration& iteration, const std::vector<std::size_t>& points, IterationModel& model);

// Transfers and the part once per iteration, from iteration times with the operations as they were measured. Throws
// InputError where the solver finds nothing.
void fit_transfers(const RecordedIteration& iteration, const std::vector<std::size_t>& points, IterationModel& model);

}  // namespace flyball
