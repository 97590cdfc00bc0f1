// Reads event traces for tests, as busy time of each operation.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trace/event_trace.h"

namespace flyball {

// "GPU:0 encoder/MatMul forward" -> busy nanoseconds
using Busy = std::map<std::string, Nanoseconds>;

struct ReadEvents {
  Busy busy;
  std::vector<TraceEvent> events;
  OperationTable operations;
  DeviceTable devices;
  EventTraceStats stats;

  [[nodiscard]] bool has_edge(std::string_view from, std::string_view to, EdgeKind kind) const {
    return std::any_of(operations.edges().begin(), operations.edges().end(), [&](const OperationEdge& edge) {
      return edge.kind == kind && operations.name(edge.from) == from && operations.name(edge.to) == to;
    });
  }
  [[nodiscard]] std::uint64_t dropped(std::string_view reason) const {
    for (const DroppedEvents& one : stats.dropped) {
      if (one.reason.find(reason) != std::string::npos) return one.count;
    }
    return 0;
  }
};

inline void drain(EventTrace& trace, ReadEvents& read) {
  constexpr const char* kPhases[] = {"", " forward", " backward", " optimizer"};
  TraceEvent event;
  Nanoseconds before = std::numeric_limits<Nanoseconds>::min();
  while (trace.next(event)) {
    EXPECT_GE(event.begin, before) << "events are in order of begin";
    EXPECT_GE(event.end, event.begin);
    before = event.begin;
    read.events.push_back(event);
    read.busy[fmt::format("{} {}{}", read.devices.name(event.device), read.operations.name(event.operation),
                          kPhases[static_cast<int>(read.operations.phase(event.operation))])] +=
        event.end - event.begin;
  }
  read.stats = trace.stats();
}

inline ReadEvents read_text(std::string_view text, const EventTraceOptions& options = {}) {
  ReadEvents read;
  const auto trace = open_event_text("trace.json", text, options, read.operations, read.devices);
  drain(*trace, read);
  return read;
}

inline ReadEvents read_golden(const std::string& name, const EventTraceOptions& options = {}) {
  ReadEvents read;
  const auto trace = open_event_trace(std::string(FLYBALL_SOURCE_DIR) + "/tests/trace/files/" + name, options,
                                      read.operations, read.devices);
  drain(*trace, read);
  return read;
}

inline Nanoseconds total(const Busy& busy, std::string_view part) {
  Nanoseconds sum = 0;
  for (const auto& [name, time] : busy) {
    if (name.find(part) != std::string::npos) sum += time;
  }
  return sum;
}

}  // namespace flyball
