// What is measured again is compared with what stood at the same clock; the factors of time and energy then follow from
// clock to clock.
#include "client/refreshed_profile.h"

#include <iterator>
#include <map>
#include <string>

#include "base/own_name.h"

namespace flyball {
namespace {

struct Factors {
  double time = 1.0;
  double energy = 1.0;
};
using FactorsByClock = std::map<Megahertz, Factors>;

Factors factors_at(const FactorsByClock& known, Megahertz clock) {
  const auto above = known.lower_bound(clock);
  if (above == known.end()) return std::prev(above)->second;
  if (above == known.begin() || above->first == clock) return above->second;
  const auto& [low, at_low] = *std::prev(above);
  const double share = (clock - low) / (above->first - low);
  return {at_low.time + share * (above->second.time - at_low.time),
          at_low.energy + share * (above->second.energy - at_low.energy)};
}

template <class Change>
void for_each_of(std::vector<MeasurementReport>& reports, std::string_view instruction, Change change) {
  for (MeasurementReport& report : reports) {
    for (InstructionMeasurement& one : report.measurements) {
      if (one.instruction == instruction) change(one);
    }
  }
}

}  // namespace

void scale_operation(std::vector<MeasurementReport>& reports, std::string_view instruction, double ratio) {
  for (const Microbatches of : {Microbatches::kAll, Microbatches::kFirst, Microbatches::kLast}) {
    for_each_of(reports, own_name(instruction, of), [ratio](InstructionMeasurement& one) {
      one.time = one.time * ratio;
      one.time_deviation = one.time_deviation * ratio;
      one.energy = one.energy * ratio;
    });
  }
}

void refresh_operations(std::vector<MeasurementReport>& reports, const std::vector<InstructionMeasurement>& measured) {
  std::map<std::string, std::map<Megahertz, const InstructionMeasurement*>> by_instruction;
  for (const InstructionMeasurement& one : measured) by_instruction[one.instruction][one.clock] = &one;
  for (const auto& known : by_instruction) {
    const std::string& instruction = known.first;
    const auto& at = known.second;
    FactorsByClock factors;
    for_each_of(reports, instruction, [&at, &factors](const InstructionMeasurement& before) {
      const auto found = at.find(before.clock);
      if (found == at.end()) return;
      factors[before.clock] = {found->second->time / before.time, found->second->energy / before.energy};
    });
    if (factors.empty()) continue;
    for_each_of(reports, instruction, [&at, &factors](InstructionMeasurement& one) {
      const auto found = at.find(one.clock);
      if (found != at.end()) {
        one = *found->second;
        return;
      }
      const Factors by = factors_at(factors, one.clock);
      one.time = one.time * by.time;
      one.time_deviation = one.time_deviation * by.time;
      one.energy = one.energy * by.energy;
    });
  }
}

}  // namespace flyball
