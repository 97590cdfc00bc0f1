// A sensor as boards have them: a true power over time, a counter (or a power) that is renewed once per period.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <random>

#include "measure/energy_track.h"

namespace flyball::testing {

class StaircaseSensor {
 public:
  using Energy = std::function<double(double)>;  // J since 0 at a time in s

  StaircaseSensor(Energy energy, Nanoseconds period, Nanoseconds phase = 0)
      : energy_(std::move(energy)), period_(period), phase_(phase) {}

  [[nodiscard]] double joules(Nanoseconds time) const { return energy_(static_cast<double>(time) / 1e9); }
  [[nodiscard]] double joules(Nanoseconds begin, Nanoseconds end) const { return joules(end) - joules(begin); }

  // The counter's latest value, to the millijoule, as vendors give it.
  [[nodiscard]] Joules counter(Nanoseconds time) const { return Joules(std::floor(joules(renewed(time)) * 1e3) / 1e3); }
  // The mean power of the last whole period.
  [[nodiscard]] Watts power(Nanoseconds time) const {
    const Nanoseconds at = renewed(time);
    return Joules(joules(at - period_, at)) / to_seconds(period_);
  }

 private:
  [[nodiscard]] Nanoseconds renewed(Nanoseconds time) const {
    const Nanoseconds since = (time - phase_) % period_;
    return time - (since < 0 ? since + period_ : since);
  }

  Energy energy_;
  Nanoseconds period_;
  Nanoseconds phase_;
};

enum class Reading { kEveryPeriod, kWhereSomethingIsDue };

// Reads the sensor every `sampling` with the jitter of a busy machine, from 1 s to `end`, as the sampler does: not
// while the track says that nothing is due.
inline void read_until(EnergyTrack& track, Nanoseconds sampling, Nanoseconds end,
                       const std::function<MeterReading(Nanoseconds)>& read,
                       Reading when = Reading::kWhereSomethingIsDue) {
  std::mt19937 random(1);
  std::uniform_int_distribution<Nanoseconds> jitter(0, sampling / 8);
  for (Nanoseconds due = 1'000 * kMillisecond; due <= end; due += sampling) {
    const Nanoseconds time = due + jitter(random);
    if (when == Reading::kEveryPeriod || time >= track.plan()) track.add(time, read(time));
  }
}

// E of a load that is `high` W for `on` s and `low` W for `off` s, over and over.
inline StaircaseSensor::Energy square_wave(double low, double high, double off, double on) {
  return [=](double t) {
    const double cycle = off + on;
    const double whole = std::floor(t / cycle);
    const double rest = t - whole * cycle;
    const double in_cycle = rest < off ? low * rest : low * off + high * (rest - off);
    return whole * (low * off + high * on) + in_cycle;
  };
}

}  // namespace flyball::testing
