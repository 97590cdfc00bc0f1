// Reads the power formats with one row per line: CSV, nvidia-smi, Zeus, dcgmi dmon. Each reader finds its columns in
// the header and turns rows into readings one by one.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/time_text.h"
#include "trace/power_reading.h"

namespace flyball {
namespace {

struct Field {
  std::string_view text;
  std::size_t column;  // from 1
};

std::string_view field_text(std::string_view text) { return unquoted(trim(text, " \t")); }

void split(std::string_view line, std::string_view separator, std::vector<Field>& fields) {
  fields.clear();
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = std::min(line.find(separator, begin), line.size());
    fields.push_back({field_text(line.substr(begin, end - begin)), begin + 1});
    if (end == line.size()) return;
    begin = end + separator.size();
  }
}

void split_blanks(std::string_view line, std::vector<Field>& fields) {
  fields.clear();
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = std::min(line.find_first_not_of(" \t", at), line.size());
    at = std::min(line.find_first_of(" \t", begin), line.size());
    if (begin < at) fields.push_back({line.substr(begin, at - begin), begin + 1});
  }
}

// Index of the first column that `wanted` accepts, or -1.
template <class Wanted>
int find_column(const std::vector<Field>& header, Wanted wanted) {
  const auto found = std::find_if(header.begin(), header.end(), [&](const Field& field) { return wanted(field.text); });
  return found == header.end() ? -1 : static_cast<int>(found - header.begin());
}

int find_named(const std::vector<Field>& header, std::string_view name) {
  return find_column(header, [name](std::string_view text) { return text == name; });
}

[[noreturn]] void refuse(const LineReader& lines, std::size_t column, const std::string& problem,
                         const std::string& mend) {
  throw InputError({lines.name(), lines.line(), column}, problem, mend);
}

// A row at which the file was cut off may look whole ("12" of "12.5"), so that none of its numbers can be trusted.
bool cut_short(const LineReader& lines, ReadingSink& sink) {
  if (lines.complete()) return false;
  sink.stats().truncated = true;
  sink.drop("a last row without an end", lines.line());
  return true;
}

// Reads a comment such as: # timestamp: s since 1970 (Unix time) = CLOCK_MONOTONIC + 1795179492.322089197 s
void read_comment(std::string_view line, ReadingSink& sink) {
  constexpr std::string_view kClock = "CLOCK_MONOTONIC + ";
  const std::size_t at = line.find(kClock);
  if (at == std::string_view::npos || sink.stats().monotonic_offset) return;
  std::string_view number = line.substr(at + kClock.size());
  number = number.substr(0, number.find(' '));
  sink.stats().monotonic_offset = parse_decimal(number, 9);
}

// Reads a comment such as: # device GPU:0: integrated power, sensor_period_s: 0.1000
// or: # device GPU:0: from here on frozen counter, integrated power
void read_source(std::string_view line, std::set<std::string, std::less<>>& integrated) {
  constexpr std::string_view kDevice = "# device ";
  if (!line.starts_with(kDevice)) return;
  line.remove_prefix(kDevice.size());
  const std::size_t end = line.find(": ");
  if (end == std::string_view::npos || line.substr(end).starts_with(": read every ")) return;
  const std::string device(line.substr(0, end));
  if (line.find("integrated power", end) != std::string_view::npos) {
    integrated.insert(device);
  } else {
    integrated.erase(device);
  }
}

double number_in(const LineReader& lines, const Field& field, std::string_view what) {
  if (const auto value = parse_number(field.text)) return *value;
  refuse(lines, field.column, fmt::format("{} is '{}', not a number", what, field.text.substr(0, 40)),
         "write a plain decimal number with a point, no unit");
}

}  // namespace

