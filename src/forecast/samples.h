// What was measured of the nodes of one type, iteration by iteration. The forecast and its interval are computed from
// these samples.
#pragma once

#include <vector>

#include "base/units.h"
#include "forecast/run_description.h"
#include "forecast/stage.h"

namespace flyball {

// The stages of one occurrence, added up measurement by measurement. A stage that was measured only once is taken to be
// as long in all measurements.
struct Samples {
  std::vector<Seconds> local;  // the time between two barriers: all stages but communication and wait
  std::vector<Seconds> whole;  // the time of all stages; the wait only where it was measured
  std::vector<Joules> energy;  // likewise, the energy of one node
};

[[nodiscard]] Samples samples_of(const NodeType& type, Occurrence occurrence);

[[nodiscard]] Watts idle_power(const NodeType& type, std::size_t component);
[[nodiscard]] Watts idle_power(const NodeType& type);  // of all components

// Returns the joules of one component in measurement k of a stage: the recorded integral where there is one, else the
// product of eq. 24.
[[nodiscard]] Joules joules_of(const NodeType& type, const StageMeasurement& stage, std::size_t component,
                               std::size_t k);

// Returns the mean; 0 where there are no values.
template <class Quantity>
[[nodiscard]] Quantity mean_of(const std::vector<Quantity>& values) {
  Quantity sum(0);
  for (const Quantity value : values) sum += value;
  return values.empty() ? sum : sum / static_cast<double>(values.size());
}

}  // namespace flyball
