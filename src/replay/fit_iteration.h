// Fits the model of an iteration (iteration_model.h) to recorded points, by least squares:
//   - the times by clock and the latency of a clock change are fitted to the operations;
//   - the time of loading is the mean of its rows;
//   - transfers and the part once per iteration are fitted to iteration times, with the operations as measured;
//   - the powers are fitted to the stages' energies.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "replay/iteration_model.h"

namespace flyball {

// The least number of points that a fit needs. Fewer say nothing about powers.
inline constexpr std::size_t kLeastPoints = 5;

// Fits a model to the points of these indices. Throws InputError where there are fewer than kLeastPoints, or where the
// solver finds no model. Cost: some hundred replays per point.
[[nodiscard]] IterationModel fit_iteration(const RecordedIteration& iteration, const std::vector<std::size_t>& points);

// Both functions return the model as the text of a file: a profile (docs/formats/profile.md) with the columns time_sd
// and energy_sd and with rows for waiting, and a pipeline (docs/formats/pipeline-file.md). `iteration` must be the one
// that the model was fitted to.
[[nodiscard]] std::string fitted_profile(const RecordedIteration& iteration, const IterationModel& model);
[[nodiscard]] std::string fitted_pipeline(const RecordedIteration& iteration, const IterationModel& model);

}  // namespace flyball
