// What was measured of the nodes of one type, iteration by iteration: where the forecast and its interval begin.
#pragma once

#include <vector>

#include "base/units.h"
#include "forecast/run_description.h"
#include "forecast/stage.h"

namespace flyball {

// The stages of one occurrence, taken together measurement by measurement. A stage that was measured once is as long in
// all of them.
struct Samples {
  std::vector<Seconds> local;  // time between two barriers: all but communication and wait
  std::vector<Seconds> whole;  // all stages, the wait only where it was measured
  std::vector<Joules> energy;  // likewise, of one node
};

[[nodiscard]] Samples samples_of(const NodeType& type, Occurrence occurrence);

[[nodiscard]] Watts idle_power(const NodeType& type, std::size_t component);
[[nodiscard]] Watts idle_power(const NodeType& type);  // of all components

// Joules of one component in measurement k of a stage: the integral where it was recorded, else eq. 24's product.
[[nodiscard]] Joules joules_of(const NodeType& type, const StageMeasurement& stage, std::size_t component,
                               std::size_t k);

// 0 of nothing.
template <class Quantity>
[[nodiscard]] Quantity mean_of(const std::vector<Quantity>& values) {
  Quantity sum(0);
  for (const Quantity value : values) sum += value;
  return values.empty() ? sum : sum / static_cast<double>(values.size());
}

}  // namespace flyball
