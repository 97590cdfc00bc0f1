// Reads power traces: Flyball's own recordings, CSV of power or energy, and the output of nvidia-smi, DCGM, Zeus and
// Prometheus; plain or gzip. docs/formats/power-trace.md says how each is read.
//
// Readings become segments of constant power. An instantaneous reading holds until the next one of its device, but not
// over a gap; a counter gives the mean between two readings. Opening reads the file once. Memory: 56 bytes for each
// reading while readings become segments, and 32 afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "trace/operation_table.h"
#include "trace/trace.h"

namespace flyball {

enum class PowerFormat : std::uint8_t {
  kDetect,
  kFlyball,
  kCsv,
  kNvidiaSmi,
  kDcgm,
  kZeus,
  kPrometheusText,
  kPrometheus
};

struct PowerTraceOptions {
  PowerFormat format = PowerFormat::kDetect;
  // Maps a device's name in the trace to its name here ("GPU-5c9e..." to "GPU:3"), before any other rule. Where several
  // become one device, their power is added up.
  std::map<std::string, std::string, std::less<>> device_names;
  Seconds utc_offset;  // local time less UTC, of stamps without a zone (nvidia-smi)
  // The ranges of counters, by their names in the trace. A counter that falls is taken to have passed its range or,
  // where it has no range here, to have begun anew.
  std::map<std::string, Joules, std::less<>> counter_ranges;
  Seconds row_period{1.0};               // between the rows of a format without stamps (dcgmi dmon)
  Nanoseconds shift = 0;                 // added to every time
  std::function<void(double)> progress;  // called with the share of the file that has been read, in [0, 1]
};

// What was found of one device of the trace, before devices that the options join were added up.
struct PowerTraceSensor {
  std::string name;  // as the trace has it
  DeviceId device = 0;
  std::uint64_t readings = 0;
  bool means = false;            // whether its segments are means between two readings, as those of counters are
  Seconds period;                // the median distance of two readings
  std::uint64_t duplicates = 0;  // readings at the stamp of a later one, which replaces them
  std::uint64_t resets = 0;      // times that a counter was reset; the energy in between is unknown
  std::uint64_t wraps = 0;       // times that a counter passed its range
  std::uint64_t gaps = 0;        // spans without readings, which are left out
  Seconds gap_time;
  Seconds longest_gap;
  std::uint64_t failures = 0;  // readings that failed, where the trace tells
  bool ends_failing = false;   // whether no reading has come since the last failure
  std::uint64_t bridged =
      0;          // distances as long as gaps that a counter bridges: their energy is measured, but not its course
  Joules energy;  // of the segments
};

// A device whose power is the sum of several of the trace's.
struct PowerTraceSum {
  DeviceId device = 0;
  std::vector<std::string> sensors;  // the names of the devices that are added up
  Seconds partial;                   // the time in which only some of them are measured and the others count as zero
};

struct DroppedReadings {
  std::string reason;
  std::uint64_t count = 0;
  std::uint64_t first_line = 0;  // the line of the first of them
};

struct PowerTraceStats {
  PowerFormat format = PowerFormat::kDetect;
  std::uint64_t readings = 0;
  std::vector<DroppedReadings> dropped;
  std::vector<PowerTraceSensor> sensors;  // those with readings, in the order of their coming
  std::vector<PowerTraceSum> sums;        // in the order of their device
  bool truncated = false;                 // the file ends in the middle of a row, which was left out
  Nanoseconds first = 0;                  // of the segments, with the shift
  Nanoseconds last = 0;
  // Flyball's recordings give the offset of Unix time from the monotonic clock: Unix = monotonic + this.
  std::optional<Nanoseconds> monotonic_offset;
};

class PowerTrace : public PowerSource {
 public:
  [[nodiscard]] virtual const PowerTraceStats& stats() const = 0;  // complete from the beginning

  // Starts from the beginning again, with every time moved by `shift` (instead of the options').
  virtual void rewind(Nanoseconds shift) = 0;
};

// Opens a trace. Throws SystemError where the file cannot be read, and InputError with line and column where the text
// is no trace of the format, or holds no reading. `devices` must outlive the call only.
[[nodiscard]] std::unique_ptr<PowerTrace> open_power_trace(const std::string& path, const PowerTraceOptions& options,
                                                           DeviceTable& devices);

// Opens a trace in memory in the same way. `text` must outlive only the call; `source` is its name in error messages.
[[nodiscard]] std::unique_ptr<PowerTrace> open_power_text(const std::string& source, std::string_view text,
                                                          const PowerTraceOptions& options, DeviceTable& devices);

}  // namespace flyball
