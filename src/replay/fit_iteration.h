// Fits the model of an iteration to recorded points, by least squares:
//   - times by clock and the latency of a clock change, to the operations;
//   - loading: the mean of its rows;
//   - transfers and the part once per iteration, to iteration times, with the operations as they were measured;
//   - powers, to the stages' energies.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "replay/iteration_model.h"

namespace flyball {

// Fewer points say nothing about powers.
inline constexpr std::size_t kLeastPoints = 5;

// Fits to the points of these indices. Throws InputError where there are fewer than kLeastPoints, or where no model
// fits. Cost: some hundred replays per point.
[[nodiscard]] IterationModel fit_iteration(const RecordedIteration& iteration, const std::vector<std::size_t>& points);

// The model as files: a profile (docs/formats/profile.md) with the columns time_sd and energy_sd and with rows for
// waiting, and a pipeline (docs/formats/pipeline-file.md).
[[nodiscard]] std::string fitted_profile(const RecordedIteration& iteration, const IterationModel& model);
[[nodiscard]] std::string fitted_pipeline(const RecordedIteration& iteration, const IterationModel& model);

}  // namespace flyball
