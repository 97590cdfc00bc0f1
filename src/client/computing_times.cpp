// Between two clocks, the cycles of a computation change little: memory takes some more of them at the higher one.
#include "client/computing_times.h"

#include <algorithm>
#include <iterator>

namespace flyball {
namespace {

constexpr double kMostAtOther = 0.3;  // share of a computation

}  // namespace

void ComputingTimes::add(std::uint16_t type, Megahertz clock, Seconds time, Microbatches of) {
  times_[static_cast<std::size_t>(of)][type][clock] = time;
}

void ComputingTimes::add_transfer(std::uint16_t type, PaceOf kind, Seconds time) {
  kinds_[type] = kind;
  transfers_[type] = transfers_[type] > Seconds(0) ? std::min(transfers_[type], time) : time;
}

Seconds ComputingTimes::at(std::uint16_t type, Megahertz clock, Microbatches of) const {
  const auto& times = times_[static_cast<std::size_t>(of)][type];
  if (times.empty() && of != Microbatches::kAll) return at(type, clock);
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

// Of a computation that takes t0 at the clock before and t1 at the new one, left / t0 is done when the change comes,
// and the rest takes t1 (1 - left / t0).
Seconds ComputingTimes::after_change(std::uint16_t type, Megahertz clock, Megahertz before, Seconds since,
                                     Microbatches of) const {
  const Seconds usual = at(type, clock, of);
  if (since >= settling_) return usual;
  const Seconds left = std::max(Seconds(0), change_ - since);
  const Seconds usual_before = at(type, before, of);
  const bool known = change_ > Seconds(0) && usual_before > Seconds(0) && left <= kMostAtOther * usual;
  return known ? usual + left * (1.0 - usual / usual_before) : Seconds(0);
}

}  // namespace flyball
