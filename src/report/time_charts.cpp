// Writes charts over time as the JSON that web/step_charts.js reads.
#include "report/time_charts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "draw/html_page.h"
#include "draw/scale.h"

namespace flyball {
namespace {

// Times have as many digits as a pixel of a chart of which a reader sees a thousandth needs; values, as meters have.
constexpr int kTimeDigits = 9;
constexpr int kValueDigits = 5;

nlohmann::json line_json(const StepFunction& line) {
  std::vector<double> times;
  for (const double time : line.times) times.push_back(rounded_number(time, kTimeDigits));
  nlohmann::json values = nlohmann::json::array();
  for (const std::optional<double>& value : line.values) {
    values.push_back(value ? nlohmann::json(rounded_number(*value, kValueDigits)) : nlohmann::json(nullptr));
  }
  return {{"times", std::move(times)}, {"values", std::move(values)}};
}

nlohmann::json chart_json(const TimeChart& chart) {
  nlohmann::json series = nlohmann::json::array();
  for (const TimeSeries& one : chart.series) {
    series.push_back({{"label", one.label},
                      {"color", one.colour},
                      {"line", one.line},
                      {"dashed", one.dashed},
                      {"filled", one.filled}});
  }
  return {{"title", chart.title},
          {"unit", chart.unit},
          {"most", chart.most ? nlohmann::json(*chart.most) : nlohmann::json(nullptr)},
          {"series", std::move(series)}};
}

}  // namespace

std::string time_charts(const TimeCharts& charts) {
  nlohmann::json lines = nlohmann::json::array();
  for (const StepFunction& line : charts.lines) lines.push_back(line_json(line));
  nlohmann::json drawn = nlohmann::json::array();
  for (const TimeChart& chart : charts.charts) drawn.push_back(chart_json(chart));
  const nlohmann::json data = {{"unit", charts.unit}, {"lines", std::move(lines)}, {"charts", std::move(drawn)}};
  return fmt::format(
      "<step-charts{}><script type=\"application/json\" class=\"steps\">{}</script>\n<noscript><p class=\"note\">These "
      "charts need JavaScript.</p></noscript></step-charts>\n",
      charts.in_pairs ? " class=\"pairs\"" : "",
      script_json(data.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
}

std::vector<std::string_view> time_chart_files() {
  return {"dygraph.min.css", "time_chart.css", "dygraph.min.js", "elements.js",
          "renew.js",        "texts.js",       "time_chart.js",  "step_charts.js"};
}

}  // namespace flyball