void read_csv_power(LineReader& lines, PowerFormat format, ReadingSink& sink) {
  constexpr const char* kMend =
      "the first line must hold the columns timestamp,device,power_w or timestamp,device,energy_j";
  std::vector<Field> fields;
  std::string_view line;
  int time_column = -1;
  int device_column = -1;
  int value_column = -1;
  std::size_t width = 0;
  ReadingKind kind = ReadingKind::kPower;
  std::set<std::string, std::less<>> integrated;  // devices without a counter, at this place of the file
  while (lines.next(line)) {
    if (field_text(line).empty()) continue;
    if (line.front() == '#') {
      read_comment(line, sink);
      if (format == PowerFormat::kFlyball) read_source(line, integrated);
      continue;
    }
    split(line, ",", fields);
    if (time_column < 0) {
      time_column = find_named(fields, "timestamp");
      device_column = find_named(fields, "device");
      value_column = find_named(fields, "energy_j");
      kind = ReadingKind::kCounter;
      if (value_column < 0) {
        value_column = find_named(fields, "power_w");
        kind = format == PowerFormat::kFlyball ? ReadingKind::kMeanPower : ReadingKind::kPower;
      }
      width = fields.size();
      for (const auto& [column, name] : {std::pair<int, const char*>{time_column, "timestamp"},
                                         {device_column, "device"},
                                         {value_column, "power_w or energy_j"}}) {
        if (column < 0) refuse(lines, 1, fmt::format("the header has no column '{}'", name), kMend);
      }
      continue;
    }
    if (!lines.complete() && (format == PowerFormat::kFlyball || fields.size() < width)) {
      cut_short(lines, sink);
      break;
    }
    if (fields.size() != width) {
      refuse(lines, fields.back().column, fmt::format("the row has {} fields, the header has {}", fields.size(), width),
             "give every row one value per column");
    }
    const Field& stamp = fields[static_cast<std::size_t>(time_column)];
    const Field& value = fields[static_cast<std::size_t>(value_column)];
    const std::string_view name = fields[static_cast<std::size_t>(device_column)].text;
    const bool failure = format == PowerFormat::kFlyball && value.text.empty() && !name.empty();
    if (is_absent(value.text) && !failure) {
      sink.drop("no value", lines.line());
      continue;
    }
    if (name.empty()) {
      sink.drop("no device", lines.line());
      continue;
    }
    const SensorId sensor = sink.device(name);
    const Nanoseconds time = parse_stamp(lines, stamp.text, stamp.column, sink.options().utc_offset);
    if (failure) {
      sink.add_failure(time, sensor, integrated.contains(name), lines.line());
      continue;
    }
    sink.add(time, sensor, kind, number_in(lines, value, kind == ReadingKind::kCounter ? "energy_j" : "power_w"),
             lines.line());
  }
  if (time_column < 0) throw InputError({lines.name()}, "the file has no header and no rows", kMend);
}

// nvidia-smi separates fields by a comma and a blank, so that a decimal comma is not mistaken for one. Power is written
// "65.27 W", "65,27 W" or, with nounits, without its unit.
void read_nvidia_smi_power(LineReader& lines, ReadingSink& sink) {
  constexpr const char* kMend = "record with nvidia-smi --query-gpu=timestamp,index,power.draw --format=csv -lms 100";
  std::vector<Field> fields;
  std::string_view line;
  int time_column = -1;
  int device_column = -1;
  int power_column = -1;
  while (lines.next(line)) {
    if (field_text(line).empty()) continue;
    split(line, ", ", fields);
    if (fields.size() < 2 && line.find(',') != std::string_view::npos) split(line, ",", fields);
    if (fields.front().text == "timestamp" ||
        find_named(fields, "timestamp") >= 0) {  // repeated where files are joined
      time_column = find_named(fields, "timestamp");
      power_column = find_column(fields, [](std::string_view text) { return text.starts_with("power.draw"); });
      // Of several columns, the one that averages least is read.
      const int instant =
          find_column(fields, [](std::string_view text) { return text.starts_with("power.draw.instant"); });
      if (instant >= 0) power_column = instant;
      device_column = find_named(fields, "index");
      for (const std::string_view id : {"uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial"}) {
        if (device_column < 0) device_column = find_named(fields, id);
      }
      if (power_column < 0) refuse(lines, 1, "the header has no column 'power.draw'", kMend);
      continue;
    }
    if (time_column < 0) {  // written with noheader
      if (fields.size() < 2) refuse(lines, 1, "the row is none of nvidia-smi's", kMend);
      time_column = 0;
      device_column = fields.size() > 2 ? 1 : -1;
      power_column = fields.size() > 2 ? 2 : 1;
    }
    const auto last = static_cast<std::size_t>(std::max({time_column, device_column, power_column}));
    if (fields.size() <= last) {
      if (cut_short(lines, sink)) break;
      refuse(lines, 1, fmt::format("the row has {} fields, too few", fields.size()), kMend);
    }
    const Field& power = fields[static_cast<std::size_t>(power_column)];
    if (!lines.complete() && !power.text.ends_with('W')) {
      cut_short(lines, sink);
      break;
    }
    if (is_absent(power.text)) {
      sink.drop("no value", lines.line());
      continue;
    }
    std::string_view number = power.text;
    double scale = 1.0;
    if (number.ends_with("mW")) {
      number.remove_suffix(2);
      scale = 1e-3;
    } else if (number.ends_with('W')) {
      number.remove_suffix(1);
    }
    const auto watts = parse_local_number(field_text(number));
    if (!watts) {
      refuse(lines, power.column, fmt::format("the power is '{}', not a number of watts", power.text.substr(0, 40)),
             kMend);
    }
    const Field& stamp = fields[static_cast<std::size_t>(time_column)];
    const Nanoseconds time = parse_stamp(lines, stamp.text, stamp.column, sink.options().utc_offset);
    const std::string_view device =
        device_column < 0 ? std::string_view("0") : fields[static_cast<std::size_t>(device_column)].text;
    sink.add(time, sink.gpu(device), ReadingKind::kPower, *watts * scale, lines.line());
  }
}

