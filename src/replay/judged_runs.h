// Judges a model of an iteration by recorded points: compares its prediction for each point with what was measured, and
// tells which parts the predicted time consists of.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "replay/fit_iteration.h"

namespace flyball {

// The prediction for one point. The parts from `computations` to `switching` add up to the predicted time; with
// `operations` and `rest` they add up to the measured time.
struct JudgedPoint {
  const RecordedPoint* measured = nullptr;  // not owned
  Seconds time;                             // predicted
  Joules energy;                            // predicted
  Joules waiting;                           // the part of `energy` that is drawn while nothing computes

  Seconds computations;  // the iteration time if nothing but computations took time
  Seconds loading;       // how much longer loading makes the iteration; each part below adds to those above it
  Seconds transfers;
  Seconds once;        // the part once per iteration
  Seconds switching;   // clock changes that take hold late
  Seconds operations;  // added where operations take the times measured at this point instead of the model's
  Seconds rest;        // what remains unexplained

  [[nodiscard]] double time_off_pct() const { return 100.0 * (time / measured->time - 1.0); }
  [[nodiscard]] double energy_off_pct() const { return 100.0 * (energy / measured->energy - 1.0); }
  [[nodiscard]] double rest_pct() const { return 100.0 * (rest / measured->time); }
};

// Absolute deviations over points, in per cent of the measured values: mean and largest.
struct Agreement {
  double mean_time = 0.0;
  double worst_time = 0.0;
  double mean_energy = 0.0;
  double worst_energy = 0.0;
  double mean_rest = 0.0;
  double worst_rest = 0.0;
};
[[nodiscard]] Agreement agreement_of(const std::vector<JudgedPoint>& points);

// Judges the model by one point, which must outlive the result. The model must be of the same pipeline.
[[nodiscard]] JudgedPoint judge_point(const RecordedIteration& iteration, const IterationModel& model,
                                      const RecordedPoint& point);

// Judges the model by every point of the runs that does not warm up. Throws InputError where the model is of other
// stages or instructions than the runs.
[[nodiscard]] std::vector<JudgedPoint> judge_points(const RecordedIteration& iteration, const IterationModel& model);

// Judges each point by a model that was fitted without it: the points in odd places are predicted by a model that was
// fitted to those in even places, and the other way round. Both models are also fitted to all points of `besides`,
// other runs of the same pipeline. Throws InputError where a half is too small to fit, and as join_runs() does.
[[nodiscard]] std::vector<JudgedPoint> judge_held_out(const RecordedIteration& iteration,
                                                      const std::vector<RecordedRuns>& besides = {});

// What is said of recorded runs: each point predicted by a model that has not seen it, and how well a fit to all of
// them would do. Its points refer to its runs, so that it is moved and never copied.
struct Judgement {
  Judgement() = default;
  Judgement(Judgement&&) = default;
  Judgement& operator=(Judgement&&) = default;

  RecordedRuns runs;
  ScheduleKind schedule = ScheduleKind::k1f1b;
  std::optional<std::string> fitted_to;       // the source of OtherRuns::alone; none: each point by every other one
  std::optional<std::string> also_fitted_to;  // the sources of OtherRuns::besides
  std::vector<JudgedPoint> points;
  Agreement agreement;                     // of `points`
  std::optional<Agreement> fitted_to_all;  // of a model that has seen these points; only without other runs
  int time_constants = 0;                  // of the model that was fitted to all, or to the other runs
  int power_constants = 0;
};

// Other runs of the same pipeline that a judgement fits to: of one kind, or none.
struct OtherRuns {
  std::vector<RecordedRuns> alone;    // instead of the judged runs
  std::vector<RecordedRuns> besides;  // besides that half of the judged runs in which a point is not
};

// Judges `runs` by what is fitted to others, or held out. Throws InputError as judge_points(), judge_held_out() and
// join_runs() do, and where there are too few points to fit to. Fits up to three models.
[[nodiscard]] Judgement judge_runs(RecordedRuns runs, const OtherRuns& others, ScheduleKind schedule);

}  // namespace flyball
