// Divides a processor's energy among this program, other processes, the system and the monitor, by the time that the
// kernel booked for each (jiffies), as EFLECT does for Smaragdine (section 4).
//
// In each interval between two samples a socket's energy is divided in proportion to busy jiffies: the program and the
// monitor (Flyball itself) get what their tasks ran on that socket, the system gets interrupts and stolen time, and
// other processes the rest. A task counts as having run where it was seen last. Where no processor of a socket was
// busy, its energy is the system's. A task cannot have more than its processor's busy time; where the kernel's two
// accounts disagree, the excess is cut off.
//
// Times are those of the power trace. Not thread-safe. Cost: linear in the samples.
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

// Returns 1 for "CPU:1" and "DRAM:1"; nullopt for other names.
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

// A power trace whose CPU:n and DRAM:n segments are reduced to the program's share of socket n; other devices' pass
// unchanged. What was taken off is kept in rest(). Times and sockets that the jiffies do not cover pass unchanged and
// are counted.
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

  // Returns what was taken off, by device. It is complete when next() has returned false. Devices beyond the list's end
  // have lost nothing.
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
