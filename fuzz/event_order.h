// What holds of every event trace, whatever it was read from: its events are in order of time, of devices and
// operations that are known.
#pragma once

#include <cstdlib>
#include <limits>

#include "trace/event_trace.h"

namespace flyball {

inline void require(bool holds) {
  if (!holds) std::abort();
}

inline void require_order(EventTrace& trace, const OperationTable& operations, const DeviceTable& devices) {
  TraceEvent event;
  Nanoseconds before = std::numeric_limits<Nanoseconds>::min();
  while (trace.next(event)) {
    require(event.begin >= before && event.end >= event.begin);
    require(event.device < devices.size() && event.operation < operations.size());
    before = event.begin;
  }
}

}  // namespace flyball
