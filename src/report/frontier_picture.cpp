// Draws energy over time: chooses the ranges, draws axes and curves, and places labels where they keep clear of the
// curves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "draw/grid.h"
#include "draw/label_layout.h"
#include "draw/palette.h"
#include "draw/scale.h"
#include "draw/text_table.h"
#include "report/report.h"

namespace flyball {
namespace {

constexpr double kFrontierFontPx = 12.0;
constexpr double kBetweenPx = 4.0;  // from one point of a line that labels avoid to the next
// More points than this could be neither told apart nor hit with a pointer.
constexpr std::size_t kHoverPoints = 40;
constexpr std::size_t kDotsUpTo = 40;

struct PlotPoint {
  double time;    // s
  double energy;  // J
};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void pad(double below, double above) {
    const double span = std::max(high - low, 1e-3 * std::abs(high) + 1e-9);
    low -= below * span;
    high += above * span;
  }
  [[nodiscard]] bool holds(double value) const { return value >= low && value <= high; }
};

// The plan's own energy: the plot does not count waiting for a straggler.
PlotPoint point_of(const RealisedPlan& plan) {
  return {to_seconds(plan.makespan).value(), (plan.energy.computation + plan.energy.blocking).value()};
}

PlotPoint point_of(const Frontier& frontier, std::size_t i) {
  return {frontier.time(i).value(), frontier.energy(i).value()};
}

class FrontierPlot {
 public:
  FrontierPlot(const ReportInput& input, int width)
      : input_(input),
        narrow_(width < 600),
        baseline_(point_of(input.baseline)),
        chosen_(point_of(input.chosen)),
        svg_(width, legend_height(width) + (narrow_ ? 400.0 : 500.0), "Iteration time against energy. " + input.title),
        box_{narrow_ ? 56.0 : 72.0, legend_height(width) + 44.0, width - (narrow_ ? 44.0 : 58.0), svg_.height() - 46.0},
        labels_({box_.left + 2.0, box_.top + 2.0, box_.right - 2.0, box_.bottom - 2.0}, kFrontierFontPx) {
    set_ranges();
  }

  SvgCanvas draw() {
    draw_axes();
    draw_bound();
    for (std::size_t k = planners_.size(); k-- > 0;) draw_planner(k);
    draw_marks();
    draw_legend();
    return std::move(svg_);
  }

 private:
  struct Entry {
    const PlannerCurve* curve;
    std::size_t hidden = 0;  // points outside of the plot
  };

  double legend_height(int width) {
    if (planners_.empty()) {
      for (const PlannerCurve& curve : input_.planners) {
        if (curve.frontier != nullptr && !curve.frontier->empty()) planners_.push_back({&curve});
      }
    }
    return 10.0 + 20.0 * static_cast<double>(legend_rows(width).size());
  }

  std::string legend_text(std::size_t k) const {
    const Entry& entry = planners_[k];
    return entry.hidden == 0 ? entry.curve->name
                             : fmt::format("{} ({} slower, not shown)", entry.curve->name, entry.hidden);
  }

  // The rows of the legend, as indices of planners; planners_.size() stands for the lower bound.
  std::vector<std::vector<std::size_t>> legend_rows(double width) const {
    std::vector<std::vector<std::size_t>> rows(1);
    double x = 0.0;
    for (std::size_t k = 0; k <= planners_.size(); ++k) {
      if (k == planners_.size() && input_.lower_bound.empty()) continue;
      const double entry = entry_width(k);
      if (x > 0.0 && x + entry > width - 20.0) {
        rows.emplace_back();
        x = 0.0;
      }
      rows.back().push_back(k);
      x += entry;
    }
    return rows;
  }

  double entry_width(std::size_t k) const {
    return 40.0 +
           text_width(k < planners_.size() ? planners_[k].curve->name + " (000 slower, not shown)" : "lower bound",
                      k < planners_.size() && !hides(k) ? 0.0 : kFrontierFontPx) +
           (k < planners_.size() && !hides(k) ? text_width(planners_[k].curve->name, kFrontierFontPx) : 0.0);
  }

  // Whether the planner may have points to the right of the plot. This has to be known before the ranges are.
  bool hides(std::size_t k) const {
    const Frontier& frontier = *planners_[k].curve->frontier;
    return frontier.time(frontier.size() - 1).value() > furthest_time();
  }

  // The plot shows the chosen planner's frontier, all marks, and a part of the planners that are slower.
  double furthest_time() const {
    Range core;
    core.include(baseline_time());
    core.include(to_seconds(input_.chosen.makespan).value());
    core.include(input_.t_min.value());
    core.include(input_.t_star.value());
    if (input_.t_straggler) core.include(input_.t_straggler->value());
    if (!planners_.empty()) {
      const Frontier& first = *planners_.front().curve->frontier;
      core.include(first.time(0).value());
      core.include(first.time(first.size() - 1).value());
    }
    return core.high + std::max(0.3 * (core.high - core.low), 0.02 * core.high);
  }

