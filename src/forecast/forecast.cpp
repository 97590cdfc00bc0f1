#include "forecast/forecast.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "forecast/sum_interval.h"

namespace flyball {
namespace {

constexpr std::array<Occurrence, 3> kOccurrences = {Occurrence::kRun, Occurrence::kEpoch, Occurrence::kIteration};

std::vector<TrainingStage> all_stages() {
  std::vector<TrainingStage> stages;
  for (std::size_t s = 0; s < kTrainingStages; ++s) stages.push_back(static_cast<TrainingStage>(s));
  return stages;
}

double times_a_run(const RunDescription& run, Occurrence occurrence) {
  switch (occurrence) {
    case Occurrence::kRun: return 1.0;
    case Occurrence::kEpoch: return run.epochs;
    case Occurrence::kIteration: return run.epochs * run.iterations_per_epoch();
  }
  return 0.0;
}

Watts idle_power(const NodeType& type, std::size_t component) {
  return type.components[component] ? type.components[component]->idle : Watts(0);
}

// Joules of one component in measurement k of a stage: the integral where it was recorded, else eq. 24's product.
Joules joules_of(const NodeType& type, const StageMeasurement& stage, std::size_t component, std::size_t k) {
  if (!stage.recorded[component].empty()) return stage.recorded[component][k];
  if (!type.components[component]) return Joules(0);
  const ComponentPower& power = *type.components[component];
  return stage.power[component].value_or(stage.active[component] ? power.active : power.idle) * stage.times[k];
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

// What one node draws in one occurrence of a stage, and how long that takes: never the one without the other.
void charge(NodeTypeForecast& own, TrainingStage stage, double times, const PerComponent<Joules>& joules,
            Seconds time) {
  for (std::size_t c = 0; c < kComponents; ++c) own.stages[index_of(stage)][c] += times * own.count * joules[c];
  own.charged += times * time;
}

// The stages of one occurrence, taken together measurement by measurement. A stage that was measured once is as long in
// all of them.
struct Samples {
  std::vector<Seconds> local;  // time between two barriers: all but communication and wait
  std::vector<Seconds> whole;  // all stages, the wait only where it was measured
  std::vector<Joules> energy;  // likewise
};

Samples samples_of(const NodeType& type, Occurrence occurrence) {
  std::size_t count = 0;
  for (const StageMeasurement& stage : type.stages) {
    if (stage.stated && stage.occurrence == occurrence) count = std::max(count, stage.times.size());
  }
  Samples samples{std::vector<Seconds>(count), std::vector<Seconds>(count), std::vector<Joules>(count)};
  for (const TrainingStage which : all_stages()) {
    const StageMeasurement& stage = type.stage(which);
    if (!stage.stated || stage.occurrence != occurrence) continue;
    const bool local = which != TrainingStage::kCommunication && which != TrainingStage::kWait;
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t own = stage.times.size() == 1 ? 0 : k;
      if (local) samples.local[k] += stage.times[own];
      samples.whole[k] += stage.times[own];
      for (std::size_t c = 0; c < kComponents; ++c) samples.energy[k] += joules_of(type, stage, c, own);
    }
  }
  return samples;
}

// Mean of the greatest of all nodes' draws, each from its type's empirical distribution: P(max <= x) is the product of
// F_type(x)^count, and the mean is the sum of x times its steps.
Seconds expected_slowest(const RunDescription& run, const std::vector<Samples>& samples) {
  std::vector<std::pair<Seconds, std::size_t>> values;
  for (std::size_t t = 0; t < samples.size(); ++t) {
    for (const Seconds value : samples[t].local) values.emplace_back(value, t);
  }
  std::sort(values.begin(), values.end());
  std::vector<double> below(samples.size(), 0.0);
  for (std::size_t t = 0; t < samples.size(); ++t) {
    if (samples[t].local.empty()) below[t] = 1.0;  // nothing of this occurrence: never the slowest
  }
  Seconds mean(0);
  double reached = 0.0;
  for (const auto& [value, t] : values) {
    below[t] += 1.0 / static_cast<double>(samples[t].local.size());
    double product = 1.0;
    for (std::size_t u = 0; u < samples.size(); ++u) product *= std::pow(below[u], run.node_types[u].count);
    mean += (product - reached) * value;
    reached = product;
  }
  return reached > 0.0 ? mean / reached : Seconds(0);  // reached is 1 but for rounding
}

Seconds mean_of(const std::vector<Seconds>& values) {
  if (values.empty()) return Seconds(0);
  return std::accumulate(values.begin(), values.end(), Seconds(0)) / static_cast<double>(values.size());
}

// Sequences of energies whose errors are independent of each other: one for all types together where they were measured
// in the same iterations, else one a type.
std::vector<std::vector<double>> energy_sequences(const RunDescription& run, const std::vector<Samples>& samples,
                                                  bool wait_measured) {
  std::vector<std::vector<double>> sequences;
  const std::size_t count = samples.front().energy.size();
  const bool together =
      std::all_of(samples.begin(), samples.end(), [count](const Samples& one) { return one.energy.size() == count; });
  for (std::size_t t = 0; t < samples.size(); ++t) {
    const NodeType& type = run.node_types[t];
    std::vector<double> values;
    for (std::size_t k = 0; k < samples[t].energy.size(); ++k) {
      Joules energy = samples[t].energy[k];
      if (together && !wait_measured) {
        Seconds slowest(0);
        for (const Samples& other : samples) slowest = std::max(slowest, other.local[k]);
        for (std::size_t c = 0; c < kComponents; ++c) energy += idle_power(type, c) * (slowest - samples[t].local[k]);
      }
      values.push_back(energy.value() * type.count);
    }
    if (together && t > 0) {
      for (std::size_t k = 0; k < values.size(); ++k) sequences.front()[k] += values[k];
    } else {
      sequences.push_back(std::move(values));
    }
  }
  return sequences;
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
  return sum;
}

RunForecast forecast_run(const RunDescription& run, double confidence) {
  RunForecast forecast;
  forecast.iterations = times_a_run(run, Occurrence::kIteration);
  for (const NodeType& type : run.node_types) {
    NodeTypeForecast own;
    own.name = type.name;
    own.count = type.count;
    for (const TrainingStage which : all_stages()) {
      const StageMeasurement& stage = type.stage(which);
      if (stage.stated)
        charge(own, which, times_a_run(run, stage.occurrence), mean_joules(type, stage), mean_time(stage));
    }
    forecast.node_types.push_back(std::move(own));
  }

  const bool wait_measured = std::any_of(run.node_types.begin(), run.node_types.end(),
                                         [](const NodeType& type) { return type.stage(TrainingStage::kWait).stated; });
  double squared_halves = 0.0;  // of independent sequences, whose intervals' halves add by their squares
  bool spread_known = false;
  for (const Occurrence occurrence : kOccurrences) {
    const double repeats = times_a_run(run, occurrence);
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
    for (const std::vector<double>& sequence : energy_sequences(run, samples, wait_measured)) {
      const std::optional<double> half = sum_half_width(sequence, repeats, confidence);
      if (!half) continue;
      spread_known = true;
      squared_halves += *half * *half;
    }
  }

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
  if (spread_known) {
    const Joules half(std::sqrt(squared_halves));
    forecast.interval = EnergyInterval{confidence, std::max(Joules(0), forecast.energy - half), forecast.energy + half};
  }
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
