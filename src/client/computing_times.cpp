// Between two clocks, the cycles of a computation change little: memory takes some more of them at the higher one.
#include "client/computing_times.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace flyball {
namespace {

constexpr double kMostDoubt = 0.02;  // of a time, if the change of the clock takes no time or twice the usual

}  // namespace

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

Seconds ComputingTimes::after_change(std::uint16_t type, Megahertz before, Megahertz clock, Seconds ago) const {
  const Seconds time = at(type, clock);
  if (ago >= settling_ || !(time > Seconds(0))) return time;
  const Seconds at_old = at(type, before);
  if (!(at_old > change_) || std::abs(1.0 - time / at_old) * (change_ / time) > kMostDoubt) return {};
  const Seconds rest = std::max(Seconds(0), change_ - ago);
  return rest + (1.0 - rest / at_old) * time;
}

}  // namespace flyball
