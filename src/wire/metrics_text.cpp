// Samples are collected as text, one piece for each metric of the registry, so that they stand together under the
// metric's HELP and TYPE lines in whatever order they are added.
#include "wire/metrics_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/utf8.h"

namespace flyball {
namespace {

// Prometheus rejects a whole scrape if one label is no UTF-8, and a driver may give its device such a name.
std::string escaped(std::string_view value) {
  std::string text;
  while (!value.empty()) {
    const std::size_t bytes = first_character(value).bytes;
    const std::string_view character = value.substr(0, std::max<std::size_t>(bytes, 1));
    value.remove_prefix(character.size());
    if (bytes == 0) {
      text += "\xEF\xBF\xBD";
    } else if (character == "\n") {
      text += "\\n";
    } else {
      if (character == "\"" || character == "\\") text += '\\';
      text += character;
    }
  }
  return text;
}

void write_sample(std::string& text, std::string_view name, std::string_view suffix, MetricsText::Labels labels,
                  double value) {
  text += name;
  text += suffix;
  const char* before = "{";
  for (const auto& [label, content] : labels) {
    text += fmt::format("{}{}=\"{}\"", before, label, escaped(content));
    before = ",";
  }
  if (labels.size() > 0) text += '}';
  text += std::isfinite(value) ? fmt::format(" {}\n", value) : " NaN\n";
}

}  // namespace

std::string& MetricsText::samples_of(std::string_view name) {
  const auto metric =
      std::find_if(registry_.begin(), registry_.end(), [&](const MetricInfo& info) { return name == info.name; });
  assert(metric != registry_.end());
  return samples_[static_cast<std::size_t>(metric - registry_.begin())];
}

void MetricsText::add(std::string_view name, Labels labels, double value) {
  write_sample(samples_of(name), name, "", labels, value);
}

void MetricsText::add_histogram(std::string_view name, std::span<const double> bounds,
                                std::span<const std::uint64_t> counts, double sum) {
  std::string& text = samples_of(name);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    below += counts[i];
    const std::string bound = i < bounds.size() ? fmt::to_string(bounds[i]) : "+Inf";
    write_sample(text, name, "_bucket", {{"le", bound}}, static_cast<double>(below));
  }
  write_sample(text, name, "_sum", {}, sum);
  write_sample(text, name, "_count", {}, static_cast<double>(below));
}

std::string MetricsText::text() const {
  std::string text;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    if (samples_[i].empty()) continue;
    const MetricInfo& metric = registry_[i];
    text +=
        fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{3}", metric.name, metric.help, name_of(metric.kind), samples_[i]);
  }
  return text;
}

}  // namespace flyball
