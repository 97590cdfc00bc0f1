// Draws the pictures of a forecast: energy as stacked bars, and power over time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "draw/scale.h"
#include "draw/text_table.h"
#include "report/forecast_report.h"

namespace flyball {
namespace {

struct BarPart {
  std::string name;
  Joules energy;
};

constexpr std::size_t kColours = 8;
constexpr const char* kOther = "other";

std::string fill_class(std::size_t k) { return fmt::format("f{}", k % kColours); }

// The largest parts have a colour each. Those too small to be seen, or too many for the colours, are joined in the
// last.
std::vector<BarPart> visible_parts(std::vector<BarPart> parts, Joules whole) {
  const auto small = [&](const BarPart& part) { return part.energy < 0.0005 * whole; };
  std::erase_if(parts, [](const BarPart& part) { return part.energy <= Joules(0); });
  if (parts.size() <= kColours && std::none_of(parts.begin(), parts.end(), small)) return parts;
  std::vector<BarPart> ranked = parts;
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const BarPart& a, const BarPart& b) { return a.energy > b.energy; });
  const Joules least = ranked[std::min(parts.size(), kColours - 1) - 1].energy;
  BarPart rest{kOther, Joules(0)};
  std::vector<BarPart> shown;
  for (const BarPart& part : parts) {
    if (small(part) || part.energy < least || shown.size() == kColours - 1) {
      rest.energy += part.energy;
    } else {
      shown.push_back(part);
    }
  }
  shown.push_back(rest);
  return shown;
}

std::vector<BarPart> stage_parts(const EnergySheet& sheet) {
  std::vector<BarPart> parts;
  for (const EnergySheet::Group& group : sheet.stages) {
    if (group.parts.empty()) parts.push_back({group.name, group.energy});
    for (const EnergySheet::Row& part : group.parts) parts.push_back({part.name, part.energy});
  }
  return visible_parts(std::move(parts), sheet.energy);
}

}  // namespace

std::string spaced(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

SvgCanvas energy_bars(const EnergySheet& sheet, int width) {
  struct Bar {
    std::string name;
    std::vector<BarPart> parts;
  };
  std::vector<Bar> bars(2);
  bars[0] = {"by stage", stage_parts(sheet)};
  bars[1].name = "by component";
  for (const EnergySheet::Row& row : sheet.components) bars[1].parts.push_back({row.name, row.energy});
  if (sheet.node_types.size() > 1) {
    bars.push_back({"by node type", {}});
    for (const EnergySheet::Nodes& type : sheet.node_types) bars.back().parts.push_back({type.name, type.energy});
  }
  for (std::size_t k = 1; k < bars.size(); ++k) bars[k].parts = visible_parts(std::move(bars[k].parts), sheet.energy);
  std::erase_if(bars, [](const Bar& bar) { return bar.parts.empty(); });
  constexpr double kBar = 30.0;
  constexpr double kLegend = 17.0;
  const double legend_rows = width < 600 ? 5.0 : 2.0;
  const double pitch = 20.0 + kBar + 8.0 + legend_rows * kLegend;
  SvgCanvas svg(width, static_cast<double>(bars.size()) * pitch + 4.0, "Energy by stage, component and node type");
  double y = 4.0;
  for (const Bar& bar : bars) {
    svg.text(0.0, y + 12.0, bar.name, "small strong");
    const double top = y + 20.0;
    std::vector<std::pair<std::string, std::string>> entries;
    double x = 0.0;
    for (std::size_t k = 0; k < bar.parts.size(); ++k) {
      const double part = bar.parts[k].energy / sheet.energy;
      const std::string label = fmt::format("{} {} %", spaced(bar.parts[k].name), format_fixed(100.0 * part, 1));
      svg.rect(x, top, part * width, kBar, fill_class(k), {},
               fmt::format("{}\n{} kWh", label, short_number(kilowatt_hours(bar.parts[k].energy))));
      x += part * width;
      entries.emplace_back(fill_class(k), label);
    }
    draw_legend(svg, entries, 0.0, top + kBar + 8.0, width);
    y += pitch;
  }
  return svg;
}

TimeCharts power_charts(const EnergySheet& sheet, const std::vector<ForecastReport::NodePower>& nodes) {
  TimeCharts charts{.unit = "s", .lines = {}, .charts = {}, .in_pairs = false};
  // A stage has the colour that it has in energy_bars(): the last colour if it is among the joined ones.
  const std::vector<BarPart> stages = stage_parts(sheet);
  for (const ForecastReport::NodePower& node : nodes) {
    if (node.pieces.empty()) continue;
    TimeChart chart{node.name, "W", {}, {}};
    std::vector<double> times;
    for (const PowerPiece& piece : node.pieces) times.push_back(piece.begin.value());
    const Seconds end = node.pieces.back().end;
    times.push_back(end.value());
    for (std::size_t k = 0; k < node.pieces.size(); ++k) {
      const auto stage = std::find_if(stages.begin(), stages.end(),
                                      [&](const BarPart& part) { return part.name == name_of(node.pieces[k].stage); });
      const bool has_own = stage != stages.end();
      const std::size_t colour = has_own ? static_cast<std::size_t>(stage - stages.begin()) : stages.size() - 1;
      const std::string label = has_own ? spaced(stage->name) : kOther;
      auto series = std::find_if(chart.series.begin(), chart.series.end(),
                                 [&](const TimeSeries& one) { return one.label == label; });
      if (series == chart.series.end()) {
        series = chart.series.insert(series, {.label = label,
                                              .colour = fmt::format("--p{}", colour % kColours),
                                              .line = charts.lines.size(),
                                              .filled = true});
        charts.lines.push_back({times, std::vector<std::optional<double>>(node.pieces.size())});
      }
      charts.lines[series->line].values[k] = node.pieces[k].power.value();
    }
    StepFunction recorded;
    for (const auto& [from, power] : node.measured) {
      if (from >= end) break;
      recorded.times.push_back(from.value());
      recorded.values.emplace_back(power.value());
    }
    if (!recorded.times.empty() && node.measured.size() > 1) {
      // The last value only says where the one before it ends.
      if (recorded.times.size() == node.measured.size()) {
        recorded.values.pop_back();
      } else {
        recorded.times.push_back(std::min(end, node.measured[recorded.times.size()].first).value());
      }
      chart.series.push_back({.label = "recorded", .colour = "--critical", .line = charts.lines.size()});
      charts.lines.push_back(std::move(recorded));
    }
    charts.charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace flyball
