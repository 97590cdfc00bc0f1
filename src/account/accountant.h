// The bookkeeping of the sweep's attribution: a visitor of sweep.h, which regression.cpp uses too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "account/attribution.h"
#include "base/compensated_sum.h"
#include "base/units.h"
#include "trace/trace.h"

namespace flyball {

// The energy of one share of a device so far: the integral of power over the number of sharers. An operation gets the
// difference between its end and its begin, so that an event beside many others costs no more than one alone.
struct ShareIntegral {
  CompensatedSum joules;
  CompensatedSum seconds;
  Nanoseconds powered = 0;
};

struct OperationState {
  std::uint64_t events = 0;
  std::uint32_t running = 0;
  ShareIntegral since;  // of the first of the operations that run
  Nanoseconds began = 0;
  CompensatedSum joules;
  CompensatedSum shared;  // s
  Nanoseconds busy = 0;
  Nanoseconds powered = 0;
};

struct DeviceState {
  bool known = false;
  std::uint64_t sharers = 0;
  ShareIntegral share;
  CompensatedSum measured;
  CompensatedSum idle;
  CompensatedSum outside;
  Nanoseconds powered = 0;
  Nanoseconds busy = 0;
  Nanoseconds outside_time = 0;
  Nanoseconds uncovered = 0;
  std::uint64_t events = 0;
  std::vector<OperationState> operations;
  // Of the present reading: its length, and how much of it has passed without anything that ran.
  Nanoseconds reading = 0;
  Nanoseconds reading_idle = 0;
  std::vector<std::pair<double, Nanoseconds>> idle_readings;  // W, and for how long
};

// What DeviceShare::quiet says.
inline std::optional<Watts> quiet_power(std::vector<std::pair<double, Nanoseconds>> idle_readings) {
  constexpr Nanoseconds kLeast = 500'000'000;
  constexpr Nanoseconds kTenth = 10;
  std::sort(idle_readings.begin(), idle_readings.end());
  Nanoseconds all = 0;
  for (const auto& [watts, time] : idle_readings) all += time;
  if (all < kLeast) return std::nullopt;
  Nanoseconds passed = 0;
  for (const auto& [watts, time] : idle_readings) {
    passed += time;
    if (passed >= all / kTenth) return Watts(watts);
  }
  return std::nullopt;
}

class Accountant {
 public:
  explicit Accountant(const AttributionOptions& options)
      : multiplicity_(options.multiplicity), window_(options.window) {}

  // The place of an event's own share in open_; 0 where operations have the shares.
  using Token = std::uint32_t;

  Token on_begin(const TraceEvent& event) {
    DeviceState& device = device_at(event.device);
    if (event.operation >= device.operations.size()) device.operations.resize(event.operation + 1);
    OperationState& operation = device.operations[event.operation];
    ++device.events;
    ++operation.events;
    if (multiplicity_ == Multiplicity::kEvents) {
      ++device.sharers;
      return open(device.share);
    }
    if (operation.running++ == 0) {
      ++device.sharers;
      operation.since = device.share;
      operation.began = event.begin;
    }
    return 0;
  }

  void on_end(DeviceId id, OperationId name, Nanoseconds begin, Nanoseconds end, Token token) {
    DeviceState& device = devices_[id];
    OperationState& operation = device.operations[name];
    if (multiplicity_ == Multiplicity::kOperations && --operation.running > 0) return;
    --device.sharers;
    const bool each = multiplicity_ == Multiplicity::kEvents;
    const ShareIntegral since = each ? close(token) : operation.since;
    operation.joules.add(device.share.joules.since(since.joules));
    operation.shared.add(device.share.seconds.since(since.seconds));
    operation.powered += device.share.powered - since.powered;
    operation.busy += end - (each ? begin : operation.began);
  }

  void on_segment(const PowerSegment& segment) {
    DeviceState& device = device_at(segment.device);
    device.reading = segment.end - segment.begin;
    device.reading_idle = 0;
  }

