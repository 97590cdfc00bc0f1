// Listeners are counted. The first starts the sampler; rest() ends it two seconds after the last has gone, in a thread
// of its own, since the sampler's end waits for the reading under way.
#include "agent/power_feed.h"

#include <future>
#include <system_error>
#include <utility>

#include "agent/log.h"
#include "driver/device_error.h"
#include "driver/patience.h"
#include "measure/meters.h"

namespace flyball {
namespace {

constexpr Seconds kHistory{5.0};                // a stream is served many times a second
constexpr Nanoseconds kLinger = 2'000'000'000;  // the agent looks once a second, so that it is up to 3 s

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
  if (listeners_++ > 0 || meters_.empty() || sampler_) return;
  sampler_ = std::make_unique<Sampler>(meters_, sampling_);
}

void PowerFeed::leave() {
  if (--listeners_ == 0) left_ = Sampler::now();
}

void PowerFeed::rest() {
  if (!sampler_ || listeners_ > 0 || Sampler::now() - left_ < kLinger) return;
  // Every meter was asked in that time, so that one which hangs no longer counts as answering.
  for (std::size_t i = 0; i < sampler_->meter_count(); ++i) {
    if (!sampler_->state(i).answering) return;
  }
  late_before_ = late_samples();
  // The sampler's end waits for the reading under way, which may hang from just now on.
  std::shared_ptr<Sampler> ended = std::move(sampler_);
  try {
    start_aside(std::packaged_task<void()>([ended = std::move(ended)] {})).detach();
  } catch (const std::system_error&) {
    // No thread can be made, so that this one has to wait.
  }
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
