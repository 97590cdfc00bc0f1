// All readings are sorted by time. A first pass finds each sensor's median period, which tells gaps from distances; a
// second turns neighbouring readings into segments. Sensors that are one device are added up by a sweep over their
// segments' ends.
#include "trace/power_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/median.h"
#include "base/text.h"
#include "base/time_text.h"
#include "trace/power_reading.h"

namespace flyball {
namespace {

constexpr double kGapPeriods = 5.0;  // a distance of more than this many of the sensor's median periods is a gap

// Readings of equal time keep the file's order.
void sort_by_time(std::vector<PowerReading>& readings) {
  std::stable_sort(readings.begin(), readings.end(),
                   [](const PowerReading& a, const PowerReading& b) { return a.time < b.time; });
}
void sort_by_time(std::vector<PowerSegment>& segments) {
  std::stable_sort(segments.begin(), segments.end(),
                   [](const PowerSegment& a, const PowerSegment& b) { return a.begin < b.begin; });
}

// Turns one sensor's readings, in order of time, into segments.
struct SensorReadings {
  PowerTraceSensor found;
  std::vector<Nanoseconds> distances;  // of one reading from the next, until the period is known
  bool counts = false;                 // it has a counter, beside which its power adds nothing
  bool has_last = false;
  PowerReading last;
  bool has_current = false;
  PowerReading current;                      // may be replaced by another one at the same time
  std::optional<PowerReading> failure;       // between the last and the current one
  std::optional<PowerReading> next_failure;  // after the current one
  Nanoseconds period = 0;
  Nanoseconds gap_time = 0;
  Nanoseconds longest_gap = 0;
  long double joules = 0.0L;
};

// The sum of several sensors' segments, which must come in order of begin.
struct DeviceSum {
  std::vector<std::string> sensors;
  std::vector<PowerSegment> running;                          // at most one per sensor
  Nanoseconds now = std::numeric_limits<Nanoseconds>::min();  // segments are given up to this time
  Nanoseconds partial = 0;

  template <class Take>
  void advance(Nanoseconds to, Take take) {
    while (!running.empty()) {
      Nanoseconds stop = to;
      Watts power;
      for (const PowerSegment& segment : running) {
        now = std::max(now, segment.begin);
        stop = std::min(stop, segment.end);
        power += segment.power;
      }
      if (stop > now) {
        take(PowerSegment{now, stop, running.front().device, power});
        if (running.size() < sensors.size()) partial += stop - now;
        now = stop;
      }
      std::erase_if(running, [this](const PowerSegment& segment) { return segment.end <= now; });
      if (now >= to) return;
    }
  }
};

class PowerSegments : public PowerTrace {
 public:
  explicit PowerSegments(const PowerTraceOptions& options) : options_(options) {}

  void add(const PowerReading& reading) {
    if (reading.sensor >= sensors_.size()) sensors_.resize(reading.sensor + std::size_t{1});
    sensors_[reading.sensor].counts = sensors_[reading.sensor].counts || reading.kind == ReadingKind::kCounter;
    readings_.push_back(reading);
  }

  PowerTraceStats& stats() { return stats_; }
  [[nodiscard]] const PowerTraceStats& stats() const override { return stats_; }

  void finish(const std::string& name) {
    sort_by_time(readings_);
    measure();
    cut();
    readings_ = {};
    sort_by_time(segments_);
    for (SensorId id = 0; id < stats_.sensors.size(); ++id) note_sensor(id);
    std::erase_if(stats_.sensors, [](const PowerTraceSensor& sensor) { return sensor.readings == 0; });
    add_up();
    if (empty_) {
      throw InputError({name}, "no device has two readings at different times",
                       "give a trace with at least two readings of a device; options name formats and devices");
    }
    first_ = stats_.first;
    last_ = stats_.last;
    rewind(options_.shift);
  }

  void rewind(Nanoseconds shift) override {
    shift_ = shift;
    stats_.first = first_ + shift;
    stats_.last = last_ + shift;
    at_ = 0;
  }

  bool next(PowerSegment& segment) override {
    if (at_ == segments_.size()) return false;
    segment = segments_[at_++];
    segment.begin += shift_;
    segment.end += shift_;
    return true;
  }

 private:
  void note_sensor(SensorId id) {
    if (id >= sensors_.size()) return;
    SensorReadings& state = sensors_[id];
    state.found.name = std::move(stats_.sensors[id].name);
    state.found.device = stats_.sensors[id].device;
    state.found.means = state.last.kind != ReadingKind::kPower;
    state.found.period = to_seconds(state.period);
    state.found.gap_time = to_seconds(state.gap_time);
    state.found.longest_gap = to_seconds(state.longest_gap);
    state.found.energy = Joules(static_cast<double>(state.joules));
    stats_.sensors[id] = state.found;
  }

