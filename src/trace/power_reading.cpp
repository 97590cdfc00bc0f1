// Lines are views into a buffer that grows up to a line's limit. A sensor is known by its name in the trace; the
// device by its name after the options' map.
#include "trace/power_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/time_text.h"
#include "trace/event_recorder.h"

namespace flyball {
namespace {

constexpr std::size_t kMaxLineBytes = 1u << 20;
constexpr double kMostWatts = 1e7;    // of one device
constexpr double kMostJoules = 1e15;  // of one counter

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

LineReader::LineReader(ByteSource& bytes) : bytes_(bytes), buffer_(1u << 18) {
  fill();
  if (beginning().starts_with("\xEF\xBB\xBF")) at_ = 3;
}

std::string_view LineReader::beginning() const { return {buffer_.data() + at_, end_ - at_}; }

bool LineReader::fill() {
  if (at_end_) return false;
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(at_), buffer_.begin() + static_cast<std::ptrdiff_t>(end_),
            buffer_.begin());
  end_ -= at_;
  at_ = 0;
  if (end_ == buffer_.size()) buffer_.resize(buffer_.size() * 2);
  const std::size_t wanted = buffer_.size() - end_;
  const std::size_t got = bytes_.read(buffer_.data() + end_, wanted);
  end_ += got;
  at_end_ = got < wanted;
  return got > 0;
}

bool LineReader::next(std::string_view& line) {
  std::size_t searched = at_;
  while (true) {
    const auto begin = buffer_.begin();
    const auto found =
        std::find(begin + static_cast<std::ptrdiff_t>(searched), begin + static_cast<std::ptrdiff_t>(end_), '\n');
    const auto stop = static_cast<std::size_t>(found - begin);
    complete_ = stop < end_;
    if (complete_ || at_end_) {
      if (stop == at_ && !complete_) return false;
      line = std::string_view(buffer_.data() + at_, stop - at_);
      if (line.ends_with('\r')) line.remove_suffix(1);
      at_ = complete_ ? stop + 1 : stop;
      ++line_;
      return true;
    }
    const std::size_t pending = end_ - at_;
    if (pending > kMaxLineBytes) {
      throw InputError({name(), line_ + 1, 1}, "the line is longer than 1 MiB", "check that this is a power trace");
    }
    fill();
    searched = at_ + pending;
  }
}

std::string LineReader::rest(std::size_t max_bytes) {
  std::string text;
  while (true) {
    text.append(buffer_.data() + at_, end_ - at_);
    at_ = end_;
    if (text.size() > max_bytes) {
      throw InputError({name()}, fmt::format("the file is larger than {} MiB", max_bytes >> 20),
                       "ask Prometheus for a shorter time or a longer step, and give several files");
    }
    if (!fill()) return text;
  }
}

ReadingSink::ReadingSink(const PowerTraceOptions& options, DeviceTable& devices, PowerTraceStats& stats,
                         std::function<void(const PowerReading&)> take)
    : options_(options), devices_(devices), stats_(stats), take_(std::move(take)) {}

void ReadingSink::add(Nanoseconds time, SensorId sensor, ReadingKind kind, double value, std::size_t line) {
  const bool counter = kind == ReadingKind::kCounter;
  if (!std::isfinite(value)) return drop("a value that is no finite number", line);
  if (value < 0.0) return drop(counter ? "negative energy" : "negative power", line);
  if (value > (counter ? kMostJoules : kMostWatts)) return drop("a value beyond every device", line);
  if (time > kFarthestTime || time < -kFarthestTime) return drop("a time beyond 2^61 ns", line);
  ++stats_.readings;
  take_({time, value, sensor, kind});
}

void ReadingSink::add_failure(Nanoseconds time, SensorId sensor, bool guessed, std::size_t line) {
  if (time > kFarthestTime || time < -kFarthestTime) return drop("a time beyond 2^61 ns", line);
  take_({time, guessed ? 1.0 : 0.0, sensor, ReadingKind::kFailure});
}

void ReadingSink::drop(const std::string& reason, std::size_t line) {
  for (DroppedReadings& dropped : stats_.dropped) {
    if (dropped.reason == reason) {
      ++dropped.count;
      return;
    }
  }
  stats_.dropped.push_back({reason, 1, line});
}

// Two sensors that are mapped to one device remain two sensors, each with its own readings.
SensorId ReadingSink::sensor(std::string_view name, std::string_view device) {
  if (const auto known = sensors_.find(name); known != sensors_.end()) return known->second;
  PowerTraceSensor& fresh = stats_.sensors.emplace_back();
  fresh.name = name;
  fresh.device = devices_.intern(device);
  return sensors_.emplace(name, static_cast<SensorId>(stats_.sensors.size() - 1)).first->second;
}

SensorId ReadingSink::device(std::string_view name) {
  // Looked up first, since every row names its device again.
  if (const auto seen = seen_.find(name); seen != seen_.end()) return seen->second;
  std::string known(name);
  if (!options_.device_names.contains(name)) {
    if (std::string told = device_in(name); !told.empty()) known = std::move(told);
  }
  const auto renamed = options_.device_names.find(known);
  const SensorId id = sensor(known, renamed == options_.device_names.end() ? known : renamed->second);
  return seen_.emplace(name, id).first->second;
}

SensorId ReadingSink::gpu(std::string_view index_or_id) {
  if (is_number(index_or_id)) return device(fmt::format("GPU:{}", index_or_id));
  const auto mapped = options_.device_names.find(index_or_id);
  if (mapped != options_.device_names.end()) return sensor(index_or_id, mapped->second);
  const std::size_t number = ids_.try_emplace(std::string(index_or_id), ids_.size()).first->second;
  return device(fmt::format("GPU:{}", number));
}

std::optional<double> parse_local_number(std::string_view text) {
  if (const auto value = parse_number(text)) return value;
  if (std::count(text.begin(), text.end(), ',') != 1 || text.find('.') != std::string_view::npos) return std::nullopt;
  std::string with_point(text);
  std::replace(with_point.begin(), with_point.end(), ',', '.');
  return parse_number(with_point);
}

bool is_absent(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.empty() || (text.front() == '[' && text.back() == ']')) return true;
  if (text.front() >= '0' && text.front() <= '9') return false;
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const std::string_view word :
       {"n/a", "na", "nan", "-nan", "+nan", "inf", "+inf", "-inf", "-", "null", "none", "err!"}) {
    if (lower == word) return true;
  }
  return false;
}

Nanoseconds parse_stamp(const LineReader& lines, std::string_view text, std::size_t column, Seconds utc_offset) {
  if (const auto seconds = parse_decimal(text, 9)) return *seconds;
  if (const auto date = parse_date_time(text, utc_offset)) return *date;
  throw InputError({lines.name(), lines.line(), column}, fmt::format("'{}' is no time", text.substr(0, 40)),
                   "write seconds since 1970 (not milliseconds), or dates as ISO 8601 has them");
}

}  // namespace flyball
