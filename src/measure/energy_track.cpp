// Two rings, of the samples read and of knots, which are the moments at which energy is known; queries find their
// place by binary search and interpolate between two knots. Which of the header's three steps a reading takes is
// decided by where energy comes from: the counter, power because there is no counter, or power because the counter
// stands still although power flows. In the last case the samples since its last change are integrated once more.
#include "measure/energy_track.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace flyball {
namespace {

// A counter that shows more has begun anew, or is wrong. The largest boards take 3 kW.
constexpr double kMostWatts = 20'000.0;
// Smaller powers are no proof that energy flows.
constexpr double kLeastWatts = 1.0;
// Slopes and peaks over less than this show the grain of fast counters (RAPL: 1 ms), not the device.
constexpr Nanoseconds kSlopeSpan = 20'000'000;
// A jump of power between two steps of the counter, as a share of the larger. Below it, a straight line is as good.
constexpr double kJump = 0.2;

double seconds(Nanoseconds time) { return static_cast<double>(time) / 1e9; }

}  // namespace

EnergyTrack::EnergyTrack(Nanoseconds period, std::size_t capacity)
    : period_(period), samples_(capacity), knots_(capacity) {}

void EnergyTrack::add(Nanoseconds time, const MeterReading& reading, Nanoseconds took) {
  if (sparse() && reading.total && !rhythm_.tells_which(time, took)) return;
  const double watts_before = watts_;
  const bool knew_watts = knows_watts_;
  if (reading.power) {
    watts_ = reading.power->value();
    knows_watts_ = true;
  }
  if (samples_.empty()) {
    begin(time, reading);
  } else if (source_ == EnergySource::kCounter && reading.total) {
    follow_counter(time, *reading.total, reading.shape);
  } else if (source_ == EnergySource::kCounter) {
    integrate_since_last_change(EnergySource::kIntegratedPower);
    integrate(time, knew_watts ? watts_before : watts_);
  } else if (reading.total && (!base_total_ || *reading.total != total_)) {
    integrate(time, knew_watts ? watts_before : watts_);
    return_to_counter(time, *reading.total);
  } else {
    integrate(time, knew_watts ? watts_before : watts_);
  }
  if (reading.total) total_ = *reading.total;
  time_ = time;
  double power = watts_;
  if (!knows_watts_) {
    const double slope = slope_at_end();
    power = std::isnan(slope) ? 0.0 : slope;
  }
  samples_.push({time, Joules(joules_), Watts(power)});
}

void EnergyTrack::begin(Nanoseconds time, const MeterReading& reading) {
  change_time_ = time;
  if (reading.total) {
    base_total_ = reading.total;
    total_ = *reading.total;
  } else {
    source_ = EnergySource::kIntegratedPower;
    other_ = {source_, time, 0};
    first_knot_is_a_change_ = true;
  }
  knots_.push({time, 0.0});
}

void EnergyTrack::follow_counter(Nanoseconds time, Joules total, const std::vector<TimedPower>& shape) {
  const double step = (total - total_).value();
  if (step == 0.0) {
    rhythm_.add(time, false);
    if (frozen(time)) {
      integrate_since_last_change(EnergySource::kFrozenCounter);
      integrate(time, watts_);
    }
    return;
  }
  if (step < 0.0 || step > kMostWatts * std::max(1.0, seconds(time - change_time_))) {
    // The counter began anew. What flowed meanwhile is taken to be as much as the power says.
    const double slope = knows_watts_ ? watts_ : slope_at_end();
    if (!std::isnan(slope)) joules_ += slope * seconds(time - knots_.back().time);
    base_total_ = total;
    base_joules_ = joules_;
    change_time_ = time;
    push_knot(time);
    return;
  }
  rhythm_.add(time, true);
  joules_ = base_joules_ + (total - *base_total_).value();
  Nanoseconds change = time;
  if (!rhythm_.faster_than_sampling()) {
    const Nanoseconds gap = time - time_;
    const Nanoseconds age = rhythm_.period() > 0 ? std::min(gap, rhythm_.period()) : gap;
    change = rhythm_.foretold() ? std::clamp(*rhythm_.foretold(), time - age, time) : time - age / 2;
  }
  rhythm_.date(change);
  // Between the first reading and the first change lies less than a whole step of the counter.
  if (!first_knot_is_a_change_) knots_.clear();
  first_knot_is_a_change_ = true;
  change_time_ = time;
  if (!knots_.empty()) {
    step_ = change - knots_.back().time;
    divide_step(change, shape);
  }
  push_knot(change);
}