// Zeus's PowerMonitor writes "time,W,W,..." without a header, a column a GPU; its older zeus_monitor "Time,Power" with
// local dates and milliwatts of one GPU.
void read_zeus_power(LineReader& lines, ReadingSink& sink) {
  std::vector<Field> fields;
  std::string_view line;
  bool milliwatts = false;
  while (lines.next(line)) {
    if (field_text(line).empty()) continue;
    split(line, ",", fields);
    if (field_text(line) == "Time,Power") {
      milliwatts = true;
      continue;
    }
    if (!lines.complete()) {
      cut_short(lines, sink);
      break;
    }
    if (fields.size() < 2) {
      refuse(lines, 1, "the row has one field", "give a time and a power for each GPU, separated by commas");
    }
    const Nanoseconds time = parse_stamp(lines, fields[0].text, 1, sink.options().utc_offset);
    for (std::size_t i = 1; i < fields.size(); ++i) {
      if (is_absent(fields[i].text)) {
        sink.drop("no value", lines.line());
        continue;
      }
      sink.add(time, sink.gpu(fmt::format("{}", i - 1)), ReadingKind::kPower,
               number_in(lines, fields[i], "the power") * (milliwatts ? 1e-3 : 1.0), lines.line());
    }
  }
}

// A table whose header is repeated every few rows: "#Entity POWER TOTEC", "ID W mJ", then "GPU 0 43.1 123456". It has
// no stamps, unless each line begins with one (dcgmi dmon ... | ts '%.s'); without, a device has a row every
// row_period.
void read_dcgm_power(LineReader& lines, ReadingSink& sink) {
  constexpr const char* kMend = "record with dcgmi dmon -e 155,156 -d 100, through ts '%.s' for exact times";
  std::vector<Field> fields;
  std::string_view line;
  int power = -1;  // columns behind the device's
  int energy = -1;
  std::map<SensorId, std::int64_t> rows;
  const Nanoseconds period = to_nanoseconds(sink.options().row_period);
  while (lines.next(line)) {
    split_blanks(line, fields);
    const auto entity = std::find_if(fields.begin(), fields.end(), [](const Field& field) {
      return field.text == "#Entity" || field.text == "Entity" || field.text == "#";
    });
    if (entity != fields.end()) {
      const std::vector<Field> header(entity + 1, fields.end());
      power = find_column(header, [](std::string_view text) { return text.starts_with("POWER") || text == "PWR"; });
      energy = find_column(header, [](std::string_view text) { return text.starts_with("TOTEC"); });
      if (power < 0 && energy < 0) refuse(lines, 1, "the table has neither POWER nor TOTEC", kMend);
      continue;
    }
    // "GPU 0 ..." or, for instances, "GPU-I 1 ...", which share their GPU's sensor.
    const auto gpu = std::find_if(fields.begin(), fields.end(), [](const Field& field) { return field.text == "GPU"; });
    if (gpu == fields.end()) continue;  // the line of units, blank ones, other entities
    if (power < 0 && energy < 0) refuse(lines, 1, "a row stands before the table's head", kMend);
    const auto column = static_cast<std::size_t>(std::max(power, energy));
    if (static_cast<std::size_t>(fields.end() - gpu) <= column + 2 || !lines.complete()) {
      if (cut_short(lines, sink)) break;
      refuse(lines, 1, "the row has fewer fields than the head", kMend);
    }
    const SensorId sensor = sink.gpu((gpu + 1)->text);
    Nanoseconds time = rows[sensor]++ * period;
    if (gpu != fields.begin()) {
      const std::size_t end = gpu->column - 1;
      time = parse_stamp(lines, field_text(line.substr(0, end)), 1, sink.options().utc_offset);
    }
    for (const auto& [index, kind, scale] : {std::tuple<int, ReadingKind, double>{power, ReadingKind::kPower, 1.0},
                                             {energy, ReadingKind::kCounter, 1e-3}}) {
      if (index < 0) continue;
      const Field& field = *(gpu + 2 + index);
      if (is_absent(field.text)) {
        sink.drop("no value", lines.line());
      } else {
        sink.add(time, sensor, kind, number_in(lines, field, "the value") * scale, lines.line());
      }
    }
  }
}

}  // namespace flyball
