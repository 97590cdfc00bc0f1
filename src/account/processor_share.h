// Whose joules a processor's are: this program's, other processes', the system's or the monitor's, by the time that
// the kernel booked for each (jiffies), as EFLECT does for Smaragdine (section 4).
//
// In each interval between two samples a socket's energy is divided by the busy jiffies of its processors: to each task
// of the program what it ran on that socket, the same for the monitor (Flyball itself), interrupts and stolen time to
// the system, and the rest to other processes. A task is taken to have run where it was seen last. Where no processor
// of a socket was busy, its energy is the system's. A task cannot have more than its processor's busy time; where the
// two clocks of the kernel disagree, what is too much is cut off.
//
// Times are those of the power trace. Pure computation; not thread-safe. Cost: linear in what is recorded.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "trace/jiffies_trace.h"
#include "trace/operation_table.h"
#include "trace/trace.h"

namespace flyball {

// 1 of "CPU:1" and "DRAM:1"; nullopt of other names.
[[nodiscard]] std::optional<int> socket_named(std::string_view device);

// Parts of an interval's energy; they add up to 1.
struct ProcessorShares {
  double program = 0.0;
  double other = 0.0;
  double system = 0.0;
  double monitor = 0.0;
};

struct ShareInterval {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  std::vector<ProcessorShares> sockets;  // by socket
};

[[nodiscard]] std::vector<ShareInterval> processor_shares(const JiffiesTrace& trace);

// A power trace of which the CPU:n and DRAM:n segments are cut down to the program's share of socket n; other devices
// pass. What was cut off is kept. What the jiffies do not cover, in time or of sockets, is passed on whole and counted.
class ProgramPower final : public PowerSource {
 public:
  struct Rest {
    double other = 0.0;  // J
    double system = 0.0;
    double monitor = 0.0;
    double uncovered = 0.0;  // passed on whole
    Nanoseconds uncovered_time = 0;
  };

  // All must outlive this.
  ProgramPower(PowerSource& source, const std::vector<ShareInterval>& shares, const DeviceTable& devices)
      : source_(source), shares_(shares), devices_(devices) {}

  bool next(PowerSegment& segment) override;

  // By device, complete when next() has said false. Devices beyond have none.
  [[nodiscard]] const std::vector<Rest>& rest() const { return rest_; }

 private:
  void take_apart(const PowerSegment& segment);

  PowerSource& source_;
  const std::vector<ShareInterval>& shares_;
  const DeviceTable& devices_;
  std::vector<PowerSegment> ready_;  // a heap by begin
  PowerSegment pending_;
  bool has_pending_ = false;
  bool at_end_ = false;
  std::vector<Rest> rest_;
};

}  // namespace flyball
