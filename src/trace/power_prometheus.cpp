// Reads the power formats of Prometheus: text of an exporter with time stamps, and answers of /api/v1/query_range,
// which simdjson parses whole. The end of a metric's name tells its unit, and its labels tell the device.
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/time_text.h"
#include "trace/power_reading.h"

namespace flyball {
namespace {

constexpr std::size_t kMaxAnswerBytes = 1u << 30;

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Metric {
  ReadingKind kind = ReadingKind::kPower;
  double scale = 1.0;
};

// Finds the metric by the unit at the name's end, as Prometheus writes them, or by DCGM's names. Returns nullopt if it
// is neither power nor energy of a device.
std::optional<Metric> metric_of(std::string_view name) {
  if (name == "DCGM_FI_DEV_POWER_USAGE" || name == "DCGM_FI_DEV_POWER_USAGE_INSTANT") return Metric{};
  if (name == "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION") return Metric{ReadingKind::kCounter, 1e-3};
  if (contains(name, "limit") || contains(name, "cap")) return std::nullopt;
  if (name.ends_with("_watts")) return Metric{};
  if (name.ends_with("_milliwatts")) return Metric{ReadingKind::kPower, 1e-3};
  if (name.ends_with("_joules_total") || name.ends_with("_joules")) return Metric{ReadingKind::kCounter, 1.0};
  return std::nullopt;
}

std::optional<SensorId> sensor_of(std::string_view name, const Labels& labels, ReadingSink& sink) {
  const auto value = [&labels](std::string_view key) -> const std::string* {
    const auto found =
        std::find_if(labels.begin(), labels.end(), [key](const auto& label) { return label.first == key; });
    return found == labels.end() ? nullptr : &found->second;
  };
  const auto& given = sink.options().device_names;
  for (const std::string_view key : {"uuid", "UUID"}) {  // the user's name takes precedence
    if (const std::string* id = value(key); id != nullptr && given.find(*id) != given.end()) return sink.gpu(*id);
  }
  for (const std::string_view key : {"gpu", "index", "minor_number", "gpu_index"}) {
    if (const std::string* index = value(key)) return sink.gpu(*index);
  }
  for (const std::string_view key : {"package", "socket", "zone", "index"}) {
    if (const std::string* index = value(key)) {
      const bool memory = contains(name, "dram");
      return sink.device(fmt::format("{}:{}", memory ? "DRAM" : "CPU", index->empty() ? "0" : *index));
    }
  }
  for (const std::string_view key : {"uuid", "UUID"}) {
    if (const std::string* id = value(key)) return sink.gpu(*id);
  }
  if (const std::string* device = value("device")) return sink.device(*device);
  return std::nullopt;
}

// Reads {gpu="0",UUID="GPU-..."}. Returns false if the braces do not close.
bool read_labels(std::string_view text, std::size_t& at, Labels& labels) {
  labels.clear();
  if (at >= text.size() || text[at] != '{') return true;
  ++at;
  while (at < text.size() && text[at] != '}') {
    const std::size_t equals = text.find('=', at);
    if (equals == std::string_view::npos || equals + 1 >= text.size() || text[equals + 1] != '"') return false;
    std::string key(text.substr(at, equals - at));
    key.erase(std::remove(key.begin(), key.end(), ' '), key.end());
    std::string value;
    std::size_t i = equals + 2;
    for (; i < text.size() && text[i] != '"'; ++i) {
      if (text[i] == '\\' && i + 1 < text.size()) ++i;
      value += text[i];
    }
    if (i >= text.size()) return false;
    labels.emplace_back(std::move(key), std::move(value));
    at = i + 1;
    while (at < text.size() && (text[at] == ',' || text[at] == ' ')) ++at;
  }
  if (at >= text.size()) return false;
  ++at;
  return true;
}

std::string_view take_word(std::string_view text, std::size_t& at) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t", at), text.size());
  at = std::min(text.find_first_of(" \t", begin), text.size());
  return text.substr(begin, at - begin);
}

[[noreturn]] void refuse_answer(const std::string& name, const std::string& problem) {
  throw InputError({name}, problem,
                   "save the answer of Prometheus's /api/v1/query_range for one metric of power or energy");
}

void read_series(const simdjson::dom::element& series, const std::string& name, ReadingSink& sink) {
  Labels labels;
  std::string metric_name;
  simdjson::dom::object metric;
  if (series["metric"].get(metric) == simdjson::SUCCESS) {
    for (const auto [key, value] : metric) {
      std::string_view text;
      if (value.get(text) != simdjson::SUCCESS) continue;
      if (key == "__name__") {
        metric_name = text;
      } else {
        labels.emplace_back(key, text);
      }
    }
  }
  // The result of an expression has no name, and is taken to be power.
  const auto kind = metric_name.empty() ? std::optional(Metric{}) : metric_of(metric_name);
  simdjson::dom::array values;
  if (series["values"].get(values) != simdjson::SUCCESS) refuse_answer(name, "a series has no list \"values\"");
  if (!kind) {
    for (std::size_t i = 0; i < values.size(); ++i) sink.drop("a metric that is no power or energy: " + metric_name, 0);
    return;
  }
  const auto sensor = sensor_of(metric_name, labels, sink);
  if (!sensor) {
    for (std::size_t i = 0; i < values.size(); ++i) sink.drop("no device", 0);
    return;
  }
  for (const simdjson::dom::element pair : values) {
    simdjson::dom::array both;
    double seconds = 0.0;
    std::string_view text;
    if (pair.get(both) != simdjson::SUCCESS || both.size() != 2 || both.at(0).get(seconds) != simdjson::SUCCESS ||
        both.at(1).get(text) != simdjson::SUCCESS) {
      refuse_answer(name, "a value is not a pair of a time and a text");
    }
    const auto value = parse_number(text);
    if (!value) {
      sink.drop("no value", 0);
      continue;
    }
    if (!(std::abs(seconds) < 4.6e9)) {
      sink.drop("a time beyond 2^61 ns", 0);
      continue;
    }
    // Prometheus keeps milliseconds, while today's seconds as a double are exact to half a microsecond.
    sink.add(std::llround(seconds * 1e3) * 1'000'000, *sensor, kind->kind, *value * kind->scale, 0);
  }
}

}  // namespace

