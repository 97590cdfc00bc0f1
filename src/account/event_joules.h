// The joules of single executions: the sweep's attribution once more, told event by event.
//
// Where operations have the shares (Multiplicity::kOperations), the executions of one operation that run at the same
// time share its share equally, so that the joules of an operation's executions add up to its row of the footprint.
// Memory: a few numbers for each operation and device, and the events under way. Cost: that of the sweep.
#pragma once

#include <cstdint>
#include <vector>

#include "account/attribution.h"
#include "base/compensated_sum.h"
#include "base/units.h"
#include "trace/operation_table.h"
#include "trace/trace.h"

namespace flyball {

// One event of the trace. An execution that was cut into pieces, because others ran within it, has an event for each.
struct AccountedEvent {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  DeviceId device = 0;
  OperationId operation = 0;
  Joules energy;
};

// Is told of a run's events and of the power that they were given, which is the program's where jiffies divide it. Of
// each device in order of time, an event when it ends; of several devices in any order.
class AccountedEvents {
 public:
  virtual ~AccountedEvents() = default;

  // The traces begin at `first`. The tables live until the last call.
  virtual void begin(Nanoseconds first, const OperationTable& operations, const DeviceTable& devices) = 0;
  virtual void on_event(const AccountedEvent& event) = 0;
  virtual void on_power(DeviceId device, Nanoseconds begin, Nanoseconds end, Watts power) = 0;  // end > begin
};

// Repeats the sweep. On a device of which `fitted` has operations (by a regression), an event gets its operation's mean
// power there for the time for which the device's power is known; elsewhere its share of the power that was read.
void account_events(EventSource& events, PowerSource& power, Multiplicity multiplicity,
                    const std::vector<OperationShare>& fitted, AccountedEvents& accounted);

}  // namespace flyball
