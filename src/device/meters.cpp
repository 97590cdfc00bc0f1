#include "device/meters.h"

#include <fmt/format.h>

#include <utility>

namespace flyball {

Meter meter_of(std::shared_ptr<const GpuDevice> gpu) {
  std::string label = gpu->label();
  const Nanoseconds period = to_nanoseconds(kPowerReadingPeriod);
  return {std::move(label), [gpu = std::move(gpu), period, due = Nanoseconds{0}, due_at_change = Nanoseconds{0},
                             total = std::optional<Joules>()]() mutable {
            MeterReading reading;
            reading.total = gpu->total_energy();
            const bool changed = reading.total != total;
            total = reading.total;
            const Nanoseconds now = Sampler::now();
            if (!reading.total || now >= due || (changed && now >= due_at_change)) {
              due = now + period;
              if (changed) due_at_change = due;
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
