// Draws the timelines before and after as one picture for a file.
#include "report/timeline_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/index.h"
#include "draw/palette.h"
#include "draw/scale.h"
#include "draw/text_table.h"

namespace flyball {
namespace {

constexpr double kTimelineLeft = 64.0;
constexpr double kTimelineRight = 14.0;
constexpr double kRowHeight = 26.0;
constexpr double kRowPitch = 30.0;
constexpr double kLowered = 6.0;  // what a forward is lower than the others, at its top
constexpr double kTitleHeight = 26.0;
constexpr double kAxisHeight = 30.0;
constexpr double kLegendHeight = 50.0;
constexpr double kBreakWidth = 26.0;
// The width that an operation's label needs. Iterations with less room per operation are drawn in three parts.
constexpr double kOperationWidth = 24.0;
constexpr double kLabelPx = 9.5;
// The least number of pixels between ticks.
constexpr double kTickWidth = 80.0;
// Operations narrower than this would show little but their borders, and those below a hairline nothing without one.
constexpr double kBorderedWidth = 6.0;
constexpr double kHairline = 0.5;

// A span of time, and where it is drawn.
struct Window {
  double from;  // s
  double to;    // s
  double x;     // px
  double width;

  [[nodiscard]] double operator()(double t) const { return x + (t - from) / (to - from) * width; }
};

// The windows of one plan: the whole iteration, or its start, middle and end, on the scale that both plans share.
std::vector<Window> windows_of(double makespan, double longest, double operation, double plot_width) {
  if (longest / operation * kOperationWidth <= 1.35 * plot_width) {
    return {{0.0, longest * 1.002, kTimelineLeft, plot_width}};
  }
  const double usable = plot_width - 2.0 * kBreakWidth;
  const double seconds_per_px = operation / kOperationWidth;
  const double ends = 0.38 * usable;
  const double middle = usable - 2.0 * ends;
  // Plans that end at about the same time share the last window's span, so that the difference shows.
  const double end = longest - makespan < 0.4 * ends * seconds_per_px ? longest : makespan;
  const double half = 0.5 * middle * seconds_per_px;
  return {{0.0, ends * seconds_per_px, kTimelineLeft, ends},
          {0.5 * longest - half, 0.5 * longest + half, kTimelineLeft + ends + kBreakWidth, middle},
          {end - ends * seconds_per_px, end * 1.0005, kTimelineLeft + ends + middle + 2.0 * kBreakWidth, ends}};
}

double row_top(int stage) { return stage * kRowPitch; }

double rows_height(const ComputationDag& dag) { return dag.stages() * kRowPitch; }

std::string hover_text(const RealisedPlan& plan, const Timeline& timeline, int i) {
  const ClockOption& option = option_of(plan, i);
  std::string text = plan.dag->label(i);
  const std::string setting = setting_text(plan.dag->type_of(i), plan.plan[at(i)]);
  if (!setting.empty()) text += "\n" + setting;
  text += fmt::format("\nstart {} s\n{} ms\n{} W, {} J", format_fixed(to_seconds(timeline.start[at(i)]).value(), 4),
                      short_number(to_seconds(plan.durations[at(i)]).value() * 1e3),
                      short_number(mean_power(option).value()), short_number(option.energy.value()));
  const Nanoseconds slack = timeline.latest_start[at(i)] - timeline.start[at(i)];
  text += slack == 0 ? std::string("\ncritical")
                     : fmt::format("\nslack {} ms", short_number(to_seconds(slack).value() * 1e3));
  return text;
}

// Draws one window of one plan.
class TimelineDrawing {
 public:
  TimelineDrawing(SvgCanvas& svg, const RealisedPlan& plan, const Timeline& timeline, const PowerScale& power,
                  Window window)
      : svg_(svg), plan_(plan), timeline_(timeline), power_(power), window_(window) {}

  void draw(bool last) {
    for (int stage = 0; stage < plan_.dag->stages(); ++stage) draw_stage(stage);
    draw_critical_path();
    draw_axis(last);
  }

 private:
  struct Label {
    double x;
    std::string text;
  };
  // Labels are one group by their background (dark or not).
  using Labels = std::map<bool, std::vector<Label>>;
  // Outlines are one group by their colour, whether they have borders, and whether they are hairlines.
  using Outlines = std::map<std::tuple<std::string, bool, bool>, std::vector<std::pair<std::string, int>>>;