  // If several sensors are one device, replaces their segments by those of their sum.
  void add_up() {
    std::map<DeviceId, DeviceSum> sums;
    for (const PowerTraceSensor& sensor : stats_.sensors) sums[sensor.device].sensors.push_back(sensor.name);
    std::erase_if(sums, [](const auto& entry) { return entry.second.sensors.size() < 2; });
    if (sums.empty()) return;
    const std::vector<PowerSegment> single = std::exchange(segments_, {});
    const auto take = [this](const PowerSegment& segment) { segments_.push_back(segment); };
    for (const PowerSegment& segment : single) {
      const auto sum = sums.find(segment.device);
      if (sum == sums.end()) {
        take(segment);
      } else {
        sum->second.advance(segment.begin, take);
        sum->second.running.push_back(segment);
      }
    }
    for (auto& [device, sum] : sums) {
      sum.advance(std::numeric_limits<Nanoseconds>::max(), take);
      stats_.sums.push_back({device, std::move(sum.sensors), to_seconds(sum.partial)});
    }
    sort_by_time(segments_);
  }

  [[nodiscard]] static bool counts_for(const SensorReadings& state, const PowerReading& reading) {
    return !state.counts || reading.kind == ReadingKind::kCounter;
  }

  // Finds the median period of every sensor, and which readings are not needed.
  void measure() {
    std::uint64_t beside = 0;
    for (const PowerReading& reading : readings_) {
      SensorReadings& state = sensors_[reading.sensor];
      if (reading.kind == ReadingKind::kFailure) {
        ++state.found.failures;
        continue;
      }
      if (!counts_for(state, reading)) {
        ++beside;
        continue;
      }
      ++state.found.readings;
      if (state.has_last && reading.time == state.last.time) {
        ++state.found.duplicates;
      } else if (state.has_last) {
        state.distances.push_back(reading.time - state.last.time);
      }
      state.last = reading;
      state.has_last = true;
    }
    for (SensorReadings& state : sensors_) {
      if (!state.distances.empty()) state.period = lower_median(std::move(state.distances));
      state.distances = {};
      state.has_last = false;
    }
    if (beside > 0) stats_.dropped.push_back({"power beside an energy counter of the same device", beside, 0});
  }

  void cut() {
    for (const PowerReading& reading : readings_) {
      SensorReadings& state = sensors_[reading.sensor];
      if (reading.kind == ReadingKind::kFailure) {
        if (state.has_current && (!state.next_failure || reading.value > 0.0)) state.next_failure = reading;
        continue;
      }
      if (!counts_for(state, reading)) continue;
      // Of several readings at one time, the last in the file counts.
      if (state.has_current && reading.time > state.current.time) settle(state);
      state.current = reading;
      state.has_current = true;
    }
    for (SensorReadings& state : sensors_) {
      if (!state.has_current) continue;
      settle(state);
      state.found.ends_failing = state.failure.has_value();
      // It is unknown how long the last reading of power was valid; it is taken to be one period.
      if (state.last.kind == ReadingKind::kPower && state.period > 0) {
        put(state, state.last.time, state.last.time + state.period, state.last.value);
      }
    }
  }

  void settle(SensorReadings& state) {
    if (state.has_last) join(state, state.current);
    state.last = state.current;
    state.has_last = true;
    state.failure = std::exchange(state.next_failure, std::nullopt);
  }

  void join(SensorReadings& state, const PowerReading& reading) {
    const PowerReading& last = state.last;
    const Nanoseconds distance = reading.time - last.time;
    const bool wide = state.failure || static_cast<double>(distance) > kGapPeriods * static_cast<double>(state.period);
    // A counter goes on through a failure. Integrated power was added up as if it had stayed at the last reading.
    if (state.failure && state.failure->value > 0.0) return leave_out(state, distance);
    switch (reading.kind) {
      case ReadingKind::kPower:
        if (wide) {
          put(state, last.time, last.time + state.period, last.value);
          leave_out(state, distance - state.period);
        } else {
          put(state, last.time, reading.time, last.value);
        }
        return;
      case ReadingKind::kFailure: return;
      case ReadingKind::kMeanPower: put(state, last.time, reading.time, reading.value); break;
      case ReadingKind::kCounter: {
        double joules = reading.value - last.value;
        const auto& ranges = options_.counter_ranges;
        const auto range = joules < 0.0 ? ranges.find(stats_.sensors[reading.sensor].name) : ranges.end();
        if (range != ranges.end() && joules + range->second.value() >= 0.0) {
          joules += range->second.value();
          ++state.found.wraps;
        }
        if (joules < 0.0) {
          ++state.found.resets;
          leave_out(state, distance);
          return;
        }
        put(state, last.time, reading.time, joules / to_seconds(distance).value());
        break;
      }
    }
    if (wide) ++state.found.bridged;
  }

