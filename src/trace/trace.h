// What accounting works on: the operations of a program, the events of their execution, and the devices' power.
//
// Both traces are sources in order of time. Times are nanoseconds by any wall clock that the traces share; where they
// share none, a reader shifts the times of its trace. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/names.h"
#include "base/units.h"

namespace flyball {

using OperationId = std::uint32_t;  // index into the OperationTable that filled the trace
using DeviceId = std::uint32_t;     // index into the DeviceTable shared by both traces

enum class Phase : std::uint8_t { kUnknown, kForward, kBackward, kOptimizer };
template <>
inline constexpr auto kNamesOf<Phase> = name_list("", "forward", "backward", "optimizer");

// One execution of an operation on a device, [begin, end). A zero-length event has begin == end; none has end < begin.
struct TraceEvent {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  DeviceId device = 0;
  OperationId operation = 0;
};

// The mean power of a device in [begin, end). A power reading holds until the next one (Smaragdine 3.2: an event takes
// the most recent reading); an energy counter gives the difference of two readings over their distance.
struct PowerSegment {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  DeviceId device = 0;
  Watts power;
};

// Events in order of begin, over all devices. Throws InputError where the trace is not what it claims to be.
class EventSource {
 public:
  virtual ~EventSource() = default;
  [[nodiscard]] virtual bool next(TraceEvent& event) = 0;  // false at the end
};

// Segments in order of begin, over all devices; those of one device do not overlap.
class PowerSource {
 public:
  virtual ~PowerSource() = default;
  [[nodiscard]] virtual bool next(PowerSegment& segment) = 0;  // false at the end
};

}  // namespace flyball
