// The parts of a predicted time are told apart by replaying the point again and again, each time with one more part of
// the model switched on. A part is the time that it adds.
#include "replay/judged_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/index.h"

namespace flyball {
namespace {

RecordedRuns joined(const RecordedRuns& runs, const std::vector<RecordedRuns>& besides) {
  std::vector<RecordedRuns> all = {runs};
  all.insert(all.end(), besides.begin(), besides.end());
  return join_runs(std::move(all));
}

}  // namespace

JudgedPoint judge_point(const RecordedIteration& iteration, const IterationModel& model, const RecordedPoint& point) {
  ReplayParts parts{false, false, false, false, false};
  std::vector<Nanoseconds> finish(at(iteration.dag().size()));
  Seconds so_far;
  const auto added = [&] {
    const Seconds now = to_seconds(makespan(iteration.dag(), iteration.durations(model, point, parts), finish));
    const Seconds step = now - so_far;
    so_far = now;
    return step;
  };
  JudgedPoint judged;
  judged.measured = &point;
  judged.computations = added();
  parts.loading = true;
  judged.loading = added();
  parts.transfers = true;
  judged.transfers = added();
  parts.once = true;
  judged.once = added();
  parts.switching = true;
  judged.switching = added();
  judged.time = so_far;
  const auto use = clock_use(iteration, point, iteration.durations(model, point, parts));
  for (const StageEnergy& energy : stage_energies(model, use)) {
    judged.waiting += energy.waiting;
    judged.energy += energy.computing + energy.waiting;
  }
  parts.measured_operations = true;
  judged.operations = added();
  judged.rest = point.time - so_far;
  return judged;
}

std::vector<JudgedPoint> judge_points(const RecordedIteration& iteration, const IterationModel& model) {
  const RecordedRuns& runs = iteration.runs();
  if (model.instructions != runs.instructions || model.loading.size() != at(runs.stages)) {
    throw InputError(
        {runs.source},
        fmt::format("these runs have {} with {}, what was fitted has {} with {}", counted(runs.stages, "stage"),
                    fmt::join(runs.instructions, ", "), counted(static_cast<long>(model.loading.size()), "stage"),
                    fmt::join(model.instructions, ", ")),
        "fit to runs of the same pipeline");
  }
  std::vector<JudgedPoint> judged;
  for (const std::size_t p : runs.judged()) judged.push_back(judge_point(iteration, model, runs.points[p]));
  return judged;
}

std::vector<JudgedPoint> judge_held_out(const RecordedIteration& iteration, const std::vector<RecordedRuns>& besides) {
  const RecordedRuns& runs = iteration.runs();
  const std::vector<std::size_t> points = runs.judged();
  if (points.size() < 2 * kLeastPoints) {
    throw InputError(
        {runs.source},
        fmt::format("there are {} to judge by; to fit to every other one and judge the rest, {} are needed",
                    counted(static_cast<long>(points.size()), "point"), 2 * kLeastPoints),
        "record more plans, or name runs of the same pipeline to fit to with --fitted-to");
  }
  std::array<std::vector<std::size_t>, 2> halves;
  for (std::size_t k = 0; k < points.size(); ++k) halves[k % 2].push_back(points[k]);
  std::optional<RecordedRuns> all;  // no copy where there are no others
  if (!besides.empty()) all = joined(runs, besides);
  const RecordedIteration of_all(all ? *all : runs, iteration.schedule());
  for (const std::size_t p : of_all.runs().judged()) {
    if (p < runs.points.size()) continue;
    for (auto& half : halves) half.push_back(p);
  }
  const std::array<IterationModel, 2> models = {fit_iteration(of_all, halves[0]), fit_iteration(of_all, halves[1])};
  std::vector<JudgedPoint> judged;
  for (std::size_t k = 0; k < points.size(); ++k) {
    judged.push_back(judge_point(iteration, models[1 - k % 2], runs.points[points[k]]));
  }
  return judged;
}

Agreement agreement_of(const std::vector<JudgedPoint>& points) {
  Agreement agreement;
  const auto n = static_cast<double>(points.size());
  const auto count = [&](double off, double& mean, double& worst) {
    mean += std::abs(off) / n;
    worst = std::max(worst, std::abs(off));
  };
  for (const JudgedPoint& point : points) {
    count(point.time_off_pct(), agreement.mean_time, agreement.worst_time);
    count(point.energy_off_pct(), agreement.mean_energy, agreement.worst_energy);
    count(point.rest_pct(), agreement.mean_rest, agreement.worst_rest);
  }
  return agreement;
}

Judgement judge_runs(RecordedRuns runs, const OtherRuns& others, ScheduleKind schedule) {
  Judgement judgement;
  judgement.runs = std::move(runs);
  judgement.schedule = schedule;
  const RecordedIteration iteration(judgement.runs, schedule);
  const auto fit_to = [&](const RecordedRuns& seen) {
    const IterationModel model = fit_iteration(RecordedIteration(seen, schedule), seen.judged());
    judgement.time_constants = model.time_constants;
    judgement.power_constants = model.power_constants;
    return model;
  };
  if (!others.alone.empty()) {
    const RecordedRuns all = join_runs(others.alone);
    judgement.fitted_to = all.source;
    judgement.points = judge_points(iteration, fit_to(all));
  } else {
    judgement.points = judge_held_out(iteration, others.besides);
    if (others.besides.empty()) {
      judgement.fitted_to_all = agreement_of(judge_points(iteration, fit_to(judgement.runs)));
    } else {
      judgement.also_fitted_to = join_runs(others.besides).source;
      judgement.fitted_to_all = agreement_of(judge_points(iteration, fit_to(joined(judgement.runs, others.besides))));
    }
  }
  judgement.agreement = agreement_of(judgement.points);
  return judgement;
}

}  // namespace flyball
