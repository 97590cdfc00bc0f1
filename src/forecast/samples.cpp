// Adds up the stages of one occurrence, measurement by measurement.
#include "forecast/samples.h"

#include <algorithm>
#include <cstddef>

namespace flyball {

Watts idle_power(const NodeType& type, std::size_t component) {
  return type.components[component] ? type.components[component]->idle : Watts(0);
}

Watts idle_power(const NodeType& type) {
  Watts sum(0);
  for (std::size_t c = 0; c < kComponents; ++c) sum += idle_power(type, c);
  return sum;
}

Joules joules_of(const NodeType& type, const StageMeasurement& stage, std::size_t component, std::size_t k) {
  if (!stage.recorded[component].empty()) return stage.recorded[component][k];
  if (!type.components[component]) return Joules(0);
  const ComponentPower& power = *type.components[component];
  return stage.power[component].value_or(stage.active[component] ? power.active : power.idle) * stage.times[k];
}

Samples samples_of(const NodeType& type, Occurrence occurrence) {
  std::size_t count = 0;
  for (const StageMeasurement& stage : type.stages) {
    if (stage.stated && stage.occurrence == occurrence) count = std::max(count, stage.times.size());
  }
  Samples samples{std::vector<Seconds>(count), std::vector<Seconds>(count), std::vector<Joules>(count)};
  for (std::size_t s = 0; s < kTrainingStages; ++s) {
    const StageMeasurement& stage = type.stages[s];
    if (!stage.stated || stage.occurrence != occurrence) continue;
    const auto which = static_cast<TrainingStage>(s);
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

}  // namespace flyball
