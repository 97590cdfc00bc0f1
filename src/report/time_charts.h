// Figures over time in a report, drawn in the browser as the live pages draw theirs (web/time_chart.js): a reader can
// zoom into all charts together, and reads their values under the pointer.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flyball {

// A figure that stays the same from each of its times to the next. Times rise; there is one more than there are values,
// or there are two, between which the values are equally far apart.
struct StepFunction {
  std::vector<double> times;
  std::vector<std::optional<double>> values;  // none: nothing is known, or nothing is drawn
};

struct TimeSeries {
  std::string label;
  std::string colour;    // a variable of web/chart.css: "--p0"
  std::size_t line = 0;  // its index in TimeCharts
  bool dashed = false;
  bool filled = false;  // down to the axis
};

struct TimeChart {
  std::string title;
  std::string unit;            // of the values: "W", which is shown as kW or MW too, or empty for a count
  std::optional<double> most;  // where the axis of values ends; none: where the values do
  std::vector<TimeSeries> series;
};

struct TimeCharts {
  std::string unit;  // of all times: "h"
  std::vector<StepFunction> lines;
  std::vector<TimeChart> charts;
  bool in_pairs = false;  // two beside one another where the page is wide
};

// Returns the section of a page that holds the charts and their data. The page must have the files below. Without
// scripts a sentence stands in their place.
[[nodiscard]] std::string time_charts(const TimeCharts& charts);

// The files of HtmlPage (draw/html_page.h) that charts need.
[[nodiscard]] std::vector<std::string_view> time_chart_files();

}  // namespace flyball
