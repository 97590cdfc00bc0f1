// The timeline as a still SVG picture.
#include "report/timeline_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "draw/scale.h"
#include "draw/text_table.h"

namespace flyball {
namespace {

constexpr double kLeft = 64.0;
constexpr double kRight = 14.0;
constexpr double kRowHeight = 26.0;
constexpr double kRowGap = 4.0;
constexpr double kTitleHeight = 26.0;
constexpr double kAxisHeight = 30.0;
constexpr double kLegendHeight = 50.0;
constexpr double kBreakWidth = 26.0;
// An operation's label needs about this much; iterations that give their operations less are drawn in three stretches.
constexpr double kOperationWidth = 24.0;
constexpr double kLabelPx = 9.5;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// A stretch of time and where it is drawn.
struct Window {
  double from;  // s
  double to;    // s
  double x;     // px
  double width;

  [[nodiscard]] double operator()(double t) const { return x + (t - from) / (to - from) * width; }
};

double median_operation(const RealisedPlan& plan) {
  std::vector<Nanoseconds> durations;
  for (int i = 0; i < plan.dag->size(); ++i) {
    if (plan.dag->type_of(i).occupies_stage) durations.push_back(plan.durations[at(i)]);
  }
  if (durations.empty()) return 1.0;
  const auto middle = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 2);
  std::nth_element(durations.begin(), middle, durations.end());
  return std::max(to_seconds(*middle).value(), 1e-9);
}

// The stretches of one plan: the whole iteration, or start, middle and end on the scale common to both plans.
std::vector<Window> windows_of(double makespan, double longest, double operation, double plot_width) {
  if (longest / operation * kOperationWidth <= 1.35 * plot_width) {
    return {{0.0, longest * 1.002, kLeft, plot_width}};
  }
  const double usable = plot_width - 2.0 * kBreakWidth;
  const double seconds_per_px = operation / kOperationWidth;
  const double ends = 0.38 * usable;
  const double middle = usable - 2.0 * ends;
  // Plans that end at about the same time share the last stretch, so that the difference shows.
  const double end = longest - makespan < 0.4 * ends * seconds_per_px ? longest : makespan;
  const double half = 0.5 * middle * seconds_per_px;
  return {{0.0, ends * seconds_per_px, kLeft, ends},
          {0.5 * longest - half, 0.5 * longest + half, kLeft + ends + kBreakWidth, middle},
          {end - ends * seconds_per_px, end * 1.0005, kLeft + ends + middle + 2.0 * kBreakWidth, ends}};
}

double row_top(int stage) { return kTitleHeight + stage * (kRowHeight + kRowGap); }

double rows_height(const ComputationDag& dag) { return dag.stages() * (kRowHeight + kRowGap); }

std::string hover_text(const RealisedPlan& plan, const Timeline& timeline, int i) {
  const ClockOption& option = option_of(plan, i);
  std::string text = plan.dag->label(i);
  if (option.frequency.value() > 0.0) text += fmt::format("\n{} MHz", short_number(option.frequency.value()));
  text += fmt::format("\nstart {} s\n{} ms\n{} W, {} J", format_fixed(to_seconds(timeline.start[at(i)]).value(), 4),
                      short_number(to_seconds(plan.durations[at(i)]).value() * 1e3),
                      short_number(mean_power(option).value()), short_number(option.energy.value()));
  const Nanoseconds slack = timeline.latest_start[at(i)] - timeline.start[at(i)];
  text += slack == 0 ? std::string("\ncritical")
                     : fmt::format("\nslack {} ms", short_number(to_seconds(slack).value() * 1e3));
  return text;
}

void draw_operations(SvgCanvas& svg, const RealisedPlan& plan, const Timeline& timeline, const PowerScale& power,
                     const Window& window) {
  for (int stage = 0; stage < plan.dag->stages(); ++stage) {
    const double y = row_top(stage);
    const double end = std::min(window.to, to_seconds(timeline.makespan).value());
    if (end > window.from) svg.rect(window.x, y, window(end) - window.x, kRowHeight, "bubble");
    for (const int i : plan.dag->stage_order(stage)) {
      const double start = std::max(window.from, to_seconds(timeline.start[at(i)]).value());
      const double finish = std::min(window.to, to_seconds(timeline.finish[at(i)]).value());
      if (finish <= start) continue;
      const ClockOption& option = option_of(plan, i);
      const Watts mean = mean_power(option);
      const double x = window(start);
      const double width = window(finish) - x;
      svg.rect(x, y, width, kRowHeight, "op", power.color(mean), hover_text(plan, timeline, i));
      std::string label = short_label(*plan.dag, i);
      if (text_width(label, kLabelPx) + 3.0 > width) {
        const std::size_t digits = label.find_first_of("0123456789");
        label = digits == std::string::npos ? "" : label.substr(digits);
      }
      if (label.empty() || text_width(label, kLabelPx) + 3.0 > width) continue;
      svg.text(x + width / 2.0, y + 14.5, label, power.is_dark(mean) ? "tiny on-dark" : "tiny on-light",
               Anchor::kMiddle);
    }
  }
}

// One line along the foot of the operations on the path, stepping from stage to stage.
void draw_critical_path(SvgCanvas& svg, const RealisedPlan& plan, const Timeline& timeline, const Window& window) {
  Points points;
  const auto flush = [&] {
    svg.polyline(points, "under");
    svg.polyline(points, "critical");
    points.clear();
  };
  for (const int i : critical_path(*plan.dag, timeline)) {
    const double start = to_seconds(timeline.start[at(i)]).value();
    const double finish = to_seconds(timeline.finish[at(i)]).value();
    if (finish <= window.from || start >= window.to) {
      flush();
      continue;
    }
    if (!plan.dag->type_of(i).occupies_stage) continue;
    const double y = row_top(plan.dag->type_of(i).stage) + kRowHeight - 4.5;
    // Operations that follow each other on a stage need one segment.
    if (points.size() >= 2 && points.back().second == y && points[points.size() - 2].second == y)
      points.pop_back();
    else
      points.emplace_back(window(std::max(start, window.from)), y);
    points.emplace_back(window(std::min(finish, window.to)), y);
  }
  flush();
}

void draw_axis(SvgCanvas& svg, const Window& window, double y, double makespan, bool last) {
  svg.line(window.x, y, window.x + window.width, y, "axis");
  const Ticks ticks = round_ticks(window.from, window.to, std::max(2, static_cast<int>(window.width / 80.0)));
  for (const double t : ticks.values) {
    const double x = window(t);
    svg.line(x, y, x, y + 4.0, "axis");
    svg.text(x, y + 16.0, ticks.label(t), "small soft", Anchor::kMiddle);
  }
  if (last && makespan <= window.to) svg.line(window(makespan), kTitleHeight - 3.0, window(makespan), y, "leader");
}

void draw_legend(SvgCanvas& svg, const ReportInput& input, const PowerScale& power, double y) {
  const double bar = 180.0;
  double x = kLeft;
  svg.text(x, y, "mean power (W)", "small soft");
  constexpr int kSteps = 45;
  for (int k = 0; k < kSteps; ++k) {
    const Watts mean = power.least() + (power.most() - power.least()) * ((k + 0.5) / kSteps);
    svg.rect(x + bar * k / kSteps, y + 6.0, bar / kSteps + 0.4, 10.0, "", power.color(mean));
  }
  const LinearScale scale{power.least().value(), power.most().value(), x, x + bar};
  const Ticks ticks = round_ticks(scale.from, scale.to, 4);
  for (const double tick : ticks.values) {
    svg.text(scale(tick), y + 28.0, ticks.label(tick), "small soft", Anchor::kMiddle);
  }
  x += bar + 34.0;
  svg.rect(x, y + 5.0, 24.0, 12.0, "bubble");
  const std::string blocking = blocking_label(*input.problem);
  svg.text(x + 30.0, y + 15.0, blocking, "small soft");
  x += 30.0 + text_width(blocking, 11.0) + 26.0;
  svg.line(x, y + 11.0, x + 24.0, y + 11.0, "critical");
  svg.text(x + 30.0, y + 15.0, "critical path", "small soft");
}

}  // namespace

