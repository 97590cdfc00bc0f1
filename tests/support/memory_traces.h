// Traces that a test makes up, as the sources that the engines read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "trace/trace.h"

namespace flyball::testing {

inline constexpr Nanoseconds kMicrosecond = 1'000;

class MemoryEvents final : public EventSource {
 public:
  // Put into the order of begin; events that begin together stay in the order given.
  explicit MemoryEvents(std::vector<TraceEvent> events) : events_(std::move(events)) {
    std::stable_sort(events_.begin(), events_.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  }
  bool next(TraceEvent& event) override {
    if (at_ == events_.size()) return false;
    event = events_[at_++];
    return true;
  }

 private:
  std::vector<TraceEvent> events_;
  std::size_t at_ = 0;
};

class MemoryPower final : public PowerSource {
 public:
  explicit MemoryPower(std::vector<PowerSegment> segments) : segments_(std::move(segments)) {
    std::stable_sort(segments_.begin(), segments_.end(),
                     [](const auto& a, const auto& b) { return a.begin < b.begin; });
  }
  bool next(PowerSegment& segment) override {
    if (at_ == segments_.size()) return false;
    segment = segments_[at_++];
    return true;
  }

 private:
  std::vector<PowerSegment> segments_;
  std::size_t at_ = 0;
};

struct TraceShape {
  int events = 1000;
  int operations = 40;
  int devices = 2;
  int streams = 3;  // per device; events of one stream follow each other
  Nanoseconds longest_event = 300 * kMicrosecond;
  Nanoseconds longest_pause = 100 * kMicrosecond;
  Nanoseconds sampling = 4 * kMillisecond;
  Nanoseconds tick = kMicrosecond;  // every time is a multiple of it
};

struct MadeTraces {
  std::vector<TraceEvent> events;
  std::vector<PowerSegment> power;
};

// Streams of random events, some of no length, under a random power that begins before them and ends after them.
inline MadeTraces make_traces(const TraceShape& shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto up_to = [&](Nanoseconds most) {
    return static_cast<Nanoseconds>(random() % static_cast<std::uint64_t>(most / shape.tick + 1)) * shape.tick;
  };
  MadeTraces made;
  std::vector<Nanoseconds> now(static_cast<std::size_t>(shape.devices * shape.streams), kSecond);
  for (int i = 0; i < shape.events; ++i) {
    const std::size_t stream = random() % now.size();
    const Nanoseconds begin = now[stream] + up_to(shape.longest_pause);
    const Nanoseconds end = begin + up_to(shape.longest_event);
    now[stream] = end;
    made.events.push_back({begin, end, static_cast<DeviceId>(stream % static_cast<std::size_t>(shape.devices)),
                           static_cast<OperationId>(random() % static_cast<std::uint64_t>(shape.operations))});
  }
  const Nanoseconds last = *std::max_element(now.begin(), now.end()) + 10 * shape.sampling;
  for (int device = 0; device < shape.devices; ++device) {
    Nanoseconds time = kSecond - 2 * shape.sampling;
    while (time < last) {
      const Nanoseconds end = time + shape.sampling / 2 + up_to(shape.sampling);
      made.power.push_back(
          {time, end, static_cast<DeviceId>(device), Watts(50.0 + static_cast<double>(random() % 25000) / 100.0)});
      time = end;
    }
  }
  return made;
}

}  // namespace flyball::testing
