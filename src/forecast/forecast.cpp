// Every stage is charged with its mean energy and time, as often as it occurs. Then, for each occurrence, nodes wait at
// idle power: at the barrier for the expected slowest draw, and at the end for the type that takes longest.
#include "forecast/forecast.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <numeric>
#include <tuple>
#include <utility>

#include "forecast/interruptions.h"
#include "forecast/run_interval.h"
#include "forecast/samples.h"

namespace flyball {
namespace {

constexpr std::array<Occurrence, 3> kOccurrences = {Occurrence::kRun, Occurrence::kEpoch, Occurrence::kIteration};

std::vector<TrainingStage> all_stages() {
  std::vector<TrainingStage> stages;
  for (std::size_t s = 0; s < kTrainingStages; ++s) stages.push_back(static_cast<TrainingStage>(s));
  return stages;
}

double times_in(const RunDescription& run, const RunPart& part, Occurrence occurrence) {
  switch (occurrence) {
    case Occurrence::kRun: return part.begin ? 1.0 : 0.0;
    case Occurrence::kEpoch: return part.iterations / run.iterations_per_epoch();
    case Occurrence::kIteration: return part.iterations;
  }
  return 0.0;
}

Seconds mean_time(const StageMeasurement& stage) {
  if (stage.times.empty()) return Seconds(0);
  return std::accumulate(stage.times.begin(), stage.times.end(), Seconds(0)) / static_cast<double>(stage.times.size());
}

PerComponent<Joules> mean_joules(const NodeType& type, const StageMeasurement& stage) {
  PerComponent<Joules> means{};
  const auto count = static_cast<double>(stage.times.size());
  for (std::size_t c = 0; c < kComponents; ++c) {
    for (std::size_t k = 0; k < stage.times.size(); ++k) means[c] += joules_of(type, stage, c, k) / count;
  }
  return means;
}

PerComponent<Joules> idle_joules(const NodeType& type, Seconds time) {
  PerComponent<Joules> joules{};
  for (std::size_t c = 0; c < kComponents; ++c) joules[c] = idle_power(type, c) * time;
  return joules;
}

// Charges what one node draws in one occurrence of a stage together with how long that takes, since neither may be
// charged without the other.
void charge(NodeTypeForecast& own, TrainingStage stage, double times, const PerComponent<Joules>& joules,
            Seconds time) {
  for (std::size_t c = 0; c < kComponents; ++c) own.stages[index_of(stage)][c] += times * own.count * joules[c];
  own.charged += times * time;
}

// Mean of the greatest of all nodes' draws, each from its type's empirical distribution: P(max <= x) is the product of
// F_type(x)^count, and the mean is the sum of x times its steps. If the nodes of a type are known to differ, each
// measured time is spread out by that much, normally.
Seconds expected_slowest(const RunDescription& run, const std::vector<Samples>& samples) {
  struct Draw {
    Seconds value;
    std::size_t type;
    double chance;
  };
  std::vector<Draw> draws;
  std::vector<double> below(samples.size(), 0.0);
  for (std::size_t t = 0; t < samples.size(); ++t) {
    if (samples[t].local.empty()) below[t] = 1.0;  // a type that has nothing of this occurrence is never the slowest
    const double spread = run.node_types[t].spread.value_or(0.0);
    constexpr double kStep = 0.125;
    constexpr double kFarthest = 6.0;  // standard deviations, enough for ten million nodes
    for (const Seconds value : samples[t].local) {
      const double share = 1.0 / static_cast<double>(samples[t].local.size());
      if (spread <= 0.0) draws.push_back({value, t, share});
      for (double z = -kFarthest; spread > 0.0 && z <= kFarthest; z += kStep) {
        const double density = std::exp(-0.5 * z * z) / std::sqrt(2.0 * std::numbers::pi);
        draws.push_back({(1.0 + spread * z) * value, t, share * kStep * density});
      }
    }
  }
  std::sort(draws.begin(), draws.end(),
            [](const Draw& a, const Draw& b) { return std::tie(a.value, a.type) < std::tie(b.value, b.type); });
  Seconds mean(0);
  double reached = 0.0;
  for (const Draw& draw : draws) {
    below[draw.type] += draw.chance;
    double product = 1.0;
    for (std::size_t u = 0; u < samples.size(); ++u) product *= std::pow(below[u], run.node_types[u].count);
    mean += (product - reached) * draw.value;
    reached = product;
  }
  return reached > 0.0 ? mean / reached : Seconds(0);  // reached is 1 but for rounding
}

// Mean power of all nodes of each type while iterations follow each other.
std::vector<PerComponent<Watts>> power_of_iterations(const RunDescription& run, const RunPart& part,
                                                     const RunForecast& forecast) {
  std::vector<PerComponent<Watts>> powers(run.node_types.size());
  for (std::size_t t = 0; t < run.node_types.size(); ++t) {
    const NodeType& type = run.node_types[t];
    const NodeTypeForecast& own = forecast.node_types[t];
    PerComponent<Joules> iterations{};
    for (std::size_t s = 0; s < kTrainingStages; ++s) {
      const StageMeasurement& stage = type.stages[s];
      const bool once = stage.stated && stage.occurrence == Occurrence::kRun && part.begin;
      const PerComponent<Joules> first = once ? mean_joules(type, stage) : PerComponent<Joules>{};
      for (std::size_t c = 0; c < kComponents; ++c) iterations[c] += own.stages[s][c] - own.count * first[c];
    }
    const Seconds waited = part.begin ? own.first_wait : Seconds(0);
    const Seconds time = forecast.iterations * own.iteration;
    for (std::size_t c = 0; c < kComponents; ++c) {
      iterations[c] -= own.count * (idle_power(type, c) * waited);
      if (time > Seconds(0)) powers[t][c] = std::max(Watts(0), iterations[c] / time);
    }
  }
  return powers;
}

// Adds how far the number of failures and their losses may be off, but no less than none.
void widen(IntervalHalves& halves, Joules deviation, Joules lost, double confidence) {
  const Joules half = normal_quantile(0.5 + 0.5 * confidence) * deviation;
  halves.above = Joules(std::hypot(halves.above.value(), half.value()));
  halves.below = Joules(std::hypot(halves.below.value(), std::min(half, lost).value()));
}

}  // namespace

Joules RunForecast::of(TrainingStage stage) const {
  const auto& parts = stages[index_of(stage)];
  return std::accumulate(parts.begin(), parts.end(), Joules(0));
}

Joules RunForecast::of(StageGroup group) const {
  Joules sum(0);
  for (const TrainingStage stage : all_stages()) {
    if (group_of(stage) == group) sum += of(stage);
  }
  return sum;
}

Joules RunForecast::of(Component component) const {
  Joules sum(0);
  for (const auto& parts : stages) sum += parts[index_of(component)];
  for (const InterruptionForecast& one : interruptions) {
    for (const auto& joules : one.joules) sum += joules[index_of(component)];
  }
  return sum;
}

Joules InterruptionForecast::energy() const {
  Joules sum(0);
  for (const auto& own : joules) sum += std::accumulate(own.begin(), own.end(), Joules(0));
  return sum;
}

RunForecast forecast_run(const RunDescription& run, double confidence) {
  return forecast_part(run, {run.epochs * run.iterations_per_epoch(), true}, confidence);
}

RunForecast forecast_part(const RunDescription& run, const RunPart& part, double confidence,
                          const std::vector<double>& power_variances) {
  RunForecast forecast;
  forecast.iterations = part.iterations;
  for (const NodeType& type : run.node_types) {
    NodeTypeForecast own;
    own.name = type.name;
    own.count = type.count;
    for (const TrainingStage which : all_stages()) {
      const StageMeasurement& stage = type.stage(which);
      if (stage.stated)
        charge(own, which, times_in(run, part, stage.occurrence), mean_joules(type, stage), mean_time(stage));
    }
    forecast.node_types.push_back(std::move(own));
  }

  const bool wait_measured = std::any_of(run.node_types.begin(), run.node_types.end(),
                                         [](const NodeType& type) { return type.stage(TrainingStage::kWait).stated; });
  std::vector<MeasuredPart> parts;
  Seconds first(0);  // what runs once takes
  for (const Occurrence occurrence : kOccurrences) {
    const double repeats = times_in(run, part, occurrence);
    std::vector<Samples> samples;
    for (const NodeType& type : run.node_types) samples.push_back(samples_of(type, occurrence));
    const Seconds slowest = wait_measured ? Seconds(0) : expected_slowest(run, samples);
    // Nodes end together: at the barrier, and again when the longest all-reduce is over.
    std::vector<Seconds> derived_waits;
    Seconds longest(0);
    for (const Samples& own : samples) {
      derived_waits.push_back(wait_measured ? Seconds(0) : slowest - mean_of(own.local));
      longest = std::max(longest, mean_of(own.whole) + derived_waits.back());
    }
    for (std::size_t t = 0; t < samples.size(); ++t) {
      const NodeType& type = run.node_types[t];
      NodeTypeForecast& own = forecast.node_types[t];
      const Seconds wait = longest - mean_of(samples[t].whole);
      charge(own, TrainingStage::kWait, repeats, idle_joules(type, wait), wait);
      const StageMeasurement& measured = type.stage(TrainingStage::kWait);
      const Seconds whole_wait =
          wait + (measured.stated && measured.occurrence == occurrence ? mean_time(measured) : Seconds(0));
      if (occurrence == Occurrence::kRun) {
        own.first_wait = whole_wait;
        continue;
      }
      const double a_iteration = repeats / forecast.iterations;
      own.local_time += a_iteration * mean_of(samples[t].local);
      own.wait += a_iteration * whole_wait;
      own.iteration += a_iteration * longest;
    }
    forecast.duration += repeats * longest;
    if (occurrence == Occurrence::kRun) first = repeats * longest;
    if (repeats > 0.0) parts.push_back({occurrence, repeats, std::move(samples), slowest});
  }

  std::vector<Joules> energies;
  for (NodeTypeForecast& own : forecast.node_types) {
    assert(std::abs(own.charged / forecast.duration - 1.0) < 1e-9 || forecast.duration <= Seconds(0));
    for (std::size_t s = 0; s < kTrainingStages; ++s) {
      for (std::size_t c = 0; c < kComponents; ++c) {
        own.energy += own.stages[s][c];
        forecast.stages[s][c] += own.stages[s][c];
      }
    }
    forecast.energy += own.energy;
  }
  Interruptions interruptions =
      interruptions_of(run, forecast.iterations, forecast.duration - first, power_of_iterations(run, part, forecast));
  for (InterruptionForecast& one : interruptions.list) {
    forecast.duration += one.time;
    forecast.energy += one.energy();
    for (std::size_t t = 0; t < run.node_types.size(); ++t) {
      forecast.node_types[t].charged += one.time;
      for (const Joules joules : one.joules[t]) forecast.node_types[t].energy += joules;
    }
    forecast.interruptions.push_back(std::move(one));
  }
  for (const NodeTypeForecast& own : forecast.node_types) energies.push_back(own.energy);
  IntervalHalves halves = interval_halves(run, parts, energies, confidence, {}, power_variances);
  widen(halves, interruptions.failure_deviation, interruptions.lost, confidence);
  forecast.interval = {confidence, std::max(Joules(0), forecast.energy - halves.below), forecast.energy + halves.above};
  return forecast;
}

std::vector<PowerPiece> power_over_time(const RunDescription& run, const RunForecast& forecast, std::size_t type,
                                        std::size_t pieces) {
  constexpr std::array<TrainingStage, 13> kOrder = {
      TrainingStage::kSetDataset,     TrainingStage::kModelInOut,    TrainingStage::kModelTransfer,
      TrainingStage::kLoadData,       TrainingStage::kPreprocess,    TrainingStage::kTransfer,
      TrainingStage::kForward,        TrainingStage::kForwardMemory, TrainingStage::kBackward,
      TrainingStage::kBackwardMemory, TrainingStage::kWait,          TrainingStage::kCommunication,
      TrainingStage::kUpdate};
  const NodeType& node = run.node_types[type];
  const NodeTypeForecast& own = forecast.node_types[type];
  std::vector<PowerPiece> list;
  Seconds now(0);
  const auto add = [&](TrainingStage which, Seconds time, Watts power) {
    if (time <= Seconds(0) || list.size() == pieces) return;
    list.push_back({now, now + time, which, power});
    now += time;
  };
  const auto sum_of = [](const PerComponent<Joules>& joules) {
    return std::accumulate(joules.begin(), joules.end(), Joules(0));
  };
  const auto iterations = static_cast<std::size_t>(std::max(1L, std::lround(std::min(forecast.iterations, 1e6))));
  for (std::size_t i = 0; i <= iterations && list.size() < pieces; ++i) {  // 0: what comes before the first
    const std::size_t before = list.size();
    for (const TrainingStage which : kOrder) {
      const StageMeasurement& stage = node.stage(which);
      Seconds measured(0);
      if (stage.stated && (stage.occurrence == Occurrence::kRun) == (i == 0)) {
        const double share = stage.occurrence == Occurrence::kEpoch ? 1.0 / run.iterations_per_epoch() : 1.0;
        measured = share * mean_time(stage);
        if (measured > Seconds(0)) add(which, measured, sum_of(mean_joules(node, stage)) / mean_time(stage));
      }
      if (which != TrainingStage::kWait) continue;
      const Seconds rest = (i == 0 ? own.first_wait : own.wait) - measured;
      if (rest > 1e-9 * own.iteration) add(which, rest, sum_of(idle_joules(node, Seconds(1))) / Seconds(1));
    }
    if (i > 0 && list.size() == before) break;
  }
  return list;
}

}  // namespace flyball
