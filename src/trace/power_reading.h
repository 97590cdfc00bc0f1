// The readings of a power trace's file, row by row, before they are sorted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/byte_source.h"
#include "trace/operation_table.h"
#include "trace/power_trace.h"
#include "trace/trace.h"

namespace flyball {

enum class ReadingKind : std::uint8_t {
  kPower,      // W, at this time
  kMeanPower,  // W, on average since the device's last reading
  kCounter,    // J, since some moment
  kFailure,    // a failed reading; value 1: later readings give only a guess of the energy until then
};

using SensorId = std::uint32_t;  // index into PowerTraceStats::sensors

struct PowerReading {
  Nanoseconds time = 0;
  double value = 0.0;
  SensorId sensor = 0;
  ReadingKind kind = ReadingKind::kPower;
};

// Reads text line by line, without line ends and a byte order mark.
class LineReader {
 public:
  explicit LineReader(ByteSource& bytes);  // `bytes` must outlive it

  // Gives the next line, which is valid until the next call; returns false at the end. Throws InputError where a line
  // is longer than a megabyte.
  [[nodiscard]] bool next(std::string_view& line);

  [[nodiscard]] const std::string& name() const { return bytes_.name(); }
  [[nodiscard]] std::size_t line() const { return line_; }   // number of the line that next() gave
  [[nodiscard]] bool complete() const { return complete_; }  // whether that line had an end
  [[nodiscard]] std::string_view beginning() const;          // of the file, before the first next()
  [[nodiscard]] double share() const { return bytes_.share(); }
  [[nodiscard]] bool cut_off() const { return bytes_.cut_off(); }
  [[nodiscard]] std::string rest(std::size_t max_bytes);  // returns all that is left; throws InputError if it is more

 private:
  bool fill();

  ByteSource& bytes_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  bool at_end_ = false;
  std::size_t line_ = 0;
  bool complete_ = true;
};

// Takes the readings of all readers of rows, names devices, and counts the readings that are left out.
class ReadingSink {
 public:
  ReadingSink(const PowerTraceOptions& options, DeviceTable& devices, PowerTraceStats& stats,
              std::function<void(const PowerReading&)> take);

  // Takes a reading. A value that is not finite, or that no device can have, is counted with its reason instead.
  void add(Nanoseconds time, SensorId sensor, ReadingKind kind, double value, std::size_t line);
  void drop(const std::string& reason, std::size_t line);
  void add_failure(Nanoseconds time, SensorId sensor, bool guessed, std::size_t line);

  [[nodiscard]] SensorId device(std::string_view name);  // reads "GPU:0", "gpu 0", or what the options map
  [[nodiscard]] SensorId gpu(
      std::string_view index_or_id);  // a number, or a UUID, numbered in the order in which they come
  [[nodiscard]] const PowerTraceOptions& options() const { return options_; }
  PowerTraceStats& stats() { return stats_; }

 private:
  [[nodiscard]] SensorId sensor(std::string_view name, std::string_view device);

  const PowerTraceOptions& options_;
  DeviceTable& devices_;
  PowerTraceStats& stats_;
  std::function<void(const PowerReading&)> take_;
  std::unordered_map<std::string, std::size_t> ids_;                                // numbered as they come
  std::unordered_map<std::string, SensorId, StringHash, std::equal_to<>> sensors_;  // of stats_, by their names
  std::unordered_map<std::string, SensorId, StringHash, std::equal_to<>> seen_;     // by device()
};

// Reads a number with the decimal point or comma of any locale; returns nullopt where the text is no number.
[[nodiscard]] std::optional<double> parse_local_number(std::string_view text);

// Returns whether the text stands for a missing value: "[N/A]", "nan", "" and the like.
[[nodiscard]] bool is_absent(std::string_view text);

// Reads seconds or a date (base/time_text.h). Throws InputError, with line and column, where it is neither.
[[nodiscard]] Nanoseconds parse_stamp(const LineReader& lines, std::string_view text, std::size_t column,
                                      Seconds utc_offset);

// One reader for each family of formats. They throw InputError for a row that does not fit the format.
void read_csv_power(LineReader& lines, PowerFormat format, ReadingSink& sink);  // Flyball's and the plain one
void read_nvidia_smi_power(LineReader& lines, ReadingSink& sink);
void read_zeus_power(LineReader& lines, ReadingSink& sink);
void read_dcgm_power(LineReader& lines, ReadingSink& sink);
void read_prometheus_text_power(LineReader& lines, ReadingSink& sink);
void read_prometheus_power(LineReader& lines, ReadingSink& sink);

}  // namespace flyball
