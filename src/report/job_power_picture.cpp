// Draws power over time as steps. Where a curve has more steps than the picture has columns, a column shows the range
// of the powers in it, so that no peak is lost.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "draw/grid.h"
#include "draw/scale.h"
#include "report/report.h"

namespace flyball {
namespace {

constexpr double kPowerPlotHeight = 220.0;
constexpr double kColumn = 2.0;  // px

class StepLine {
 public:
  StepLine(const PowerCurve& curve, const LinearScale& x, const LinearScale& y) : curve_(curve), x_(x), y_(y) {
    const double columns = (x_(seconds(curve.period)) - x_(0.0)) / kColumn;
    static_cast<double>(curve.begin.size()) < columns ? add_steps() : add_columns(static_cast<int>(columns));
  }

  [[nodiscard]] const Points& points() const { return points_; }

 private:
  static double seconds(Nanoseconds time) { return to_seconds(time).value(); }

  void add_steps() {
    for (std::size_t k = 0; k < curve_.begin.size(); ++k) {
      points_.emplace_back(x_(seconds(curve_.begin[k])), y_(curve_.power[k].value()));
      points_.emplace_back(x_(seconds(curve_.end_of(k))), y_(curve_.power[k].value()));
    }
  }

  void add_columns(int columns) {
    std::size_t k = 0;
    for (int column = 0; column < columns; ++column) {
      const Nanoseconds until = column + 1 < columns ? curve_.period / columns * (column + 1) : curve_.period;
      Watts least = curve_.power[k];
      Watts most = least;
      while (k + 1 < curve_.begin.size() && curve_.begin[k + 1] < until) {
        ++k;
        least = std::min(least, curve_.power[k]);
        most = std::max(most, curve_.power[k]);
      }
      const double at = x_.low + column * kColumn;
      points_.emplace_back(at, y_(least.value()));
      points_.emplace_back(at, y_(most.value()));
    }
  }

  const PowerCurve& curve_;
  const LinearScale& x_;
  const LinearScale& y_;
  Points points_;
};

std::string figures(const std::string& name, const PowerCurve& curve) {
  double joules = 0.0;
  for (std::size_t k = 0; k < curve.begin.size(); ++k) {
    joules += (curve.power[k] * to_seconds(curve.end_of(k) - curve.begin[k])).value();
  }
  return fmt::format("{}: mean {} W, peak {} W", name, grouped_number(joules / to_seconds(curve.period).value(), 0),
                     grouped_number(peak_of(curve).value(), 0));
}

}  // namespace

SvgCanvas job_power_picture(const ReportInput& input, int width) {
  const JobPower& power = *input.power;
  const bool narrow = width < 600;
  SvgCanvas svg(width, kPowerPlotHeight + 110.0, "Power of the job over one iteration. " + input.title);
  const double left = narrow ? 58.0 : 74.0;
  const double right = width - 16.0;
  const double below = draw_legend(svg, {{"f1", figures(input.baseline.name, power.baseline)}}, left, 14.0, right);
  const double top = draw_legend(svg, {{"f0", figures(input.chosen.name, power.chosen)}}, left, below, right) + 10.0;
  const double bottom = svg.height() - 46.0;
  const double longest = to_seconds(std::max(power.baseline.period, power.chosen.period)).value();
  Watts most = std::max(peak_of(power.baseline), peak_of(power.chosen));
  if (power.limit) most = std::max(most, *power.limit);
  const LinearScale x{0.0, longest, left, right};
  const LinearScale y{0.0, 1.08 * most.value(), bottom, top};
  draw_columns(svg, x, top, bottom, narrow ? 4 : 8);
  draw_rows(svg, y, left, right, 5);
  svg.rect(left, top, right - left, bottom - top, "frame");
  svg.polyline(StepLine(power.baseline, x, y).points(), "curve s1");
  svg.polyline(StepLine(power.chosen, x, y).points(), "curve s0");
  if (power.limit) {
    const double at = y(power.limit->value());
    svg.line(left, at, right, at, "straggler");
    svg.text(right - 4.0, at - 5.0, fmt::format("limit {} W", grouped_number(power.limit->value(), 0)), "small halo",
             Anchor::kEnd);
  }
  svg.text(0.5 * (left + right), bottom + 36.0, "time within the iteration (s)", "soft", Anchor::kMiddle);
  svg.vertical_text(13.0, 0.5 * (top + bottom), "power of the job (W)", "soft");
  return svg;
}

}  // namespace flyball
