// Events on a processor, told again of the sockets and memories that no event names.
//
// A framework's trace says what ran on the host, not on which socket: PyTorch's host events are all on CPU:0. Where
// jiffies tell how much of each socket's power, and of its memory's, is the program's, that much belongs to the
// operations that ran on the host at the time. Each event of a processor is therefore told again, as an event of every
// CPU:n and DRAM:n that was measured and of which the trace has none. Memory of a socket that the trace does name takes
// that socket's events alone.
//
// Not thread-safe. Cost: each event takes as long again for each device that it is told of.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trace/operation_table.h"
#include "trace/trace.h"

namespace flyball {

class HostEvents final : public EventSource {
 public:
  // `copies`: by device, those of which its events are told, too; may be shorter than there are devices. Both must
  // outlive this.
  HostEvents(EventSource& source, const std::vector<std::vector<DeviceId>>& copies)
      : source_(source), copies_(copies) {}

  bool next(TraceEvent& event) override;

 private:
  EventSource& source_;
  const std::vector<std::vector<DeviceId>>& copies_;
  TraceEvent original_;
  std::size_t told_ = 0;  // copies of it
  bool has_original_ = false;
};

// Returns HostEvents' `copies` for a trace with events on `heard` and power of `measured`.
[[nodiscard]] std::vector<std::vector<DeviceId>> host_copies(const std::vector<DeviceId>& heard,
                                                             const std::vector<DeviceId>& measured,
                                                             const DeviceTable& devices);

// Returns a note on these; empty where there are none.
[[nodiscard]] std::string note_on_copies(const std::vector<std::vector<DeviceId>>& copies, const DeviceTable& devices);

}  // namespace flyball
