// A meter is a function that keeps its device and, for a GPU, when its counter last changed and its power was last
// read.
#include "measure/meters.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace flyball {
namespace {

// After so many dear readings of the counter in a row, which are not long by chance, the driver's record of power is
// asked for with each. It takes some 60 us, and is worth that where the counter is too dear to be read at each of its
// changes.
constexpr int kSurelyDear = 8;
// So far back the record is to reach: two of the longest steps that a sampler takes.
constexpr Nanoseconds kRecord = 2 * kSecond;

// How old a power may be before it is read again. It is read with the counter's change, and seldom while the counter
// stands, unless that has stood for so long that the power may have to take its place.
Nanoseconds most_age(Nanoseconds counter_age) {
  if (counter_age == 0) return 10 * kMillisecond;
  return counter_age < 1000 * kMillisecond ? 100 * kMillisecond : 20 * kMillisecond;
}

}  // namespace

Meter meter_of(std::shared_ptr<const GpuDevice> gpu) {
  struct State {
    std::optional<Joules> total;
    Nanoseconds changed_at = 0;
    std::optional<Nanoseconds> power_at;
    int dear_in_row = 0;
  };
  std::string label = gpu->label();
  return {std::move(label), [gpu = std::move(gpu), state = State{}]() mutable {
            MeterReading reading;
            const Nanoseconds begin = Sampler::now();
            reading.total = gpu->total_energy();
            const Nanoseconds now = Sampler::now();
            state.dear_in_row = now - begin > kDearReading ? std::min(state.dear_in_row + 1, kSurelyDear) : 0;
            if (state.dear_in_row == kSurelyDear) reading.shape = gpu->power_samples(now - kRecord);
            if (reading.total != state.total) state.changed_at = now;
            state.total = reading.total;
            if (!reading.total || !state.power_at || now - *state.power_at >= most_age(now - state.changed_at)) {
              state.power_at = now;
              reading.power = gpu->power();
            }
            return reading;
          }};
}

std::vector<Meter> meters_of(const std::shared_ptr<const CpuDevice>& cpu) {
  static_cast<void>(cpu->package_energy());
  std::vector<Meter> meters;
  meters.push_back({cpu->label(), [cpu] { return MeterReading{std::nullopt, cpu->package_energy()}; }});
  if (cpu->dram_energy()) {
    meters.push_back({fmt::format("DRAM:{}", cpu->index()), [cpu] {
                        return MeterReading{std::nullopt, cpu->dram_energy()};
                      }});
  }
  return meters;
}

}  // namespace flyball