RealisedPlan realise_plan(std::string name, const ComputationDag& dag, ClockPlan plan, std::span<const Watts> blocking,
                          Nanoseconds straggler_time) {
  RealisedPlan realised;
  realised.name = std::move(name);
  realised.dag = &dag;
  realised.plan = std::move(plan);
  realised.durations = plan_durations(dag, realised.plan);
  std::vector<Nanoseconds> finish(at(dag.size()));
  realised.makespan = makespan(dag, realised.durations, finish);
  realised.energy = energy_of(dag, realised.plan, realised.makespan, blocking, straggler_time);
  return realised;
}

const ClockOption& option_of(const RealisedPlan& plan, int operation) {
  return plan.dag->type_of(operation).options[plan.plan[at(operation)]];
}

Watts mean_power(const ClockOption& option) {
  return option.time > Seconds(0.0) ? option.energy / option.time : Watts(0.0);
}

PowerScale power_scale(const ReportInput& input) {
  Watts least(1e9);
  Watts most(0.0);
  for (const RealisedPlan* plan : {&input.baseline, &input.chosen}) {
    for (int i = 0; i < plan->dag->size(); ++i) {
      if (!plan->dag->type_of(i).occupies_stage) continue;
      least = std::min(least, mean_power(option_of(*plan, i)));
      most = std::max(most, mean_power(option_of(*plan, i)));
    }
  }
  return {std::min(least, most), most};
}

