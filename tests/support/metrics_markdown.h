// A registry of metrics as the table that docs/metrics.md holds.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>

#include "wire/metrics_text.h"

namespace flyball::testing {

inline std::string metrics_as_markdown(std::span<const MetricInfo> registry) {
  std::string text = "| metric | kind | unit | labels | meaning |\n|---|---|---|---|---|\n";
  for (const MetricInfo& metric : registry) {
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", metric.name, name_of(metric.kind), metric.unit, metric.labels,
                        metric.help);
  }
  return text;
}

}  // namespace flyball::testing