  static void leave_out(SensorReadings& state, Nanoseconds time) {
    ++state.found.gaps;
    state.gap_time += time;
    state.longest_gap = std::max(state.longest_gap, time);
  }

  void put(SensorReadings& state, Nanoseconds begin, Nanoseconds end, double watts) {
    segments_.push_back({begin, end, stats_.sensors[state.last.sensor].device, Watts(watts)});
    state.joules += static_cast<long double>(watts) * static_cast<long double>(to_seconds(end - begin).value());
    if (empty_) stats_.first = begin;
    stats_.first = std::min(stats_.first, begin);
    stats_.last = empty_ ? end : std::max(stats_.last, end);
    empty_ = false;
  }

  PowerTraceOptions options_;
  PowerTraceStats stats_;
  std::vector<SensorReadings> sensors_;  // by SensorId
  std::vector<PowerReading> readings_;
  std::vector<PowerSegment> segments_;
  std::size_t at_ = 0;  // of the segment that comes next
  bool empty_ = true;
  Nanoseconds shift_ = 0;
  Nanoseconds first_ = 0;
  Nanoseconds last_ = 0;
};

// Recognises the format by the first line that decides it.
PowerFormat detect(const LineReader& lines) {
  std::string_view text = lines.beginning();
  if (text.starts_with("# flyball power trace")) return PowerFormat::kFlyball;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    if (line.empty()) continue;
    if (line.front() == '{' || line.front() == '[') return PowerFormat::kPrometheus;
    if (contains(line, "Entity")) return PowerFormat::kDcgm;
    if (line.starts_with("# HELP") || line.starts_with("# TYPE") || line.starts_with("DCGM_FI_")) {
      return PowerFormat::kPrometheusText;
    }
    if (line.front() == '#') continue;
    if (contains(line, "power.draw")) return PowerFormat::kNvidiaSmi;
    if (contains(line, "timestamp")) return PowerFormat::kCsv;
    if (line == "Time,Power") return PowerFormat::kZeus;
    if (line.size() > 10 && line[4] == '/' && line[7] == '/') return PowerFormat::kNvidiaSmi;
    if (parse_decimal(line.substr(0, line.find(',')), 9) && contains(line, ",")) return PowerFormat::kZeus;
    if (contains(line, "{") && contains(line, "}")) return PowerFormat::kPrometheusText;
    return PowerFormat::kCsv;  // its reader says what is missing
  }
  return PowerFormat::kCsv;
}

std::unique_ptr<PowerTrace> read_trace(ByteSource& bytes, const PowerTraceOptions& options, DeviceTable& devices) {
  LineReader lines(bytes);
  auto trace = std::make_unique<PowerSegments>(options);
  PowerTraceStats& stats = trace->stats();
  stats.format = options.format == PowerFormat::kDetect ? detect(lines) : options.format;
  std::uint64_t taken = 0;
  ReadingSink sink(options, devices, stats, [&](const PowerReading& reading) {
    trace->add(reading);
    if (options.progress && ++taken % 65536 == 0) options.progress(lines.share());
  });
  switch (stats.format) {
    case PowerFormat::kNvidiaSmi: read_nvidia_smi_power(lines, sink); break;
    case PowerFormat::kZeus: read_zeus_power(lines, sink); break;
    case PowerFormat::kDcgm: read_dcgm_power(lines, sink); break;
    case PowerFormat::kPrometheusText: read_prometheus_text_power(lines, sink); break;
    case PowerFormat::kPrometheus: read_prometheus_power(lines, sink); break;
    default: read_csv_power(lines, stats.format, sink);
  }
  stats.truncated = stats.truncated || lines.cut_off();
  trace->finish(lines.name());
  return trace;
}

}  // namespace

std::unique_ptr<PowerTrace> open_power_trace(const std::string& path, const PowerTraceOptions& options,
                                             DeviceTable& devices) {
  ByteSource bytes(path);
  return read_trace(bytes, options, devices);
}

std::unique_ptr<PowerTrace> open_power_text(const std::string& source, std::string_view text,
                                            const PowerTraceOptions& options, DeviceTable& devices) {
  ByteSource bytes(source, text);
  return read_trace(bytes, options, devices);
}

}  // namespace flyball