  double baseline_time() const { return to_seconds(input_.baseline.makespan).value(); }

  void set_ranges() {
    const double furthest = furthest_time();
    Range time;
    Range energy;
    const auto include = [&](PlotPoint point) {
      if (point.time > furthest) return;
      time.include(point.time);
      energy.include(point.energy);
    };
    include(baseline_);
    include(chosen_);
    for (Entry& entry : planners_) {
      for (std::size_t i = 0; i < entry.curve->frontier->size(); ++i) {
        const PlotPoint point = point_of(*entry.curve->frontier, i);
        include(point);
        if (point.time > furthest) ++entry.hidden;
      }
    }
    time.include(input_.t_min.value());
    time.include(input_.t_star.value());
    if (input_.t_straggler) time.include(input_.t_straggler->value());
    for (const BoundPoint& point : input_.lower_bound) {
      if (time.holds(point.time.value())) energy.include(point.energy.value());
    }
    time.pad(0.05, 0.05);
    energy.pad(0.08, 0.08);
    x_ = {time.low, time.high, box_.left, box_.right};
    y_ = {energy.low, energy.high, box_.bottom, box_.top};
  }

  [[nodiscard]] bool visible(PlotPoint p) const {
    return p.time >= x_.from && p.time <= x_.to && p.energy >= y_.from && p.energy <= y_.to;
  }

  void draw_axes() {
    draw_columns(svg_, x_, box_.top, box_.bottom, narrow_ ? 4 : 8);
    draw_rows(svg_, y_, box_.left, box_.right, narrow_ ? 5 : 7);
    // The same axis stands at the top, relative to all-maximum clocks.
    const auto slower = [&](double t) { return (t / baseline_.time - 1.0) * 100.0; };
    const Ticks slowdown = round_ticks(slower(x_.from), slower(x_.to), narrow_ ? 4 : 8);
    for (const double p : slowdown.values) {
      const double x = x_(baseline_.time * (1.0 + p / 100.0));
      svg_.line(x, box_.top - 4.0, x, box_.top, "axis");
      svg_.text(x, box_.top - 8.0, slowdown.label(p), "small soft", Anchor::kMiddle);
    }
    const auto saved = [&](double e) { return (1.0 - e / baseline_.energy) * 100.0; };
    const Ticks saving = round_ticks(saved(y_.to), saved(y_.from), narrow_ ? 5 : 7);
    for (const double p : saving.values) {
      const double y = y_(baseline_.energy * (1.0 - p / 100.0));
      svg_.line(box_.right, y, box_.right + 4.0, y, "axis");
      svg_.text(box_.right + 7.0, y + 4.0, saving.label(p), "small soft");
    }
    svg_.rect(box_.left, box_.top, box_.right - box_.left, box_.bottom - box_.top, "frame");
    // A page's script finds the point that is nearest to a click (web/plan_timeline.js).
    svg_.open_group(fmt::format("class=\"frontier-area\" data-times=\"{} {}\" data-energies=\"{} {}\"", x_.from, x_.to,
                                y_.from, y_.to));
    svg_.rect(box_.left, box_.top, box_.right - box_.left, box_.bottom - box_.top, "hit");
    svg_.close_group();
    const double middle = 0.5 * (box_.left + box_.right);
    svg_.text(middle, box_.bottom + 36.0, "iteration time (s)", "soft", Anchor::kMiddle);
    svg_.text(middle, box_.top - 25.0, "slowdown (%)", "soft", Anchor::kMiddle);
    svg_.vertical_text(13.0, 0.5 * (box_.top + box_.bottom), "energy per iteration (J)", "soft");
    svg_.vertical_text(svg_.width() - 6.0, 0.5 * (box_.top + box_.bottom), "energy saved (%)", "soft");
  }

  // Converts to pixels and drops the points that make no visible difference.
  Points pixels(const std::vector<PlotPoint>& points) const {
    Points out;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (!visible(points[i])) continue;
      const double x = x_(points[i].time);
      const double y = y_(points[i].energy);
      const bool last = i + 1 == points.size();
      if (!last && !out.empty() && std::hypot(x - out.back().first, y - out.back().second) < 1.5) continue;
      out.emplace_back(x, y);
    }
    return out;
  }

  void draw_bound() {
    std::vector<PlotPoint> points;
    for (const BoundPoint& point : input_.lower_bound) points.push_back({point.time.value(), point.energy.value()});
    const Points line = pixels(points);
    svg_.polyline(line, "bound");
    labels_.avoid_line(line, kBetweenPx);
  }