void EnergyTrack::divide_step(Nanoseconds change, const std::vector<TimedPower>& shape) {
  constexpr Nanoseconds kLongestGap = 50 * kMillisecond;  // between a step's end and the record
  const Knot left = knots_.back();
  if (shape.empty() || shape.front().time > left.time + kLongestGap || shape.back().time < change - kLongestGap) return;
  // Calls at(time, energy since the left knot as the record has it); returns that of the whole step.
  const auto integrate_record = [&](const auto& at) {
    double joules = 0.0;
    Nanoseconds from = left.time;
    for (const TimedPower& sample : shape) {
      const Nanoseconds until = std::min(sample.time, change);
      if (until <= from) continue;
      joules += sample.power.value() * seconds(until - from);
      from = until;
      at(until, joules);
    }
    return joules + shape.back().power.value() * seconds(change - from);
  };
  const double whole = integrate_record([](Nanoseconds, double) {});
  if (whole <= 0.0) return;
  const double scale = (joules_ - left.joules) / whole;
  integrate_record([&](Nanoseconds time, double joules) {
    if (time - knots_.back().time < period_ || change - time < period_) return;
    knots_.push({time, left.joules + scale * joules});
  });
}

void EnergyTrack::integrate(Nanoseconds time, double watts_before) {
  joules_ += 0.5 * (watts_before + watts_) * seconds(time - time_);
  rhythm_.add(time, watts_ != watts_before);
  const bool slow = rhythm_.period() > 2 * period_ && !rhythm_.faster_than_sampling();
  push_knot(slow ? time - rhythm_.period() / 2 : time);
}

bool EnergyTrack::frozen(Nanoseconds time) const {
  return knows_watts_ && watts_ > kLeastWatts && time - change_time_ > std::max(kSecond, 5 * rhythm_.period());
}

void EnergyTrack::integrate_since_last_change(EnergySource source) {
  source_ = source;
  other_ = {source, change_time_, 0};
  rhythm_ = {};
  first_knot_is_a_change_ = true;
  const Nanoseconds from = knots_.back().time;
  Nanoseconds before = from;
  for (std::size_t i = samples_.count_until(from); i < samples_.size(); ++i) {
    PowerSample& sample = samples_[i];
    const double watts = knows_watts_ ? sample.power.value() : 0.0;
    joules_ += watts * seconds(sample.time - before);
    before = sample.time;
    sample.energy = Joules(joules_);
    push_knot(sample.time);
  }
}

void EnergyTrack::return_to_counter(Nanoseconds time, Joules total) {
  source_ = EnergySource::kCounter;
  other_.end = time;
  base_total_ = total;
  base_joules_ = joules_;
  change_time_ = time;
  rhythm_ = {};
}

void EnergyTrack::push_knot(Nanoseconds time) {
  if (!knots_.empty() && time <= knots_.back().time) {
    knots_.back().joules = joules_;
  } else {
    knots_.push({time, joules_});
  }
}

