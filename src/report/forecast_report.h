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

// What is to be shown besides the energies. Pieces of pictures may be empty.
struct ForecastReport {
  const EnergySheet* sheet = nullptr;
  const Tariff* tariff = nullptr;
  // One picture per type of node: what a node will draw, and what one drew where that was recorded, both from the start
  // of the first iteration shown.
  struct NodePower {
    std::string name;
    std::vector<PowerPiece> pieces;
    std::vector<std::pair<Seconds, Watts>> measured;  // each until the next, the last of no length
  };
  std::vector<NodePower> power;
  std::string command;  // that made it
};

[[nodiscard]] std::string forecast_text(const ForecastReport& report);

// Keys: docs/formats/forecast.md.
[[nodiscard]] std::string forecast_json(const ForecastReport& report);

// One self-contained file.
[[nodiscard]] std::string forecast_html(const ForecastReport& report);

// The pictures (forecast_picture.cpp). `width` in pixels.
[[nodiscard]] SvgCanvas energy_bars(const EnergySheet& sheet, int width);
[[nodiscard]] SvgCanvas power_picture(const EnergySheet& sheet, const ForecastReport::NodePower& node, int width);

}  // namespace flyball
