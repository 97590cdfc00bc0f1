// Draws the power trace, and below it when each part of the model was active.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "draw/grid.h"
#include "draw/scale.h"
#include "report/footprint_report.h"

namespace flyball {
namespace {

constexpr double kPlotHeight = 190.0;
constexpr double kLaneHeight = 15.0;
constexpr double kLanesTop = 26.0;
constexpr double kAxis = 34.0;
constexpr std::size_t kClasses = 8;

// As much of the path's end as there is room for, since its last part says most.
std::string lane_label(const std::string& path, double room) {
  std::string label = path;
  while (text_width(label, 11.0) > room) {
    const std::size_t slash = label.find('/', label.starts_with("\u2026/") ? 4 : 1);
    if (slash == std::string::npos) break;
    label = "\u2026" + label.substr(slash);
  }
  while (!label.empty() && text_width(label, 11.0) > room) {
    while (label.size() > 1 && (static_cast<unsigned char>(label.back()) & 0xc0u) == 0x80u) label.pop_back();
    label.pop_back();
  }
  return label;
}

}  // namespace

SvgCanvas power_picture_canvas(const PowerPicture& picture, double width) {
  const ActivityBins& activity = *picture.activity;
  const bool narrow = width < 600.0;
  const double left = narrow ? 112.0 : 190.0;
  const double right = width - 12.0;
  const double lanes_top = kLanesTop + kPlotHeight + 10.0;
  const double lanes_bottom = lanes_top + kLaneHeight * static_cast<double>(picture.lanes.size());
  SvgCanvas svg(width, lanes_bottom + kAxis, "Power of the devices over time, with the parts of the model that ran");

  double most = 1.0;
  for (std::size_t device = 0; device < activity.devices(); ++device) {
    for (std::size_t bin = 0; bin < activity.size(); ++bin) {
      most = std::max(most, activity.power(device, bin).value());
    }
  }
  const double seconds = to_seconds(activity.width()).value() * static_cast<double>(activity.size());
  const LinearScale x{0.0, seconds, left, right};
  const LinearScale y{0.0, most * 1.05, kLanesTop + kPlotHeight, kLanesTop};
  draw_rows(svg, y, left, right, 5);
  svg.text(left - 6, kLanesTop - 12, "W", "small soft", Anchor::kEnd);
  double key = left;
  for (std::size_t device = 0; device < activity.devices(); ++device) {
    const std::string css = fmt::format("curve s{}", device % kClasses);
    Points points;
    for (std::size_t bin = 0; bin < activity.size(); ++bin) {
      const double power = activity.power(device, bin).value();
      if (power < 0.0) {
        if (points.size() > 1) svg.polyline(points, css);
        points.clear();
        continue;
      }
      const double middle = (static_cast<double>(bin) + 0.5) / static_cast<double>(activity.size()) * seconds;
      points.emplace_back(x(middle), y(power));
    }
    if (points.size() > 1) svg.polyline(points, css);
    svg.line(key, kLanesTop - 14, key + 16, kLanesTop - 14, css);
    svg.text(key + 20, kLanesTop - 10, picture.devices[device], "small");
    key += 34 + text_width(picture.devices[device], 11.0);
  }

  for (std::size_t lane = 0; lane < picture.lanes.size(); ++lane) {
    const double top = lanes_top + kLaneHeight * static_cast<double>(lane);
    svg.text(left - 6, top + kLaneHeight - 4, lane_label(picture.lanes[lane], left - 8), "small", Anchor::kEnd);
    svg.line(left, top + kLaneHeight, right, top + kLaneHeight, "grid");
    const std::string css = fmt::format("f{}", lane % kClasses);
    for (std::size_t bin = 0; bin < activity.size();) {
      // Joins bins in which the part was active for more than a tenth of the time.
      std::size_t end = bin;
      while (end < activity.size() && activity.activity(lane, end) > 0.1) ++end;
      if (end > bin) {
        const double from = x(static_cast<double>(bin) / static_cast<double>(activity.size()) * seconds);
        const double to = x(static_cast<double>(end) / static_cast<double>(activity.size()) * seconds);
        svg.rect(from, top + 2, to - from, kLaneHeight - 4, css, {}, picture.lanes[lane]);
      }
      bin = std::max(end, bin + 1);
    }
  }
  const Ticks times = round_ticks(0.0, seconds, narrow ? 4 : 8);
  svg.line(left, lanes_bottom, right, lanes_bottom, "axis");
  for (const double tick : times.values) {
    svg.line(x(tick), lanes_bottom, x(tick), lanes_bottom + 4, "axis");
    svg.text(x(tick), lanes_bottom + 16, times.label(tick), "small soft", Anchor::kMiddle);
  }
  svg.text(right, lanes_bottom + 30, "s since the profile began", "small soft", Anchor::kEnd);
  return svg;
}

}  // namespace flyball
