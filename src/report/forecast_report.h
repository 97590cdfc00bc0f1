// Shows a forecast to people and programs: as text, as JSON, and as one HTML page.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "draw/svg_canvas.h"
#include "forecast/bill.h"
#include "forecast/forecast.h"
#include "forecast/recorded_bill.h"
#include "report/time_charts.h"

namespace flyball {

// What a report is made from. `sheet` and `tariff` must be set, and what they point to must outlive the report; `power`
// may be empty, which leaves out its pictures.
struct ForecastReport {
  const EnergySheet* sheet = nullptr;
  const Tariff* tariff = nullptr;
  // The power that a node of one type will draw and, where it was recorded, the power that such a node drew. Both
  // start with the first iteration shown.
  struct NodePower {
    std::string name;
    std::vector<PowerPiece> pieces;
    std::vector<std::pair<Seconds, Watts>> measured;  // each holds until the next; the last only ends it
  };
  std::vector<NodePower> power;
  std::string command;  // the command that made the forecast
  // How many iterations a budget buys, and, with an interval, at its dear and at its cheap end.
  struct Bought {
    std::string budget;  // as people write it: "500", "40 kWh"
    double iterations = 0.0;
    std::optional<double> least;
    std::optional<double> most;
    std::optional<double> epochs;
  };
  std::optional<Bought> bought;
  std::optional<RecordedBill> recorded;  // what was measured, to be shown beside the forecast
};

[[nodiscard]] std::string forecast_text(const ForecastReport& report);

// Returns the forecast as JSON; docs/formats/forecast.md describes its keys.
[[nodiscard]] std::string forecast_json(const ForecastReport& report);

// Returns the page as one self-contained file.
[[nodiscard]] std::string forecast_html(const ForecastReport& report);

// Returns the name of a stage or part as people write it, with spaces.
[[nodiscard]] std::string spaced(std::string_view name);

// The pictures and charts of the page (forecast_picture.cpp): energy by stage and part, and power over time. `width` is
// in pixels.
[[nodiscard]] SvgCanvas energy_bars(const EnergySheet& sheet, int width);
[[nodiscard]] TimeCharts power_charts(const EnergySheet& sheet, const std::vector<ForecastReport::NodePower>& nodes);

}  // namespace flyball