double EnergyTrack::slope_at_end() const {
  const std::size_t count = knots_.size();
  for (std::size_t i = count; i-- > 0;) {
    const Nanoseconds span = knots_.back().time - knots_[i].time;
    if (span >= kSlopeSpan || (i == 0 && span > 0)) return (knots_.back().joules - knots_[i].joules) / seconds(span);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

double EnergyTrack::slope(std::size_t knot) const {
  return (knots_[knot + 1].joules - knots_[knot].joules) / seconds(knots_[knot + 1].time - knots_[knot].time);
}

double EnergyTrack::joules_within(std::size_t knot, Nanoseconds time) const {
  const Knot& left = knots_[knot];
  const Knot& right = knots_[knot + 1];
  const double level = slope(knot);
  const double straight = left.joules + level * seconds(time - left.time);
  const Nanoseconds usual = rhythm_.period();
  if (sparse() || usual <= 2 * period_ || knot == 0 || knot + 2 >= knots_.size()) return straight;
  for (std::size_t i = knot - 1; i <= knot + 1; ++i) {
    const Nanoseconds step = knots_[i + 1].time - knots_[i].time;
    if (step < usual / 2 || step > usual + usual / 2) return straight;
  }
  const double before = slope(knot - 1);
  const double after = slope(knot + 1);
  if (std::abs(after - before) <= kJump * std::max(before, after)) return straight;
  if ((level - before) * (after - level) <= 0.0) return straight;
  const double whole = seconds(right.time - left.time);
  const double jump = whole * (level - after) / (before - after);  // s after the left knot
  const double since = seconds(time - left.time);
  return since < jump ? left.joules + before * since : right.joules - after * (whole - since);
}

double EnergyTrack::joules_at(Nanoseconds time) const {
  if (knots_.empty()) return joules_;
  const std::size_t before = knots_.count_until(time);
  Nanoseconds reach = std::max(rhythm_.period(), 2 * period_);
  if (sparse()) reach = std::max(reach, step_);
  if (before == 0) {
    const Nanoseconds missing = std::min(knots_[0].time - time, reach);
    return knots_[0].joules - (knots_.size() > 1 ? slope(0) * seconds(missing) : 0.0);
  }
  if (before < knots_.size()) return joules_within(before - 1, time);
  // A counter that stands still for longer than a step takes says that no energy flows.
  if (time_ - change_time_ > 2 * reach && source_ == EnergySource::kCounter) return knots_.back().joules;
  double watts = knots_.size() > 1 ? slope(knots_.size() - 2) : watts_;
  if (source_ != EnergySource::kCounter) watts = watts_;
  return knots_.back().joules + watts * seconds(std::min(time - knots_.back().time, reach));
}

double EnergyTrack::peak_between(Nanoseconds begin, Nanoseconds end) const {
  double peak = 0.0;
  std::size_t j = std::max<std::size_t>(knots_.count_until(begin), 1);
  if (j >= knots_.size()) return peak;
  std::size_t i = j - 1;
  while (i > 0 && knots_[j].time - knots_[i].time < kSlopeSpan) --i;
  for (; j < knots_.size() && knots_[i].time < end; ++j) {
    while (i + 1 < j && knots_[j].time - knots_[i + 1].time >= kSlopeSpan) ++i;
    const Nanoseconds middle = knots_[i].time + (knots_[j].time - knots_[i].time) / 2;
    if (middle < begin || middle > end) continue;
    peak = std::max(peak, (knots_[j].joules - knots_[i].joules) / seconds(knots_[j].time - knots_[i].time));
  }
  return peak;
}

IntervalEnergy EnergyTrack::energy_between(Nanoseconds begin, Nanoseconds end) const {
  IntervalEnergy result;
  result.source = source_;
  result.sensor_period = sensor_period();
  result.complete = false;
  if (knots_.empty() || end <= begin) return result;
  result.energy = Joules(std::max(0.0, joules_at(end) - joules_at(begin)));
  result.mean = result.energy / to_seconds(end - begin);
  result.peak = std::max(result.mean, Watts(peak_between(begin, end)));
  const bool mixed =
      other_.source != EnergySource::kCounter && other_.begin < end && (other_.end == 0 || other_.end > begin);
  result.source = mixed ? other_.source : EnergySource::kCounter;
  result.samples = samples_.count_until(end) - samples_.count_until(begin - 1);
  result.complete = begin >= knots_[0].time && settled(end);
  return result;
}

bool EnergyTrack::settled(Nanoseconds time) const {
  if (knots_.empty()) return false;
  const bool standing = source_ == EnergySource::kCounter && time <= time_ &&
                        time_ - change_time_ > std::max(kSecond, 5 * rhythm_.period());
  if (standing) return true;
  const bool slow = source_ == EnergySource::kCounter && !rhythm_.faster_than_sampling() && !sparse();
  return knots_.count_until(time - 1) + (slow ? 1 : 0) < knots_.size();
}

std::optional<PowerSample> EnergyTrack::latest() const {
  if (samples_.empty()) return std::nullopt;
  return samples_.back();
}

std::vector<PowerSample> EnergyTrack::samples_since(Nanoseconds after) const {
  std::vector<PowerSample> result;
  result.reserve(samples_.size() - samples_.count_until(after));
  for (std::size_t i = samples_.count_until(after); i < samples_.size(); ++i) result.push_back(samples_[i]);
  return result;
}

std::vector<PowerSample> EnergyTrack::changes_since(Nanoseconds after) const {
  std::vector<PowerSample> result;
  if (!first_knot_is_a_change_) return result;
  for (std::size_t i = knots_.count_until(after); i < knots_.size(); ++i) {
    const double watts = i > 0 ? slope(i - 1) : watts_;
    result.push_back({knots_[i].time, Joules(knots_[i].joules), Watts(watts)});
  }
  return result;
}

}  // namespace flyball
