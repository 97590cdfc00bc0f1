// The parts of fit_iteration() that concern time. Each fills its own members of the model. Internal to replay/.
#pragma once

#include <cstddef>
#include <vector>

#include "replay/iteration_model.h"

namespace flyball {

// Fits the times by clock, the latency, and the first microbatch's ratio to the operations.
void fit_operations(const RecordedIteration& iteration, const std::vector<std::size_t>& points, IterationModel& model);

// Takes the time of loading as the mean of a stage's rows.
void fit_loading(const RecordedIteration& iteration, const std::vector<std::size_t>& points, IterationModel& model);

// Fits the transfers and the part once per iteration to iteration times, with the operations as they were measured.
// Throws InputError where the solver finds nothing.
void fit_transfers(const RecordedIteration& iteration, const std::vector<std::size_t>& points, IterationModel& model);

}  // namespace flyball
