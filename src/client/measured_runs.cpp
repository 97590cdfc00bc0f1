// Means and sample deviations over the runs.
#include "client/measured_runs.h"

#include <algorithm>
#include <cmath>

namespace flyball {
namespace {

template <class Value>
Spread spread_of(const std::vector<MeasuredRun>& runs, Value value) {
  Spread spread;
  for (const MeasuredRun& run : runs) spread.mean += value(run) / static_cast<double>(runs.size());
  if (runs.size() < 2) return spread;
  double squares = 0.0;
  for (const MeasuredRun& run : runs) squares += std::pow(value(run) - spread.mean, 2.0);
  spread.deviation = std::sqrt(squares / static_cast<double>(runs.size() - 1));
  return spread;
}

}  // namespace

bool MeasuredRuns::complete(std::size_t device) const {
  return std::all_of(runs.begin(), runs.end(),
                     [device](const MeasuredRun& run) { return run.energy.devices[device].complete; });
}

bool MeasuredRuns::complete() const {
  return unavailable.empty() &&
         std::all_of(runs.begin(), runs.end(), [](const MeasuredRun& run) { return run.energy.complete(); });
}

bool MeasuredRuns::lacks_readings(std::size_t device) const {
  return std::any_of(runs.begin(), runs.end(),
                     [device](const MeasuredRun& run) { return run.energy.devices[device].lacks_readings(); });
}

Spread MeasuredRuns::time() const {
  return spread_of(runs, [](const MeasuredRun& run) { return run.energy.time.value(); });
}

Spread MeasuredRuns::total() const {
  return spread_of(runs, [](const MeasuredRun& run) { return run.energy.total().value(); });
}

Spread MeasuredRuns::energy_of(std::size_t device) const {
  return spread_of(runs, [device](const MeasuredRun& run) { return run.energy.devices[device].energy.value(); });
}

Watts MeasuredRuns::peak_of(std::size_t device) const {
  Watts peak;
  for (const MeasuredRun& run : runs) peak = std::max(peak, run.energy.devices[device].peak);
  return peak;
}

}  // namespace flyball