std::string short_label(const ComputationDag& dag, int operation) {
  const std::string label = dag.label(operation);
  return label.substr(0, label.find(' '));
}

std::string plan_heading(const RealisedPlan& plan, const RealisedPlan* than) {
  const double time = to_seconds(plan.makespan).value();
  std::string text =
      fmt::format("{}: {} s, {} J", plan.name, format_fixed(time, 3), grouped_number(plan.energy.total().value(), 0));
  if (than != nullptr) {
    text += fmt::format(" ({} % time, {} % energy)",
                        format_signed((time / to_seconds(than->makespan).value() - 1.0) * 100.0, 2),
                        format_signed((plan.energy.total() / than->energy.total() - 1.0) * 100.0, 1));
  }
  return text;
}

std::string blocking_label(const PlanProblem& problem) {
  if (problem.blocking.empty()) return "blocking";
  const auto [least, most] = std::minmax_element(problem.blocking.begin(), problem.blocking.end());
  if (*least == *most) return fmt::format("blocking, {} W", short_number(least->value()));
  return fmt::format("blocking, {} to {} W", short_number(least->value()), short_number(most->value()));
}

SvgCanvas timeline_canvas(const ReportInput& input, int width) {
  const PowerScale power = power_scale(input);
  const double plot_width = width - kLeft - kRight;
  const double longest = to_seconds(std::max(input.baseline.makespan, input.chosen.makespan)).value();
  const double operation = median_operation(input.baseline);
  const double block = kTitleHeight + kAxisHeight + 14.0;
  const double height =
      10.0 + 2.0 * block + rows_height(*input.baseline.dag) + rows_height(*input.chosen.dag) + kLegendHeight;
  SvgCanvas svg(width, height, "Timeline of one iteration before and after, one row per stage. " + input.title);

  double y = 10.0;
  for (const RealisedPlan* plan : {&input.baseline, &input.chosen}) {
    const Timeline timeline = emulate(*plan->dag, plan->durations);
    const double makespan = to_seconds(timeline.makespan).value();
    svg.open_group(0.0, y);
    svg.text(kLeft, 16.0, plan_heading(*plan, plan == &input.chosen ? &input.baseline : nullptr), "heading");
    for (int stage = 0; stage < plan->dag->stages(); ++stage) {
      svg.text(kLeft - 8.0, row_top(stage) + 17.0, fmt::format("stage {}", stage), "small soft", Anchor::kEnd);
    }
    const std::vector<Window> windows = windows_of(makespan, longest, operation, plot_width);
    const double foot = kTitleHeight + rows_height(*plan->dag);
    for (std::size_t k = 0; k < windows.size(); ++k) {
      draw_operations(svg, *plan, timeline, power, windows[k]);
      draw_critical_path(svg, *plan, timeline, windows[k]);
      draw_axis(svg, windows[k], foot, makespan, k + 1 == windows.size());
      if (k == 0) continue;
      const double middle = windows[k].x - kBreakWidth / 2.0;
      for (int stage = 0; stage < plan->dag->stages(); ++stage) {
        svg.text(middle, row_top(stage) + 17.0, "\u22ef", "soft", Anchor::kMiddle);
      }
    }
    svg.text(kLeft - 14.0, foot + 16.0, "time (s)", "small soft", Anchor::kEnd);
    svg.close_group();
    y += block + rows_height(*plan->dag);
  }
  draw_legend(svg, input, power, y + 8.0);
  return svg;
}

std::string timeline_svg(const ReportInput& input, int width) { return timeline_canvas(input, width).standalone(); }

}  // namespace flyball