  void draw_stage(int stage) {
    const double y = row_top(stage);
    const double end = std::min(window_.to, to_seconds(timeline_.makespan).value());
    if (end > window_.from) svg_.rect(window_.x, y, window_(end) - window_.x, kRowHeight, "bubble");
    Outlines outlines;
    Labels labels;
    for (const int i : plan_.dag->stage_order(stage)) {
      const double start = std::max(window_.from, to_seconds(timeline_.start[at(i)]).value());
      const double finish = std::min(window_.to, to_seconds(timeline_.finish[at(i)]).value());
      if (finish <= start) continue;
      const Watts mean = mean_power(option_of(plan_, i));
      const double x = window_(start);
      const double width = window_(finish) - x;
      // A narrow operation's label is its number alone: the shape says what it is.
      const double top = y + (is_forward(plan_.dag->type_of(i).instruction) ? kLowered : 0.0);
      outlines[{power_.color(mean), width >= kBorderedWidth, width < kHairline}].emplace_back(
          fmt::format("M{} {}V{}h{}V{}z", coordinate(x), top, y + kRowHeight, coordinate(width), top), i);
      add_label(labels[power_.is_dark(mean)], i, x + width / 2.0, width);
    }
    for (const auto& [key, shapes] : outlines) {
      const auto& [colour, bordered, hairline] = key;
      std::string attributes = fmt::format("class=\"op{}\" fill=\"{}\"", bordered ? "" : " far", colour);
      if (hairline) attributes += fmt::format(" stroke=\"{}\"", colour);
      svg_.open_group(attributes);
      for (const auto& [outline, i] : shapes) svg_.path(outline, hover_text(plan_, timeline_, i));
      svg_.close_group();
    }
    svg_.open_group(0.0, y + 14.5);
    for (const auto& [dark, texts] : labels) {
      svg_.open_group(fmt::format("class=\"tiny {}\" text-anchor=\"middle\"", dark ? "on-dark" : "on-light"));
      for (const Label& label : texts) svg_.label(label.x, label.text);
      svg_.close_group();
    }
    svg_.close_group();
  }

  // Adds the operation's name or its number as its label: the first of the two that fits.
  void add_label(std::vector<Label>& labels, int i, double x, double width) const {
    const auto fits = [&](const std::string& text) { return text_width(text, kLabelPx) + 3.0 <= width; };
    std::string text = short_label(*plan_.dag, i);
    const std::size_t digits = text.find_first_of("0123456789");
    if (!fits(text) && digits != std::string::npos) text = text.substr(digits);
    if (fits(text)) labels.push_back({x, std::move(text)});
  }

  // Draws one line along the foot of the operations on the critical path, stepping from stage to stage.
  void draw_critical_path() {
    Points points;
    const auto flush = [&] {
      svg_.polyline(points, "under");
      svg_.polyline(points, "critical");
      points.clear();
    };
    for (const int i : critical_path(*plan_.dag, timeline_)) {
      const double start = to_seconds(timeline_.start[at(i)]).value();
      const double finish = to_seconds(timeline_.finish[at(i)]).value();
      if (finish <= window_.from || start >= window_.to) {
        flush();
        continue;
      }
      if (!plan_.dag->type_of(i).occupies_stage) continue;
      const double y = row_top(plan_.dag->type_of(i).stage) + kRowHeight - 4.5;
      // Operations that follow each other on a stage share a segment.
      if (points.size() >= 2 && points.back().second == y && points[points.size() - 2].second == y)
        points.pop_back();
      else
        points.emplace_back(window_(std::max(start, window_.from)), y);
      points.emplace_back(window_(std::min(finish, window_.to)), y);
    }
    flush();
  }

  void draw_axis(bool last) {
    const double y = rows_height(*plan_.dag);
    svg_.line(window_.x, y, window_.x + window_.width, y, "axis");
    const double makespan = to_seconds(timeline_.makespan).value();
    if (last && makespan <= window_.to) svg_.line(window_(makespan), -3.0, window_(makespan), y, "leader");
    const int count = static_cast<int>(std::max(2.0, window_.width / kTickWidth));
    const Ticks ticks = round_ticks(window_.from, window_.to, count);
    std::string marks;
    for (const double t : ticks.values) marks += fmt::format("M{} {}v4", coordinate(window_(t)), y);
    svg_.open_group("class=\"axis\"");
    svg_.path(marks);
    svg_.close_group();
    svg_.open_group(0.0, y + 16.0);
    svg_.open_group("class=\"small soft\" text-anchor=\"middle\"");
    for (const double t : ticks.values) svg_.label(window_(t), ticks.label(t));
    svg_.close_group();
    svg_.close_group();
  }

