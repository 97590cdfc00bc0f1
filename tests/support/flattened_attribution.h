// Smaragdine's procedures to the letter, slow and simple, for comparison with the sweep.
//
// flattened_footprint() is algorithm 2 of the paper: every event is repeated for every tick that it covers, both ends
// included; every tick's power, the most recent reading's, is shared equally among the distinct operations of the tick;
// the footprint is the sum over ticks of watts. script_footprint() does what the script does that was published with
// the paper: it steps from change to change, and an operation that ends still takes part up to the next change.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "trace/trace.h"

namespace flyball::testing {

using Tick = std::int64_t;
using TickPower = std::map<DeviceId, std::map<Tick, double>>;                 // algorithm 1: DEVICEPOWERTRACE
using TickFootprint = std::map<std::pair<DeviceId, OperationId>, double>;     // per device a TEFOOTPRINT
using FlatTrace = std::map<DeviceId, std::map<Tick, std::set<OperationId>>>;  // algorithm 2: DEVICEFLATTRACE

inline TickPower tick_power(const std::vector<PowerSegment>& segments, Nanoseconds tick) {
  TickPower power;
  for (const PowerSegment& segment : segments) power[segment.device][segment.begin / tick] = segment.power.value();
  return power;
}

// NOW: the most recent reading.
inline double power_at(const std::map<Tick, double>& power, Tick time) {
  const auto later = power.upper_bound(time);
  return later == power.begin() ? 0.0 : std::prev(later)->second;
}

inline FlatTrace flatten(const std::vector<TraceEvent>& events, Nanoseconds tick) {
  FlatTrace flat;
  for (const TraceEvent& event : events) {
    for (Tick t = event.begin / tick; t <= event.end / tick; ++t) flat[event.device][t].insert(event.operation);
  }
  return flat;
}

// GENFOOTPRINT and AGGREGATE, in watts times ticks.
inline TickFootprint flattened_footprint(const std::vector<TraceEvent>& events, const TickPower& power,
                                         Nanoseconds tick) {
  TickFootprint footprint;
  for (const auto& [device, ticks] : flatten(events, tick)) {
    const auto& readings = power.at(device);
    for (const auto& [time, operations] : ticks) {
      const double share = power_at(readings, time) / static_cast<double>(operations.size());
      for (const OperationId operation : operations) footprint[{device, operation}] += share;
    }
  }
  return footprint;
}

// In joules; every event of its own name, so that sets of names hold events.
inline TickFootprint script_footprint(const std::vector<TraceEvent>& events, const TickPower& power, Nanoseconds tick) {
  struct Change {
    std::set<OperationId> entry, exit;
  };
  std::map<DeviceId, std::map<Tick, Change>> traces;
  for (const TraceEvent& event : events) {
    traces[event.device][event.begin / tick].entry.insert(event.operation);
    traces[event.device][event.end / tick].exit.insert(event.operation);
  }
  TickFootprint footprint;
  for (const auto& [device, changes] : traces) {
    std::set<Tick> stops;
    for (const auto& change : changes) stops.insert(change.first);
    for (const auto& reading : power.at(device)) stops.insert(reading.first);
    std::set<OperationId> running;
    const Tick last = changes.rbegin()->first;
    for (auto stop = stops.find(changes.begin()->first); *stop < last; ++stop) {
      const Tick next = *std::next(stop);
      const Change& change = std::prev(changes.upper_bound(*stop))->second;
      running.insert(change.entry.begin(), change.entry.end());
      for (const OperationId operation : running) {
        footprint[{device, operation}] += power_at(power.at(device), *stop) * static_cast<double>(next - *stop) *
                                          static_cast<double>(tick) * 1e-9 / static_cast<double>(running.size());
      }
      for (const OperationId operation : change.exit) running.erase(operation);
    }
  }
  return footprint;
}

}  // namespace flyball::testing
