// How much of a job's communication hides behind other work: by device, the time in which it ran beside other
// operations, and the time in which nothing else did.
#pragma once

#include <functional>
#include <vector>

#include "base/units.h"
#include "trace/trace.h"

namespace flyball {

struct CommunicationTime {
  Seconds beside;  // other work, on the same device
  Seconds alone;   // exposed: nothing else ran on the device
  Joules energy;   // that the device drew meanwhile, as far as its power is known
};

// Returns the times by device; those without communication have zeros. `communicates` tells of an operation. Reads both
// sources to their ends. Throws what they throw. Cost: that of a sweep (account/sweep.h).
[[nodiscard]] std::vector<CommunicationTime> communication_time(EventSource& events, PowerSource& power,
                                                                const std::function<bool(OperationId)>& communicates);

}  // namespace flyball