  SvgCanvas& svg_;
  const RealisedPlan& plan_;
  const Timeline& timeline_;
  const PowerScale& power_;
  Window window_;
};

// Covers the mean power of every operation that occupies a stage, under both plans.
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

// The duration that the picture draws as wide as an operation should be: the median of the baseline's operations that
// occupy a stage, but no less than the longer iteration divided by their number. However uneven the operations are, no
// picture is then wider than so many of them side by side.
Seconds usual_operation(const ReportInput& input) {
  std::vector<Nanoseconds> durations;
  for (int i = 0; i < input.baseline.dag->size(); ++i) {
    if (input.baseline.dag->type_of(i).occupies_stage) durations.push_back(input.baseline.durations[at(i)]);
  }
  if (durations.empty()) return longest_iteration(input);
  const auto middle = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 2);
  std::nth_element(durations.begin(), middle, durations.end());
  return std::max(to_seconds(*middle), longest_iteration(input) / static_cast<double>(durations.size()));
}

void draw_names(SvgCanvas& svg, const ComputationDag& dag) {
  for (int stage = 0; stage < dag.stages(); ++stage) {
    svg.text(kTimelineLeft - 8.0, row_top(stage) + 17.0, fmt::format("stage {}", stage), "small soft", Anchor::kEnd);
  }
  svg.text(kTimelineLeft - 14.0, rows_height(dag) + 16.0, "time (s)", "small soft", Anchor::kEnd);
}

void draw_legend(SvgCanvas& svg, const ReportInput& input, const PowerScale& power, double y) {
  const double bar = 180.0;
  double x = kTimelineLeft;
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
  x += 30.0 + text_width("critical path", 11.0) + 26.0;
  svg.text(x, y + 15.0, "forwards are lower", "small soft");
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

std::string setting_text(const OperationType& type, std::size_t option) {
  const Megahertz clock = type.options[option].frequency;
  std::string labels = label_text(type.labels.of(option));
  if (!(clock > Megahertz(0))) return labels;
  return short_number(clock.value()) + " MHz" + (labels.empty() ? "" : ", ") + labels;
}

Watts mean_power(const ClockOption& option) {
  return option.time > Seconds(0.0) ? option.energy / option.time : Watts(0.0);
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
  const auto [least, highest] = std::minmax_element(problem.blocking.begin(), problem.blocking.end());
  Watts most = *highest;
  for (const OperationType& type : problem.dag->types()) {
    for (const Watts above : type.waiting_above) most = std::max(most, problem.blocking[at(type.stage)] + above);
  }
  if (*least == most) return fmt::format("blocking, {} W", short_number(least->value()));
  return fmt::format("blocking, {} to {} W", short_number(least->value()), short_number(most.value()));
}

Seconds longest_iteration(const ReportInput& input) {
  return to_seconds(std::max({input.baseline.makespan, input.chosen.makespan, Nanoseconds{1}}));
}

SvgCanvas timeline_picture(const ReportInput& input, int width) {
  const PowerScale power = power_scale(input);
  const double plot_width = width - kTimelineLeft - kTimelineRight;
  const double longest = longest_iteration(input).value();
  const double operation = usual_operation(input).value();
  const double block = kTitleHeight + kAxisHeight + 14.0;
  const double height =
      10.0 + 2.0 * block + rows_height(*input.baseline.dag) + rows_height(*input.chosen.dag) + kLegendHeight;
  SvgCanvas svg(width, height, "Timeline of one iteration before and after, one row per stage. " + input.title);

  double y = 10.0;
  for (const RealisedPlan* plan : {&input.baseline, &input.chosen}) {
    const Timeline timeline = emulate(*plan->dag, plan->durations);
    svg.text(kTimelineLeft, y + 16.0, plan_heading(*plan, plan == &input.chosen ? &input.baseline : nullptr),
             "heading");
    svg.open_group(0.0, y + kTitleHeight);
    draw_names(svg, *plan->dag);
    const double makespan = to_seconds(timeline.makespan).value();
    const std::vector<Window> windows = windows_of(makespan, longest, operation, plot_width);
    for (std::size_t k = 0; k < windows.size(); ++k) {
      TimelineDrawing(svg, *plan, timeline, power, windows[k]).draw(k + 1 == windows.size());
      if (k == 0) continue;
      const double middle = windows[k].x - kBreakWidth / 2.0;
      for (int stage = 0; stage < plan->dag->stages(); ++stage) {
        svg.text(middle, row_top(stage) + 17.0, "\u22ef", "soft", Anchor::kMiddle);
      }
    }
    svg.close_group();
    y += block + rows_height(*plan->dag);
  }
  draw_legend(svg, input, power, y + 8.0);
  return svg;
}

}  // namespace flyball
