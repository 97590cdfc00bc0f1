// Writes an account as a trace in Chrome's Trace Event Format: every event with its joules, and the power of each
// device as a counter. Each device is a process whose threads have as many rows of events as run at once.
//
// An event is named by the last part of its operation's name. Its arguments are the whole name (`operation`), the
// joules that it was given (`joules`) and, where it is known, the pass (`pass`). The joules of an operation's events
// add up to its row of the footprint, as far as the events are there: viewers hold a whole trace in memory, so that a
// trace has few more bytes than the most that is given, and what would come after them is left out and counted. The
// counter `power` is in watts (`W`), and 0 where nothing is measured. Times are in microseconds after
// `baseTimeNanoseconds`, a time since 1970.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "account/event_joules.h"
#include "base/units.h"
#include "report/chrome_trace.h"

namespace flyball {

inline constexpr std::uint64_t kMostAccountTraceBytes = std::uint64_t{256} << 20;  // about a million events

class AccountTrace final : public AccountedEvents {
 public:
  // Writes to `out` as it is told, which must outlive it.
  explicit AccountTrace(std::ostream& out, std::uint64_t most_bytes = kMostAccountTraceBytes);

  void begin(Nanoseconds first, const OperationTable& operations, const DeviceTable& devices) override;
  void on_event(const AccountedEvent& event) override;
  void on_power(DeviceId device, Nanoseconds begin, Nanoseconds end, Watts power) override;

  // Writes the end. Returns what was left out, in a sentence for people; nothing where all of it is there.
  [[nodiscard]] std::optional<std::string> finish();

 private:
  struct Device {
    bool named = false;
    std::set<std::pair<Nanoseconds, int>> free;  // threads by when their last event ended
    int threads = 0;
    bool measured = false;  // whether the next two are known
    Watts power;
    Nanoseconds measured_until = 0;
  };

  Device& device_at(DeviceId id);
  const std::string& json_of(OperationId id);
  int thread_for(Device& device, const AccountedEvent& event);
  void add_power(DeviceId id, Nanoseconds time, Watts power);
  bool has_room();

  std::ostream& out_;
  std::uint64_t most_bytes_;
  std::uint64_t written_ = 0;
  ChromeTraceText text_;
  const OperationTable* operations_ = nullptr;
  const DeviceTable* device_names_ = nullptr;
  Nanoseconds base_ = 0;
  std::vector<Device> devices_;
  std::vector<std::string> operation_json_;  // name, category and the beginning of the arguments; empty: not made yet
  int next_thread_;
  bool full_ = false;
  std::uint64_t left_out_ = 0;
  double left_out_joules_ = 0.0;
};

}  // namespace flyball
