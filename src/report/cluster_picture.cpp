// Draws average JCT against energy with a curve per policy, and places labels where they keep clear of the curves.
#include "report/cluster_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "draw/grid.h"
#include "draw/label_layout.h"
#include "draw/palette.h"
#include "draw/scale.h"

namespace flyball {
namespace {

constexpr double kUsageHeight = 420.0;
constexpr double kUsageFontPx = 11.0;
constexpr double kLineStep = 6.0;  // pixels between the points of a line that labels avoid

struct Curve {
  std::string name;
  std::vector<const ComparedRun*> runs;  // by rising energy
  Points points;
};

std::vector<Curve> curves_of(const std::vector<ComparedRun>& runs) {
  std::vector<Curve> curves;
  for (const ComparedRun& run : runs) {
    auto curve = std::find_if(curves.begin(), curves.end(), [&](const Curve& one) { return one.name == run.policy; });
    if (curve == curves.end()) curve = curves.insert(curve, {run.policy, {}, {}});
    curve->runs.push_back(&run);
  }
  for (Curve& curve : curves) {
    std::stable_sort(curve.runs.begin(), curve.runs.end(), [](const ComparedRun* a, const ComparedRun* b) {
      return a->result.energy_j < b->result.energy_j;
    });
  }
  return curves;
}

// 1, 2 and 5 times the powers of ten within the scale's range, or 1 to 9 times where the range is less than a decade.
std::vector<double> logarithmic_ticks(const LinearScale& y) {
  const std::vector<double> factors =
      y.to - y.from < 1.0 ? std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9} : std::vector<double>{1, 2, 5};
  std::vector<double> values;
  for (double decade = std::floor(y.from); decade <= y.to; decade += 1.0) {
    for (const double factor : factors) {
      const double log = decade + std::log10(factor);
      if (log >= y.from && log <= y.to) values.push_back(log);
    }
  }
  return values;
}

}  // namespace

SvgCanvas jct_energy_picture(const std::vector<ComparedRun>& runs, int width) {
  const auto energy = [](const ComparedRun& run) { return run.result.energy_j / 1e6; };
  const auto log_jct = [](const ComparedRun& run) { return std::log10(run.result.avg_jct_s); };
  const auto [least_energy, most_energy] = std::minmax_element(
      runs.begin(), runs.end(), [&](const auto& a, const auto& b) { return energy(a) < energy(b); });
  const auto [least_jct, most_jct] = std::minmax_element(
      runs.begin(), runs.end(), [&](const auto& a, const auto& b) { return log_jct(a) < log_jct(b); });
  const double pad = std::max(0.04 * (energy(*most_energy) - energy(*least_energy)), 0.01 * energy(*most_energy));
  const LinearScale x{energy(*least_energy) - pad, energy(*most_energy) + pad, 62.0, width - 14.0};
  const LinearScale y{log_jct(*least_jct) - 0.06, log_jct(*most_jct) + 0.06, kUsageHeight - 48.0, 12.0};

  SvgCanvas svg(width, kUsageHeight, "Average job completion time against energy, by policy");
  for (const double log : logarithmic_ticks(y)) {
    svg.line(x.low, y(log), x.high, y(log), "grid");
    svg.text(x.low - 6.0, y(log) + 4.0, grouped_number(std::pow(10.0, log), log < 0.0 ? 2 : 0), "small soft",
             Anchor::kEnd);
  }
  draw_columns(svg, x, y.high, y.low, width < 600 ? 4 : 8);
  svg.line(x.low, y.low, x.high, y.low, "axis");
  svg.text(0.5 * (x.low + x.high), y.low + 34.0, "energy of all GPUs (MJ)", "small soft", Anchor::kMiddle);
  svg.vertical_text(13.0, 0.5 * (y.low + y.high), "average job completion time (s), logarithmic", "small soft");

  std::vector<Curve> curves = curves_of(runs);
  LabelLayout labels({x.low, y.high, x.high, y.low}, kUsageFontPx);
  for (Curve& curve : curves) {
    for (const ComparedRun* run : curve.runs) curve.points.emplace_back(x(energy(*run)), y(log_jct(*run)));
    labels.avoid_line(curve.points, kLineStep, 4.0);
  }
  for (std::size_t k = 0; k < curves.size(); ++k) {
    const Curve& curve = curves[k];
    if (curve.points.size() > 1) svg.polyline(curve.points, fmt::format("curve s{}", k % kPlannerClasses));
    for (std::size_t i = 0; i < curve.runs.size(); ++i) {
      const SimulationResult& result = curve.runs[i]->result;
      svg.circle(curve.points[i].first, curve.points[i].second, 4.0, fmt::format("f{}", k % kPlannerClasses),
                 fmt::format("{}, {}\n{} s\n{} MJ", curve.name, setting_text(*curve.runs[i]),
                             short_number(result.avg_jct_s), short_number(result.energy_j / 1e6)));
    }
  }
  for (const Curve& curve : curves) {
    const auto [left, top] = curve.points.front();
    const LabelSpot spot = labels.place(curve.name, spots_around(left, top, 8.0, kUsageFontPx));
    svg.text(spot.x, spot.y, curve.name, "small halo", spot.anchor);
  }
  return svg;
}

}  // namespace flyball