void read_prometheus_text_power(LineReader& lines, ReadingSink& sink) {
  Labels labels;
  std::string_view line;
  while (lines.next(line)) {
    if (line.empty() || line.front() == '#') continue;
    std::size_t at = std::min(line.find_first_of("{ \t"), line.size());
    const std::string_view name = line.substr(0, at);
    const auto metric = metric_of(name);
    if (!metric) continue;
    if (!lines.complete()) {
      sink.stats().truncated = true;
      sink.drop("a last row without an end", lines.line());
      break;
    }
    if (!read_labels(line, at, labels)) {
      throw InputError({lines.name(), lines.line(), at + 1}, "the labels have no end",
                       "check that this is what the exporter wrote");
    }
    const std::string_view value_text = take_word(line, at);
    const std::size_t stamp_column = at + 2;
    const std::string_view stamp_text = take_word(line, at);
    const auto sensor = sensor_of(name, labels, sink);
    if (!sensor) {
      sink.drop("no device", lines.line());
      continue;
    }
    if (stamp_text.empty()) {
      throw InputError({lines.name(), lines.line(), stamp_column}, "the sample has no time stamp",
                       "an exporter's page is one moment: ask Prometheus for a range (/api/v1/query_range), or put a "
                       "time in milliseconds behind each value");
    }
    const auto stamp = parse_decimal(stamp_text, 6);
    if (!stamp) {
      throw InputError({lines.name(), lines.line(), stamp_column},
                       fmt::format("'{}' is no time in milliseconds", stamp_text.substr(0, 40)),
                       "put a time in milliseconds since 1970 behind each value");
    }
    const auto value = parse_number(value_text);
    if (!value) {
      sink.drop("no value", lines.line());
      continue;
    }
    sink.add(*stamp, *sensor, metric->kind, *value * metric->scale, lines.line());
  }
}

void read_prometheus_power(LineReader& lines, ReadingSink& sink) {
  const std::string text = lines.rest(kMaxAnswerBytes);
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  const simdjson::error_code code = parser.parse(text).get(document);
  if (code != simdjson::SUCCESS) {
    refuse_answer(lines.name(), fmt::format("the text is no JSON ({})", simdjson::error_message(code)));
  }
  std::string_view status;
  if (document["status"].get(status) == simdjson::SUCCESS && status != "success") {
    std::string_view error;
    if (document["error"].get(error) != simdjson::SUCCESS) error = status;
    refuse_answer(lines.name(), fmt::format("Prometheus answered with an error: {}", error));
  }
  simdjson::dom::array series;
  if (document["data"]["result"].get(series) != simdjson::SUCCESS &&
      document["result"].get(series) != simdjson::SUCCESS) {
    refuse_answer(lines.name(), "there is no list \"result\"");
  }
  for (const simdjson::dom::element one : series) read_series(one, lines.name(), sink);
}

}  // namespace flyball
