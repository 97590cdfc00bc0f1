#include "agent/power_feed.h"

#include "agent/log.h"
#include "device/device_error.h"
#include "device/meters.h"

namespace flyball {
namespace {

constexpr Seconds kHistory{5.0};  // a stream is served many times a second

}  // namespace

PowerFeed::PowerFeed(const std::vector<std::shared_ptr<GpuDevice>>& gpus,
                     const std::vector<std::shared_ptr<CpuDevice>>& cpus, const Sampler::Options& sampling)
    : sampling_(sampling) {
  sampling_.history = kHistory;
  for (const auto& gpu : gpus) meters_.push_back(meter_of(gpu));
  for (const auto& cpu : cpus) {
    try {
      for (Meter& meter : meters_of(cpu)) meters_.push_back(std::move(meter));
    } catch (const DeviceError& error) {
      log_event(LogLevel::kWarning, "not_streamed", {{"device", cpu->label()}, {"error", error.what()}});
    }
  }
  for (const Meter& meter : meters_) labels_.push_back(meter.label);
}

PowerFeed::PowerFeed(const PowerFeed& other, Seconds period)
    : sampling_(other.sampling_), meters_(other.meters_), labels_(other.labels_) {
  sampling_.period = period;
}

void PowerFeed::listen() {
  if (listeners_++ > 0 || meters_.empty()) return;
  sampler_ = std::make_unique<Sampler>(meters_, sampling_);
}

void PowerFeed::leave() {
  if (--listeners_ > 0) return;
  late_before_ = late_samples();
  sampler_.reset();
}

std::vector<PowerSample> PowerFeed::since(std::size_t device, Nanoseconds after) const {
  if (!sampler_) return {};
  return sampler_->samples_since(device, after);
}

std::optional<PowerSample> PowerFeed::latest(std::size_t device) const {
  if (!sampler_) return std::nullopt;
  return sampler_->state(device).latest;
}

std::size_t PowerFeed::late_samples() const {
  std::size_t late = late_before_;
  for (std::size_t i = 0; sampler_ && i < sampler_->meter_count(); ++i) late += sampler_->state(i).late;
  return late;
}

}  // namespace flyball