  void marker(std::size_t k, double x, double y, double r, const std::string& title) {
    const std::string css = fmt::format("f{}", k % kPlannerClasses);
    // Shapes besides colours tell planners apart in print and for the colour-blind.
    switch (k % kPlannerClasses) {
      case 0: svg_.circle(x, y, r, css, title); break;
      case 1: svg_.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r, css, {}, title); break;
      case 2:
        svg_.polygon({{x, y - 1.2 * r}, {x + 1.1 * r, y + 0.8 * r}, {x - 1.1 * r, y + 0.8 * r}}, css, title);
        break;
      case 3: svg_.polygon({{x, y - 1.3 * r}, {x + 1.3 * r, y}, {x, y + 1.3 * r}, {x - 1.3 * r, y}}, css, title); break;
      case 4:
        svg_.polygon({{x, y + 1.2 * r}, {x + 1.1 * r, y - 0.8 * r}, {x - 1.1 * r, y - 0.8 * r}}, css, title);
        break;
      case 5: svg_.rect(x - 0.55 * r, y - 1.3 * r, 1.1 * r, 2.6 * r, css, {}, title); break;
      case 6: svg_.rect(x - 1.3 * r, y - 0.55 * r, 2.6 * r, 1.1 * r, css, {}, title); break;
      default:
        svg_.polygon({{x + 1.2 * r, y},
                      {x + 0.6 * r, y + 1.04 * r},
                      {x - 0.6 * r, y + 1.04 * r},
                      {x - 1.2 * r, y},
                      {x - 0.6 * r, y - 1.04 * r},
                      {x + 0.6 * r, y - 1.04 * r}},
                     css, title);
    }
  }

  std::string hover_text(const std::string& name, PlotPoint p, double bound) const {
    std::string text =
        fmt::format("{}\n{} s ({} %)\n{} J ({} %)", name, format_fixed(p.time, 4),
                    format_signed((p.time / baseline_.time - 1.0) * 100.0, 2), grouped_number(p.energy, 1),
                    format_signed((p.energy / baseline_.energy - 1.0) * 100.0, 2));
    if (std::isfinite(bound)) {
      text += fmt::format("\nlower bound {} J, gap {} %", grouped_number(bound, 1),
                          format_fixed((p.energy / bound - 1.0) * 100.0, 3));
    }
    return text;
  }

  void draw_planner(std::size_t k) {
    const PlannerCurve& curve = *planners_[k].curve;
    const Frontier& frontier = *curve.frontier;
    const std::vector<std::size_t> worthwhile = worthwhile_points(frontier);
    std::vector<PlotPoint> points;
    for (const std::size_t i : worthwhile) points.push_back(point_of(frontier, i));
    const Points line = pixels(points);
    svg_.polyline(line, fmt::format("curve s{}", k % kPlannerClasses));
    labels_.avoid_line(line, kBetweenPx);

    const std::size_t stride = std::max<std::size_t>(1, (points.size() + kHoverPoints - 1) / kHoverPoints);
    for (std::size_t i = 0; i < points.size();
         i += i + stride < points.size() || i + 1 == points.size() ? stride : points.size() - 1 - i) {
      if (!visible(points[i])) continue;
      const std::string title = hover_text(curve.name, points[i], frontier.lower_bound(worthwhile[i]).value());
      if (points.size() <= kDotsUpTo) {
        marker(k, x_(points[i].time), y_(points[i].energy), points.size() == 1 ? 5.5 : 3.0, title);
      } else if (!narrow_) {  // narrow windows are those of fingers, which cannot hover
        svg_.circle(x_(points[i].time), y_(points[i].energy), 6.0, "hit", title);
      }
    }
    if (curve.selected && *curve.selected < frontier.size() && visible(point_of(frontier, *curve.selected))) {
      const PlotPoint p = point_of(frontier, *curve.selected);
      marker(k, x_(p.time), y_(p.energy), 5.5,
             hover_text(curve.name, p, frontier.lower_bound(*curve.selected).value()));
      labels_.avoid(x_(p.time), y_(p.energy), 8.0);
    }
  }

  void vertical_mark(double time, const std::string& text, std::string_view css) {
    const double x = x_(time);
    svg_.line(x, box_.top, x, box_.bottom, css);
    std::vector<LabelSpot> spots;
    for (const double row : {0.0, 1.0, 2.0, 3.0}) {
      const double top = box_.top + 16.0 + 17.0 * row;
      const double bottom = box_.bottom - 9.0 - 17.0 * row;
      spots.push_back({x + 5.0, top, Anchor::kStart});
      spots.push_back({x - 5.0, top, Anchor::kEnd});
      spots.push_back({x + 5.0, bottom, Anchor::kStart});
      spots.push_back({x - 5.0, bottom, Anchor::kEnd});
    }
    pending_.push_back({text, std::move(spots), "soft halo", false, 0.0, 0.0});
    for (double y = box_.top; y < box_.bottom; y += 5.0) labels_.avoid(x, y, 0.5);
  }

  void point_mark(PlotPoint p, const std::string& text, std::string_view css) {
    const double x = x_(p.time);
    const double y = y_(p.energy);
    pending_.push_back({text, spots_around(x, y, 11.0, kFrontierFontPx), std::string(css), true, x, y});
    labels_.avoid(x, y, 8.0);
  }

  void draw_marks() {
    vertical_mark(input_.t_min.value(), "T_{min}", "mark");
    vertical_mark(input_.t_star.value(), "T*", "mark");
    if (input_.t_straggler) vertical_mark(input_.t_straggler->value(), "T\u2032 straggler", "straggler");

    const double bx = x_(baseline_.time);
    const double by = y_(baseline_.energy);
    svg_.line(bx - 5.0, by - 5.0, bx + 5.0, by + 5.0, "chosen");
    svg_.line(bx - 5.0, by + 5.0, bx + 5.0, by - 5.0, "chosen");
    svg_.circle(bx, by, 8.0, "hit", hover_text(input_.baseline.name, baseline_, std::nan("")));
    svg_.circle(x_(chosen_.time), y_(chosen_.energy), 8.5, "chosen");
    point_mark(baseline_, "all-maximum clocks", "halo");
    // While a straggler sets the pace, the saving includes waiting and is another figure, so that the picture shows
    // none.
    const double saving = (1.0 - chosen_.energy / baseline_.energy) * 100.0;
    point_mark(chosen_,
               input_.t_straggler || saving <= 0.0 ? std::string("chosen")
                                                   : fmt::format("chosen: {} % less energy", format_fixed(saving, 1)),
               "strong halo");
    if (input_.t_least_total && !planners_.empty()) {
      const Frontier& first = *planners_.front().curve->frontier;
      const std::size_t least = first.least_total_energy();
      const PlotPoint p = point_of(first, least);
      svg_.circle(x_(p.time), y_(p.energy), 5.5, "used",
                  hover_text("least total energy", p, first.lower_bound(least).value()));
      point_mark(p, narrow_ ? "least total" : "least total energy", "halo");
    }
    // Points are labelled first, since the label of a line can stand anywhere along it.
    std::stable_partition(pending_.begin(), pending_.end(), [](const Label& label) { return label.leader; });
    for (const Label& label : pending_) {
      const LabelSpot spot = labels_.place(label.text, label.spots);
      if (label.leader && std::hypot(spot.x - label.x, spot.y - label.y) > 24.0) {
        const double gap = spot.anchor == Anchor::kStart ? -4.0 : spot.anchor == Anchor::kEnd ? 4.0 : 0.0;
        svg_.line(label.x, label.y, spot.x + gap, spot.y - 0.3 * kFrontierFontPx, "leader");
      }
      svg_.text(spot.x, spot.y, label.text, label.css, spot.anchor);
    }
  }

  void draw_legend() {
    double y = 18.0;
    for (const auto& row : legend_rows(svg_.width())) {
      double x = 12.0;
      for (const std::size_t k : row) {
        if (k == planners_.size()) {
          svg_.line(x, y - 4.0, x + 22.0, y - 4.0, "bound");
          svg_.text(x + 28.0, y, "lower bound", "");
        } else {
          if (planners_[k].curve->frontier->size() > 1) {
            svg_.line(x, y - 4.0, x + 22.0, y - 4.0, fmt::format("curve s{}", k % kPlannerClasses));
          }
          marker(k, x + 11.0, y - 4.0, 4.5, "");
          svg_.text(x + 28.0, y, legend_text(k), "");
        }
        x += entry_width(k);
      }
      y += 20.0;
    }
  }

  struct Label {
    std::string text;
    std::vector<LabelSpot> spots;
    std::string css;
    bool leader;
    double x, y;
  };

  const ReportInput& input_;
  bool narrow_;
  PlotPoint baseline_;
  PlotPoint chosen_;
  std::vector<Entry> planners_;
  SvgCanvas svg_;
  Box box_;
  LabelLayout labels_;
  LinearScale x_;
  LinearScale y_;
  std::vector<Label> pending_;
};

}  // namespace

SvgCanvas frontier_picture(const ReportInput& input, int width) { return FrontierPlot(input, width).draw(); }

}  // namespace flyball
