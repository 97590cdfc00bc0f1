// Reads the values of charts over time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "report/time_charts.h"

namespace flyball {

// The value of a chart's series at a time between two of its changes.
inline std::optional<double> value_at(const TimeCharts& charts, std::size_t chart, std::size_t series, double time) {
  const StepFunction& line = charts.lines.at(charts.charts.at(chart).series.at(series).line);
  if (line.times.size() != line.values.size() + 1) {
    ADD_FAILURE() << line.times.size() << " times of " << line.values.size() << " values";
    return std::nullopt;
  }
  const auto next = std::upper_bound(line.times.begin(), line.times.end(), time);
  if (next == line.times.begin() || next == line.times.end()) return std::nullopt;
  return line.values[static_cast<std::size_t>(next - line.times.begin()) - 1];
}

}  // namespace flyball
