// Which operation drew which joule: Smaragdine's accounting (ICSE'24, 3.2 and algorithm 2) as a sweep.
//
// At every moment the power of a device is shared equally among the operations that run on it then (multiplicity); an
// operation holds its share from begin to end (durable events) at the device's most recent reading (recency). Power
// while nothing runs is the device's idle energy, and what it drew before and after the program was profiled cannot be
// attributed; both are rows of their own. Energy is conserved:
//
//   measured = attributed + idle + outside          to 1e-9 relative; the sums are compensated
//
// Where the power trace has nothing (before its first reading, after its last, in a gap), an operation that runs has
// time without energy: `uncovered` says how much.
//
// Difference to algorithm 2: it works on ticks of 1 us, counts both ends of an event in (RANGE(ts, ts+dur+1)), and adds
// up watts per tick. Here intervals are half-open, so that cutting an event in two changes nothing; with `closed_by` =
// 1 us, on whole microseconds, the numbers are algorithm 2's times 1e-6 s.
//
// Cost O((events + segments) log(events under way)). Memory grows with the events that overlap, with operations and
// devices, and with the readings during which nothing ran. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "account/method.h"
#include "base/units.h"
#include "trace/trace.h"

namespace flyball {

// Who gets a share when an operation runs twice at the same time.
enum class Multiplicity : std::uint8_t {
  kOperations,  // the operation, once (algorithm 2 keeps a set of operations per tick)
  kEvents,      // each of its events
};

struct ProfiledWindow {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
};

struct AttributionOptions {
  Multiplicity multiplicity = Multiplicity::kOperations;
  std::optional<ProfiledWindow> window{};  // all events lie within it; none: the program was profiled all the time
  Nanoseconds closed_by = 0;               // added to the end of every event
};

struct OperationShare {
  OperationId operation = 0;
  DeviceId device = 0;
  Joules energy;
  Seconds busy;     // the time that it ran: the union of its events, or with kEvents their sum
  Seconds powered;  // the part of it for which the power is known
  std::uint64_t events = 0;
  Joules error{std::numeric_limits<double>::quiet_NaN()};  // half of a 90 % interval around `energy`; NaN: not known
  std::uint32_t group = 0;                                 // number of its group, from 1; 0: none
  Seconds shared{};  // its shares of the device's time; of all operations together the device's `busy`

  [[nodiscard]] Watts mean_power() const { return powered > Seconds(0) ? energy / powered : Watts(0); }
};

// Operations of a device of which only the sum is known: they always run together, in one ratio.
struct GroupShare {
  DeviceId device = 0;
  std::uint32_t group = 0;
  Joules energy;
  Joules error;  // of the sum
};

struct DeviceShare {
  DeviceId device = 0;
  Joules measured;
  Joules attributed;
  Joules idle;           // in the window, while nothing ran
  Joules outside;        // of the window
  Seconds powered;       // length of the power trace, without gaps: busy + idle_time + outside_time
  Seconds busy;          // while anything ran, power known
  Seconds idle_time;     // in the window, while nothing ran, power known
  Seconds outside_time;  // of the window, power known
  Seconds uncovered;     // while anything ran, power not known
  Seconds unmeasured;    // all of the window in which the power is not known; without a window: uncovered
  std::uint64_t events = 0;
  AccountMethod method = AccountMethod::kSweep;  // by which its operations got their energy
  // The power that it draws while nothing runs: of the readings during which nothing ran at any moment, that below
  // which it was for a tenth of their time. None where they are less than half a second.
  std::optional<Watts> quiet{};
};

struct Attribution {
  std::vector<DeviceShare> devices;        // in order of device; those that either trace names
  std::vector<OperationShare> operations;  // in order of device, then operation
  std::vector<GroupShare> groups;          // in order of group
};

// Reads both sources to their ends. Throws what they throw.
[[nodiscard]] Attribution attribute(EventSource& events, PowerSource& power, const AttributionOptions& options = {});

}  // namespace flyball
