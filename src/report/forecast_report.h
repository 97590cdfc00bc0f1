// A forecast for people and programs: text, JSON, one HTML page.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "draw/svg_canvas.h"
#include "forecast/bill.h"
#include "forecast/forecast.h"

namespace flyball {

// What is shown besides the energies. The pieces for pictures may be empty.
struct ForecastReport {
  const EnergySheet* sheet = nullptr;
  const Tariff* tariff = nullptr;
  // For one type of node: the power that a node will draw and, where it was recorded, the power that one drew. Both
  // start with the first iteration shown.
  struct NodePower {
    std::string name;
    std::vector<PowerPiece> pieces;
    std::vector<std::pair<Seconds, Watts>> measured;  // each holds until the next; the last only ends it
  };
  std::vector<NodePower> power;
  std::string command;  // the command that made the forecast
};

[[nodiscard]] std::string forecast_text(const ForecastReport& report);

// The forecast as JSON; docs/formats/forecast.md describes its keys.
[[nodiscard]] std::string forecast_json(const ForecastReport& report);

// The page as one self-contained file.
[[nodiscard]] std::string forecast_html(const ForecastReport& report);

// The pictures (forecast_picture.cpp). `width` in pixels.
[[nodiscard]] SvgCanvas energy_bars(const EnergySheet& sheet, int width);
[[nodiscard]] SvgCanvas power_picture(const EnergySheet& sheet, const ForecastReport::NodePower& node, int width);

}  // namespace flyball
