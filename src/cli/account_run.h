// One run's traces, opened, put on one clock, attributed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "account/activity.h"
#include "account/attribution.h"
#include "account/clock_offset.h"
#include "account/energy_tree.h"
#include "account/footprint.h"
#include "base/units.h"
#include "report/footprint_report.h"
#include "trace/event_trace.h"
#include "trace/operation_table.h"
#include "trace/power_trace.h"

namespace flyball {

struct AccountSettings {
  bool regress = false;
  Seconds sensor_window;
  Multiplicity multiplicity = Multiplicity::kOperations;
  std::optional<Seconds> clock_offset;  // given; otherwise found where the traces do not overlap as they are
  bool estimate_offset = false;         // found even where they overlap
  EventTraceOptions events;
  PowerTraceOptions power;
  std::string jiffies;  // a file; none: the whole processor's energy is the program's
};

class AccountRun {
 public:
  // Names go into the tables, which must outlive the run. Throws what the readers throw.
  AccountRun(const std::string& events, const std::string& power, const AccountSettings& settings,
             OperationTable& operations, DeviceTable& devices);

  [[nodiscard]] const Footprint& footprint() const { return footprint_; }
  [[nodiscard]] const FootprintNotes& notes() const { return notes_; }

  // The sweep again, with only every `keep`-th reading of each device (Smaragdine 5.4.1: sample sparsing).
  [[nodiscard]] Footprint sparser(std::size_t keep);

  // Power and the activity of the tree's most telling parts; reads the traces again. The picture refers to `bins`.
  PowerPicture picture(const EnergyTree& tree, std::unique_ptr<ActivityBins>& bins);

 private:
  void settle_clock(const AccountSettings& settings);
  [[nodiscard]] ClockOffset estimate_offset(Nanoseconds shift);
  void find_clock();
  void check_clock(bool warn);
  void attribute_all(const AccountSettings& settings);
  void attribute_power(const AccountSettings& settings, PowerSource& power);
  [[nodiscard]] AttributionOptions attribution_options() const;
  [[nodiscard]] Footprint footprint_of(const Attribution& attribution) const;
  void note_traces();
  void note_devices(const AccountSettings& settings);
  [[noreturn]] void throw_nothing_ran() const;

  OperationTable& operations_;
  DeviceTable& devices_;
  std::string events_path_;
  std::string power_path_;
  std::unique_ptr<EventTrace> events_;
  std::unique_ptr<PowerTrace> power_;
  Multiplicity multiplicity_;
  Nanoseconds shift_ = 0;  // of the events
  Footprint footprint_;
  FootprintNotes notes_;
};

}  // namespace flyball
