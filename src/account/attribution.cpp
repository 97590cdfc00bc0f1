// The sweep of sweep.h with the bookkeeping of accountant.h.
#include "account/attribution.h"

#include "account/accountant.h"
#include "account/sweep.h"

namespace flyball {
Attribution attribute(EventSource& events, PowerSource& power, const AttributionOptions& options) {
  Accountant accountant(options);
  ClosedEvents closed(events, options.closed_by);
  Sweep<Accountant>(accountant).run(closed, power);
  return accountant.result();
}

}  // namespace flyball
