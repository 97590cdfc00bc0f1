// Between two clocks, the cycles of a computation change little: memory takes some more of them at the higher one.
#include "client/computing_times.h"

#include <iterator>

namespace flyball {

void ComputingTimes::add(std::uint16_t type, Megahertz clock, Seconds time) { times_[type][clock] = time; }

Seconds ComputingTimes::at(std::uint16_t type, Megahertz clock) const {
  const auto& times = times_[type];
  const auto above = times.lower_bound(clock);
  if (above == times.end()) return {};
  if (above->first == clock) return above->second;
  if (above == times.begin()) return {};
  const auto& [low, low_time] = *std::prev(above);
  const auto& [high, high_time] = *above;
  const double share = (clock - low) / (high - low);
  const double cycles = (1.0 - share) * low_time.value() * low.value() + share * high_time.value() * high.value();
  return Seconds(cycles / clock.value());
}

}  // namespace flyball
