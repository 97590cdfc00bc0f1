// Judges a model of an iteration by recorded points: what it predicts beside what was measured, and of what the
// prediction consists.
#pragma once

#include <functional>
#include <vector>

#include "replay/fit_iteration.h"

namespace flyball {

// What was predicted of one point. The parts add up: computations to switching to the predicted time, and with
// `operations` and `rest` to the measured one.
struct JudgedPoint {
  const RecordedPoint* measured = nullptr;
  Seconds time;    // predicted
  Joules energy;   // predicted
  Joules waiting;  // of that, while nothing computes

  Seconds computations;  // with nothing beside them
  Seconds loading;       // by how much it makes that longer, and so on
  Seconds transfers;
  Seconds once;
  Seconds switching;
  Seconds operations;  // as they were measured at this point, not as the profile has them
  Seconds rest;        // not explained

  [[nodiscard]] double time_off_pct() const { return 100.0 * (time / measured->time - 1.0); }
  [[nodiscard]] double energy_off_pct() const { return 100.0 * (energy / measured->energy - 1.0); }
  [[nodiscard]] double rest_pct() const { return 100.0 * (rest / measured->time); }
};

// Absolute values in per cent, over points.
struct Agreement {
  double mean_time = 0.0;
  double worst_time = 0.0;
  double mean_energy = 0.0;
  double worst_energy = 0.0;
  double mean_rest = 0.0;
  double worst_rest = 0.0;
};
[[nodiscard]] Agreement agreement_of(const std::vector<JudgedPoint>& points);

[[nodiscard]] JudgedPoint judge_point(const RecordedIteration& iteration, const IterationModel& model,
                                      const RecordedPoint& point);

// Every judged point by a model. Throws InputError where the model is of other stages or instructions than the runs.
[[nodiscard]] std::vector<JudgedPoint> judge_points(const RecordedIteration& iteration, const IterationModel& model);

// The same, each point by a model that was fitted to every other point, itself not among them: the points of odd place
// are predicted from those of even place, and the other way round. Throws InputError where a half is too small to fit.
[[nodiscard]] std::vector<JudgedPoint> judge_held_out(const RecordedIteration& iteration);

}  // namespace flyball
