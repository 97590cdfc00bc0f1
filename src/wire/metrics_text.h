// Metrics for Prometheus. Each process has one table of its metrics' names, kinds, units and help texts, from which its
// answer to a scrape is made; tests compare docs/metrics.md with it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/names.h"

namespace flyball {

// Of Prometheus' text format 0.0.4, as an answer to a scrape names it.
inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

enum class MetricKind { kGauge, kCounter, kHistogram };
template <>
inline constexpr auto kNamesOf<MetricKind> = name_list("gauge", "counter", "histogram");

struct MetricInfo {
  const char* name;  // ends with its unit, as Prometheus asks; a counter's with _total
  MetricKind kind;
  const char* unit;    // "W", "J", "Hz", "s"; "1" for counts, ratios and flags
  const char* labels;  // "gpu, uuid"; empty for none
  const char* help;
};

// Prometheus' text format 0.0.4. Only metrics that the registry holds may be added.
class MetricsText {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  // `registry` must outlive this.
  explicit MetricsText(std::span<const MetricInfo> registry) : registry_(registry), samples_(registry.size()) {}

  void add(std::string_view name, Labels labels, double value);
  // counts[i] is the number of observations between bounds[i - 1] and bounds[i]; the last of `counts`, which has one
  // more than `bounds`, is the number above all. `sum` is the sum of all observations.
  void add_histogram(std::string_view name, std::span<const double> bounds, std::span<const std::uint64_t> counts,
                     double sum);

  [[nodiscard]] std::string text() const;  // metrics in the registry's order; those without a sample are left out

 private:
  std::string& samples_of(std::string_view name);

  std::span<const MetricInfo> registry_;
  std::vector<std::string> samples_;
};

}  // namespace flyball
