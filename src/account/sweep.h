// The sweep over an event trace and a power trace that every method of attribution uses.
//
// It walks each device through its own time and tells a visitor what changes. A visitor has
//
//   Token on_begin(const TraceEvent&)                      an event begins; the token comes back with its end
//   void on_end(DeviceId, OperationId, Nanoseconds begin, Nanoseconds end, Token)
//   void on_segment(const PowerSegment&)                   the device's clock stands at segment.begin
//   void on_power(DeviceId, Nanoseconds begin, Nanoseconds end, Watts)   nothing changes in between; end > begin
//   void on_no_power(DeviceId, Nanoseconds begin, Nanoseconds end)       as above, where the power trace is silent
//
// Intervals are half-open: an event that ends where another begins never shares with it. A segment that has not ended
// when the next of its device begins is cut short. Memory: the events under way and one segment per device. Cost:
// O((events + segments) log(events under way)). Throws InputError when a source is out of order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "trace/trace.h"

namespace flyball {

template <class Visitor>
class Sweep {
 public:
  explicit Sweep(Visitor& visitor) : visitor_(visitor) {}

  void run(EventSource& events, PowerSource& power) {
    TraceEvent event;
    PowerSegment segment;
    bool more_events = events.next(event);
    bool more_power = power.next(segment);
    while (more_events || more_power) {
      if (more_power && (!more_events || segment.begin <= event.begin)) {
        begin_segment(segment);
        more_power = power.next(segment);
      } else {
        begin_event(event);
        more_events = events.next(event);
      }
    }
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      Device& device = devices_[i];
      Nanoseconds end = device.now;
      if (device.started) end = std::max(end, device.segment.end);
      for (const Running& running : device.running) end = std::max(end, running.end);
      advance(static_cast<DeviceId>(i), device, end);
    }
  }

 private:
  using Token = decltype(std::declval<Visitor&>().on_begin(std::declval<const TraceEvent&>()));

  struct Running {
    Nanoseconds end = 0;
    Nanoseconds begin = 0;
    OperationId operation = 0;
    Token token{};
    bool operator>(const Running& other) const { return end > other.end; }
  };
  struct Device {
    bool started = false;
    Nanoseconds now = 0;
    PowerSegment segment;
    std::vector<Running> running;  // a heap, the first to end on top
  };

  Device& device_at(DeviceId id, Nanoseconds time, const char* what) {
    if (id >= devices_.size()) devices_.resize(id + 1);
    Device& device = devices_[id];
    if (!device.started) {
      device.started = true;
      device.now = time;
      device.segment.end = time;  // nothing is measured yet
    }
    if (time < device.now) {
      throw InputError({what}, "the trace is not in the order of time", "sort its rows by time and try again");
    }
    advance(id, device, time);
    return device;
  }

  void begin_segment(const PowerSegment& segment) {
    device_at(segment.device, segment.begin, "power trace").segment = segment;
    visitor_.on_segment(segment);
  }

  void begin_event(const TraceEvent& event) {
    Device& device = device_at(event.device, event.begin, "event trace");
    device.running.push_back({event.end, event.begin, event.operation, visitor_.on_begin(event)});
    std::push_heap(device.running.begin(), device.running.end(), std::greater<>());
  }

  void advance(DeviceId id, Device& device, Nanoseconds time) {
    while (!device.running.empty() && device.running.front().end <= time) {
      std::pop_heap(device.running.begin(), device.running.end(), std::greater<>());
      const Running ended = device.running.back();
      device.running.pop_back();
      walk(id, device, ended.end);
      visitor_.on_end(id, ended.operation, ended.begin, ended.end, ended.token);
    }
    walk(id, device, time);
  }

  // Walks the device to `time`. On the way only its segment may begin or end.
  void walk(DeviceId id, Device& device, Nanoseconds time) {
    if (time <= device.now) return;
    const Nanoseconds powered = std::clamp(device.segment.end, device.now, time);
    if (powered > device.now) visitor_.on_power(id, device.now, powered, device.segment.power);
    if (time > powered) visitor_.on_no_power(id, powered, time);
    device.now = time;
  }

  Visitor& visitor_;
  std::vector<Device> devices_;
};

}  // namespace flyball
