// take() asks the sampler for each device's changes since the last one seen, up to a horizon before which no device
// can still have news, and sorts them by time; rows of later calls therefore come later. With a row period, changes
// that come too soon are left out, and the last of them is written at the end.
#include "measure/power_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iterator>
#include <limits>
#include <utility>

namespace flyball {
namespace {

std::string as_milliseconds(Nanoseconds time, std::size_t parts) {
  return fmt::format("{:.0f} ms", 1e3 * to_seconds(time).value() / static_cast<double>(parts));
}

}  // namespace

PowerRecorder::PowerRecorder(const Sampler& sampler, Options options)
    : sampler_(sampler),
      options_(std::move(options)),
      begin_(Sampler::now()),
      clock_offset_(read_clock(CLOCK_REALTIME) - Sampler::now()),
      taken_at_(begin_) {
  if (options_.meters.empty()) {
    for (std::size_t meter = 0; meter < sampler.meter_count(); ++meter) options_.meters.push_back(meter);
  }
  for (const std::size_t meter : options_.meters) {
    const MeterState state = sampler.state(meter);
    Device& device = devices_.emplace_back();
    device.meter = meter;
    device.label = state.label;
    device.failed_before = state.failed;
    device.readings_before = state.readings;
    device.seen_until = begin_;
    device.failures_told = begin_ - kSecond;
    if (options_.power) continue;  // a first row's mean power says nothing of what came after it
    // Without the change before the begin, the energy from the begin to the first change would be unknown.
    const std::vector<PowerSample> changes = sampler.changes_since(meter, begin_ - kSecond);
    for (const PowerSample& change : changes) {
      if (change.time <= begin_) device.seen_until = change.time - 1;
    }
  }
}

std::string PowerRecorder::header() {
  std::string text = fmt::format(
      "# flyball power trace, version 1\n"
      "# timestamp: s since 1970 (Unix time) = CLOCK_MONOTONIC + {}.{:09} s\n"
      "# sampling_period_s: {}\n",
      clock_offset_ / kSecond, clock_offset_ % kSecond, options_.sampling_period.value());
  for (Device& device : devices_) {
    const MeterState state = sampler_.state(device.meter);
    device.source = state.source;
    text += fmt::format("# device {}: {}", state.label, name_of(state.source));
    if (state.sensor_period > Seconds(0)) text += fmt::format(", sensor_period_s: {:.4f}", state.sensor_period.value());
    text += '\n';
  }
  return text + (options_.power ? "timestamp,device,power_w\n" : "timestamp,device,energy_j\n");
}

std::string PowerRecorder::take(bool all) {
  std::string text;
  if (!std::exchange(header_taken_, true)) text = header();
  rows_.clear();
  const Nanoseconds horizon = all ? Sampler::now() : news_horizon();
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    add_rows(i, horizon, all);
    add_failures(i, horizon);
  }
  std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) { return a.time < b.time; });
  for (const Row& row : rows_) {
    const Nanoseconds time = row.time + clock_offset_;
    fmt::format_to(std::back_inserter(text), "{}.{:06},{},", time / kSecond, time % kSecond / 1'000,
                   devices_[row.device].label);
    if (!std::isnan(row.value)) {
      fmt::format_to(std::back_inserter(text), "{:.3f}", row.value);
      ++row_count_;
    }
    text += '\n';
  }
  const Nanoseconds now = Sampler::now();
  for (Device& device : devices_) {
    const MeterState state = sampler_.state(device.meter);
    note_readings(device, state, now);
    if (all && device.put_off_readings > 0) {
      text += fmt::format("# device {}: read every {} to cost less\n", device.label,
                          as_milliseconds(device.put_off_for, device.put_off_readings));
    }
    if (state.source == device.source) continue;
    device.source = state.source;
    text += fmt::format("# device {}: from here on {}\n", device.label, name_of(state.source));
  }
  taken_at_ = now;
  return text;
}

