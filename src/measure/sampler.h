// Reads the meters of one machine at a fixed period into rings, and answers how much energy any interval took.
//
// One thread reads all meters, woken at absolute times of the monotonic clock, so that periods do not drift; a reading
// that comes late is stamped with when it was really taken. A counter that its driver renews in a steady rhythm slower
// than the period is read from shortly before each change until it is seen, and not in between, where a reading could
// only repeat the last (decision 0024). A meter whose call does not return within kHangLimit keeps that thread for
// itself, and a new one goes on with the others, so that a driver that hangs costs the other meters one gap of
// kHangLimit and their counters nothing. Each meter is a function, so that GPUs, CPUs and tests look the same.
//
// How energy is found between two changes of a sensor is told in energy_track.h, what sampling costs in
// docs/performance.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/monotonic_time.h"
#include "base/names.h"
#include "base/units.h"
#include "driver/gpu.h"

namespace flyball {

inline constexpr Seconds kDefaultSamplingPeriod{0.004};
inline constexpr Seconds kLeastSamplingPeriod{0.0001};
inline constexpr Seconds kHangLimit{0.25};
// From so much processor time on a reading is dear by itself: being woken for it costs about a fifth of this.
inline constexpr Nanoseconds kDearReading = 200'000;

// What a meter says at one moment. A device with a counter gives `total` (and may give power); one without gives only
// power, which the sampler integrates by trapezoids.
struct MeterReading {
  std::optional<Watts> power;
  std::optional<Joules> total;
  // How power went before, where the device knows more than its counter: mean powers, each from the time of the one
  // before until its own. The counter's steps are divided by them.
  std::vector<TimedPower> shape{};
};

struct Meter {
  std::string label;                   // "GPU:0", "CPU:0", "DRAM:0"
  std::function<MeterReading()> read;  // may throw DeviceError
};

struct PowerSample {
  Nanoseconds time = 0;  // CLOCK_MONOTONIC, when the reading was taken
  Joules energy;         // since the sampler began, as the counter stood
  Watts power;           // as the device says, or the counter's slope where it does not
};

// Where the energy of an interval comes from.
enum class EnergySource {
  kCounter,          // the device's own counter
  kIntegratedPower,  // no counter: power integrated
  kFrozenCounter,    // the counter stood still while power flowed: power integrated until it moves again
};
template <>
inline constexpr auto kNamesOf<EnergySource> = name_list("counter", "integrated power",
                                                         "frozen counter, integrated power");

struct IntervalEnergy {
  Joules energy;
  Watts mean;
  Watts peak;  // largest mean over a step of the counter, or 20 ms if that is longer; at least `mean`
  EnergySource source = EnergySource::kCounter;
  Seconds sensor_period;    // how often the device's counter (or power) really changes; 0 while unknown
  std::size_t samples = 0;  // within the interval
  // False where the ring no longer, or not yet, holds the whole interval; the energy is then extrapolated by at most
  // one sensor period at each end.
  bool complete = true;
};

struct MeterState {
  std::string label;
  EnergySource source = EnergySource::kCounter;
  Seconds sensor_period;   // 0 while unknown
  Seconds reading_period;  // between two readings: Options::period, or longer to keep within Options::most_cost
  std::size_t readings = 0;
  std::size_t late = 0;           // readings taken more than one period after they were due
  std::size_t failed = 0;         // readings that threw
  std::string failure;            // what the last of them threw; empty where none did
  Nanoseconds failing_since = 0;  // when the latest failures in a row began; 0 where none failed
  bool answering = true;          // false while a reading has not returned within kHangLimit
  std::optional<PowerSample> latest;
};

// Thread-safe. Sampling starts with construction and ends with destruction, which waits at most kHangLimit for a meter
// that hangs; such a meter's function stays alive until it returns. A meter that throws is asked again after a while,
// at first after one period, then less often, at least once a second.
class Sampler {
 public:
  struct Options {
    Seconds period = kDefaultSamplingPeriod;  // at least kLeastSamplingPeriod
    Seconds history{60.0};  // the time that the rings hold, at least 1 s and 64 periods: 40 bytes per meter and period
    // What the reading thread may cost, as a share of one processor; 0: no limit. Where it costs more, counters that
    // change at every reading are read less often, down to about every 100 ms, and together with others where that
    // costs nothing. Checked about once a second, after the first two seconds. Counters of which a reading is dear by
    // itself are read once for several of their changes, down to about once a second, when their rhythm is known, which
    // takes some 13 changes. All others are read as without a limit.
    double most_cost = 0.0;
  };

  explicit Sampler(std::vector<Meter> meters) : Sampler(std::move(meters), Options{}) {}
  Sampler(std::vector<Meter> meters, Options options);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // CLOCK_MONOTONIC, the clock of all samples.
  [[nodiscard]] static Nanoseconds now() { return monotonic_now(); }

  [[nodiscard]] std::size_t meter_count() const;
  [[nodiscard]] MeterState state(std::size_t meter) const;

  // Returns the energy of [begin, end], interpolated between the moments at which the counter changed, so that
  // intervals shorter than the sensor's period are right on average. Cost: O(log ring) and the changes within.
  [[nodiscard]] IntervalEnergy energy_between(std::size_t meter, Nanoseconds begin, Nanoseconds end) const;

  // Reads every meter that answers at once, outside the period, and returns when that was done: a bound for a measured
  // window.
  Nanoseconds sample_now();

  // Waits until no later reading can change the energy up to `time`, which takes about two sensor periods, but no
  // longer than `longest`. Returns whether that holds for every meter that answers and is not failing.
  bool settle(Nanoseconds time, Seconds longest);

  // Returns the samples later than `after`, oldest first, as far as the ring still holds them.
  [[nodiscard]] std::vector<PowerSample> samples_since(std::size_t meter, Nanoseconds after) const;
  // Returns only the changes of the sensor, each at the moment at which it is taken to have happened, with the mean
  // power since the change before. These are what is worth keeping in a file.
  [[nodiscard]] std::vector<PowerSample> changes_since(std::size_t meter, Nanoseconds after) const;

  // Opens a window, which may last longer than the history: what leaves the ring is added up meanwhile. `begin` must
  // lie within the history. end_window() sets its end, about now; close_window() may be called any time later, returns
  // one IntervalEnergy per meter, and forgets the window. The last two throw UsageError for a window that is not open,
  // or not ended.
  [[nodiscard]] std::uint64_t open_window(Nanoseconds begin);
  void end_window(std::uint64_t window, Nanoseconds end);
  [[nodiscard]] std::vector<IntervalEnergy> close_window(std::uint64_t window);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns what reading at a period that may be the default one may cost: usual_sampling_cost() at that, else no limit.
[[nodiscard]] double most_cost_at(Seconds period);

// Returns the options for the period that somebody asked for, whatever that costs. Where nobody has, they are those of
// the default period, at no more than usual_sampling_cost().
[[nodiscard]] Sampler::Options sampling_at(std::optional<Seconds> period);

}  // namespace flyball
