// Finds what a run description says that is possible, and yet more likely a mistake.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "forecast/run_description.h"
#include "forecast/samples.h"

namespace flyball {
namespace {

// One node's component hardly draws more watts. A power in milliwatts that was taken for watts does.
constexpr PerComponent<double> kMuchWatts = {5'000, 30'000, 1'000, 500, 1'000};
constexpr double kMuchBatch = 32'768;  // samples of all nodes in an iteration; few models learn from more
constexpr double kFewIterations = 20;  // of an epoch
constexpr double kLongStage = 10;      // times all other stages of an iteration together
constexpr double kUnlikeForwardBackward = 20;

void doubt_batch(const RunDescription& run, std::vector<std::string>& doubts) {
  if (run.nodes() == 1) return;
  double samples = 0.0;
  const NodeType* largest = &run.node_types.front();
  for (const NodeType& type : run.node_types) {
    samples += type.count * type.batch;
    if (type.batch > largest->batch) largest = &type;
  }
  const double share = largest->batch / static_cast<double>(run.nodes());
  if (share < 1.0) return;
  // A small batch that cannot be divided evenly among the nodes is hardly meant for all of them.
  const bool even = std::floor(share) == share;
  if (samples <= kMuchBatch && (!even || run.iterations_per_epoch() >= kFewIterations)) return;
  doubts.push_back(
      fmt::format("batch = {} on each of {} nodes makes {} samples an iteration and {:.3g} iterations an "
                  "epoch: batch is of one node; if all nodes share it, write {}",
                  largest->batch, run.nodes(), samples, run.iterations_per_epoch(),
                  even ? fmt::format("{}", share) : "how many of them one node takes"));
}

void doubt_powers(const NodeType& type, std::vector<std::string>& doubts) {
  for (std::size_t c = 0; c < kComponents; ++c) {
    const std::string_view name = kNamesOf<Component>[c];
    const auto doubt = [&](Watts power, const std::string& where) {
      if (power.value() <= kMuchWatts[c]) return;
      doubts.push_back(
          fmt::format("{} of '{}' draws {:.6g} W{}, more than one node's usually can: write watts, not milliwatts",
                      name, type.name, power.value(), where));
    };
    if (type.components[c]) doubt(type.components[c]->active, "");
    for (std::size_t s = 0; s < kTrainingStages; ++s) {
      const auto& own = type.stages[s].power[c];
      if (own) doubt(*own, fmt::format(" in {}", kNamesOf<TrainingStage>[s]));
    }
  }
}

void doubt_times(const RunDescription& run, const NodeType& type, std::vector<std::string>& doubts) {
  PerStage<Seconds> times{};  // of an iteration
  Seconds sum(0);
  for (std::size_t s = 0; s < kTrainingStages; ++s) {
    const StageMeasurement& stage = type.stages[s];
    if (!stage.stated || stage.occurrence == Occurrence::kRun) continue;
    times[s] = mean_of(stage.times) / (stage.occurrence == Occurrence::kEpoch ? run.iterations_per_epoch() : 1.0);
    sum += times[s];
  }
  const Seconds forward = times[index_of(TrainingStage::kForward)];
  const Seconds backward = times[index_of(TrainingStage::kBackward)];
  if (std::min(forward, backward) > Seconds(0) &&
      std::max(forward, backward) > kUnlikeForwardBackward * std::min(forward, backward)) {
    doubts.push_back(
        fmt::format("forward of '{}' takes {:.4g} s and backward {:.4g} s, which are seldom so unlike: are both in "
                    "the same unit?",
                    type.name, forward.value(), backward.value()));
    return;
  }
  for (std::size_t s = 0; s < kTrainingStages; ++s) {
    const Seconds others = sum - times[s];
    if (others <= Seconds(0) || times[s] <= kLongStage * others) continue;
    doubts.push_back(
        fmt::format("{} of '{}' takes {:.4g} s of an iteration, all other stages together {:.4g} s: if it is "
                    "in milliseconds, write milliseconds = ...",
                    kNamesOf<TrainingStage>[s], type.name, times[s].value(), others.value()));
    return;
  }
}

}  // namespace

std::vector<std::string> doubts_of(const RunDescription& run) {
  std::vector<std::string> doubts;
  doubt_batch(run, doubts);
  for (const NodeType& type : run.node_types) {
    doubt_powers(type, doubts);
    doubt_times(run, type, doubts);
  }
  const bool all_timed = std::all_of(run.node_types.begin(), run.node_types.end(),
                                     [](const NodeType& type) { return !type.spans_file.empty(); });
  if (!run.iteration && !all_timed) {
    doubts.emplace_back(
        "stage times are unchecked (minutes for seconds would go unseen): add iteration_seconds to "
        "RUN.toml");
  }
  const bool repeated = std::any_of(run.node_types.begin(), run.node_types.end(), [](const NodeType& type) {
    return std::any_of(type.stages.begin(), type.stages.end(),
                       [](const StageMeasurement& stage) { return stage.times.size() > 1; });
  });
  if (!repeated) doubts.emplace_back("the interval rests on usual spreads: list the times of several iterations");
  return doubts;
}

}  // namespace flyball