void PowerRecorder::note_readings(Device& device, const MeterState& state, Nanoseconds now) {
  if (state.reading_period > options_.sampling_period) {
    device.put_off_for += now - taken_at_;
    device.put_off_readings += state.readings - device.readings_before;
  }
  device.readings_before = state.readings;
}

void PowerRecorder::add_rows(std::size_t i, Nanoseconds horizon, bool all) {
  Device& device = devices_[i];
  const Nanoseconds distance = to_nanoseconds(options_.row_period);
  for (const PowerSample& sample : sampler_.changes_since(device.meter, device.seen_until)) {
    if (sample.time > horizon) break;
    device.seen_until = sample.time;
    if (device.last_row && sample.time - device.last_row->time < distance) {
      device.left_out = sample;
    } else {
      add_row(i, sample);
    }
  }
  if (all && device.left_out) add_row(i, *device.left_out);
}

void PowerRecorder::add_row(std::size_t i, const PowerSample& sample) {
  Device& device = devices_[i];
  if (!device.last_row) device.first_joules = sample.energy.value();
  double value = sample.energy.value() - device.first_joules;
  if (options_.power) {
    // The sampler's own mean is taken, unless changes in between have been left out.
    Watts mean = sample.power;
    if (device.left_out && device.last_row) {
      mean = (sample.energy - device.last_row->energy) / to_seconds(sample.time - device.last_row->time);
    }
    value = mean.value();
  }
  rows_.push_back({sample.time, i, value});
  device.last_row = sample;
  device.left_out.reset();
}

// Writes one row for failures in a row, at the time at which they began: the energy between the rows around it may be a
// guess.
void PowerRecorder::add_failures(std::size_t i, Nanoseconds horizon) {
  Device& device = devices_[i];
  const Nanoseconds since = sampler_.state(device.meter).failing_since;
  if (since <= device.failures_told || since > horizon) return;
  device.failures_told = since;
  rows_.push_back({since, i, std::numeric_limits<double>::quiet_NaN()});
}

// A change is dated after the reading before it, and an integrated power half a sensor period back. Devices that have
// said nothing for a while are not waited for.
Nanoseconds PowerRecorder::news_horizon() const {
  const Nanoseconds now = Sampler::now();
  Nanoseconds horizon = now;
  for (const Device& device : devices_) {
    const MeterState state = sampler_.state(device.meter);
    const Nanoseconds patience = std::max(kSecond, 3 * to_nanoseconds(state.reading_period));
    if (!state.latest || now - state.latest->time > patience) continue;
    const bool integrated = state.source != EnergySource::kCounter;
    horizon = std::min(horizon, state.latest->time - (integrated ? to_nanoseconds(state.sensor_period) / 2 : 0));
  }
  return horizon;
}

std::vector<std::string> PowerRecorder::put_off() const {
  std::vector<std::pair<std::string, std::string>> devices_by_period;
  for (const Device& device : devices_) {
    if (device.put_off_readings == 0) continue;
    std::string period = as_milliseconds(device.put_off_for, device.put_off_readings);
    if (!devices_by_period.empty() && devices_by_period.back().first == period) {
      devices_by_period.back().second += ", " + device.label;
    } else {
      devices_by_period.emplace_back(std::move(period), device.label);
    }
  }
  std::vector<std::string> sentences;
  for (const auto& [period, devices] : devices_by_period) {
    sentences.push_back(fmt::format("{} read every {}", devices, period));
  }
  return sentences;
}

std::vector<std::string> PowerRecorder::failures() const {
  std::vector<std::string> sentences;
  for (const Device& device : devices_) {
    const MeterState state = sampler_.state(device.meter);
    const bool silent = !state.latest || state.latest->time < begin_;  // a meter that fails is seldom asked again
    const bool failing = state.failed > device.failed_before || (silent && !state.failure.empty());
    if (state.answering && !failing) continue;
    sentences.push_back(fmt::format("readings failed, rows are missing: {}", state.failure));
  }
  return sentences;
}

}  // namespace flyball
