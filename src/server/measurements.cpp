#include "server/measurements.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "pipeline/instruction.h"

namespace flyball {
namespace {

bool stands_before(const MeasurementSum& a, const MeasurementSum& b) {
  return std::tie(a.instruction, b.clock) < std::tie(b.instruction, a.clock);
}

}  // namespace

void add_measurement(MeasurementSums& sums, const InstructionMeasurement& measurement) {
  const auto samples = static_cast<double>(measurement.samples);
  const MeasurementSum added{measurement.instruction, measurement.clock, samples, measurement.time * samples,
                             measurement.energy * samples};
  const auto place = std::lower_bound(sums.begin(), sums.end(), added, stands_before);
  if (place == sums.end() || stands_before(added, *place)) {
    sums.insert(place, added);
    return;
  }
  place->samples += added.samples;
  place->time += added.time;
  place->energy += added.energy;
}

std::vector<Joules> energies_by_clock(const MeasurementSums& sums, std::string_view instruction) {
  std::vector<Joules> energies;
  for (const MeasurementSum& sum : sums) {
    if (sum.instruction == instruction) energies.push_back(sum.energy / sum.samples);
  }
  return energies;
}

Profile merged_profile(const std::string& job, const std::vector<RankMeasurements>& ranks) {
  std::string csv = "rank,stage,instruction,frequency,time,energy\n";
  for (const RankMeasurements& rank : ranks) {
    MeasurementSum waiting;  // over all clocks: ranks may have waited at different ones
    for (const MeasurementSum& sum : *rank.sums) {
      if (sum.instruction == kWaitingName) {
        waiting.time += sum.time;
        waiting.energy += sum.energy;
        continue;
      }
      fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{}\n", rank.rank, rank.stage, sum.instruction,
                     sum.clock.value(), sum.time.value() / sum.samples, sum.energy.value() / sum.samples);
    }
    if (!(waiting.time > Seconds(0))) continue;
    fmt::format_to(std::back_inserter(csv), "{},{},{},0,1,{}\n", rank.rank, rank.stage, kWaitingName,
                   (waiting.energy / waiting.time).value());
  }
  return read_profile("measurements of job " + job, csv);
}

}  // namespace flyball
