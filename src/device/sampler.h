// Reads the meters of one machine at a fixed period into rings, and answers how much energy any interval took.
//
// One thread per sampler, woken at absolute times of the monotonic clock, so that periods do not drift; a reading that
// comes late is stamped with when it was really taken. Each meter is a function, so that GPUs, CPUs and tests look the
// same.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace flyball {

inline constexpr Seconds kDefaultSamplingPeriod{0.004};

// What a meter says at one moment. A device with a counter gives `total` (and may give power); one without gives only
// power, which the sampler integrates by trapezoids.
struct MeterReading {
  std::optional<Watts> power;
  std::optional<Joules> total;
};

struct Meter {
  std::string label;                   // "GPU:0", "CPU:0", "DRAM:0"
  std::function<MeterReading()> read;  // may throw DeviceError
};

struct PowerSample {
  Nanoseconds time = 0;  // CLOCK_MONOTONIC, when the reading was taken
  Joules energy;         // since the sampler began
  Watts power;           // as the device says, or the counter's slope where it does not
};

// Where the energy of an interval comes from.
enum class EnergySource {
  kCounter,          // the device's own counter
  kIntegratedPower,  // no counter: power integrated
  kFrozenCounter,    // the counter stood still while power flowed: power integrated from then on
};
[[nodiscard]] std::string_view name_of(EnergySource source);

struct IntervalEnergy {
  Joules energy;
  Watts mean;
  Watts peak;  // largest sample within
  EnergySource source = EnergySource::kCounter;
  Seconds sensor_period;    // how often the device's counter (or power) really changes; 0 while unknown
  std::size_t samples = 0;  // within the interval
  bool complete = true;     // false where the ring no longer, or not yet, holds the whole interval
};

struct MeterState {
  std::string label;
  EnergySource source = EnergySource::kCounter;
  Seconds sensor_period;   // 0 while unknown
  std::size_t late = 0;    // samples taken more than one period late
  std::size_t failed = 0;  // readings that threw; the last one's words:
  std::string failure;
  std::optional<PowerSample> latest;
};

// Thread-safe. The thread starts with construction and ends with destruction.
class Sampler {
 public:
  struct Options {
    Seconds period = kDefaultSamplingPeriod;
    Seconds history{60.0};  // what the ring holds
  };

  explicit Sampler(std::vector<Meter> meters) : Sampler(std::move(meters), Options{}) {}
  Sampler(std::vector<Meter> meters, Options options);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // CLOCK_MONOTONIC, the clock of all samples.
  [[nodiscard]] static Nanoseconds now();

  [[nodiscard]] std::size_t meter_count() const;
  [[nodiscard]] MeterState state(std::size_t meter) const;

  // Energy of [begin, end], interpolated between the moments at which the counter changed, so that intervals shorter
  // than the sensor's period are right on average. O(log ring).
  [[nodiscard]] IntervalEnergy energy_between(std::size_t meter, Nanoseconds begin, Nanoseconds end) const;

  // Reads every meter now, outside the period, and returns when that was done: bounds of a measured window.
  Nanoseconds sample_now();

  // Samples later than `after`, oldest first; what the ring has lost is lost.
  [[nodiscard]] std::vector<PowerSample> samples_since(std::size_t meter, Nanoseconds after) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flyball