  void on_power(DeviceId id, Nanoseconds begin, Nanoseconds end, Watts power) {
    DeviceState& device = devices_[id];
    const double joules = power.value() * static_cast<double>(end - begin) * 1e-9;
    device.measured.add(joules);
    device.powered += end - begin;
    device.share.powered += end - begin;
    if (device.sharers > 0) {
      device.share.joules.add(joules / static_cast<double>(device.sharers));
      device.share.seconds.add(static_cast<double>(end - begin) * 1e-9 / static_cast<double>(device.sharers));
      device.busy += end - begin;
      return;
    }
    device.reading_idle += end - begin;
    if (device.reading_idle == device.reading) device.idle_readings.emplace_back(power.value(), device.reading);
    const Nanoseconds beyond = end - begin - within(begin, end);
    const double outside = joules * (static_cast<double>(beyond) / static_cast<double>(end - begin));
    device.outside.add(outside);
    device.outside_time += beyond;
    device.idle.add(joules - outside);
  }

  void on_no_power(DeviceId id, Nanoseconds begin, Nanoseconds end) {
    DeviceState& device = devices_[id];
    if (device.sharers > 0) device.uncovered += end - begin;
  }

  [[nodiscard]] Attribution result() const {
    Attribution result;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const DeviceState& device = devices_[i];
      if (!device.known) continue;
      const auto id = static_cast<DeviceId>(i);
      CompensatedSum attributed;
      for (std::size_t k = 0; k < device.operations.size(); ++k) {
        const OperationState& operation = device.operations[k];
        if (operation.events == 0) continue;
        attributed.add(operation.joules);
        result.operations.push_back({static_cast<OperationId>(k), id, Joules(operation.joules.value()),
                                     to_seconds(operation.busy), to_seconds(operation.powered), operation.events});
        result.operations.back().shared = Seconds(operation.shared.value());
      }
      const Nanoseconds idle_time = device.powered - device.busy - device.outside_time;
      const Nanoseconds unmeasured =
          window_ ? window_->end - window_->begin - device.busy - idle_time : device.uncovered;
      result.devices.push_back({.device = id,
                                .measured = Joules(device.measured.value()),
                                .attributed = Joules(attributed.value()),
                                .idle = Joules(device.idle.value()),
                                .outside = Joules(device.outside.value()),
                                .powered = to_seconds(device.powered),
                                .busy = to_seconds(device.busy),
                                .idle_time = to_seconds(idle_time),
                                .outside_time = to_seconds(device.outside_time),
                                .uncovered = to_seconds(device.uncovered),
                                .unmeasured = to_seconds(unmeasured),
                                .events = device.events,
                                .quiet = quiet_power(device.idle_readings)});
    }
    return result;
  }

 private:
  // How much of [begin, end) lies in the window.
  [[nodiscard]] Nanoseconds within(Nanoseconds begin, Nanoseconds end) const {
    if (!window_) return end - begin;
    return std::max<Nanoseconds>(std::min(end, window_->end) - std::max(begin, window_->begin), 0);
  }

  Token open(const ShareIntegral& share) {
    if (free_.empty()) {
      open_.push_back(share);
      return static_cast<Token>(open_.size() - 1);
    }
    const Token token = free_.back();
    free_.pop_back();
    open_[token] = share;
    return token;
  }
  const ShareIntegral& close(Token token) {
    free_.push_back(token);
    return open_[token];
  }

  DeviceState& device_at(DeviceId id) {
    if (id >= devices_.size()) devices_.resize(id + 1);
    devices_[id].known = true;
    return devices_[id];
  }

  Multiplicity multiplicity_;
  std::optional<ProfiledWindow> window_;
  std::vector<DeviceState> devices_;
  std::vector<ShareIntegral> open_;  // of the events that run, if each event has a share
  std::vector<Token> free_;          // free places in open_
};

// A source in which every event is `by` longer.
class ClosedEvents final : public EventSource {
 public:
  ClosedEvents(EventSource& source, Nanoseconds by) : source_(source), by_(by) {}
  bool next(TraceEvent& event) override {
    if (!source_.next(event)) return false;
    event.end += by_;
    return true;
  }

 private:
  EventSource& source_;
  Nanoseconds by_;
};

}  // namespace flyball
