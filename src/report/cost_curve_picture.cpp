// Draws measured options, their lower hull and the fitted curve: one panel per stage and instruction.
#include "report/cost_curve_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "draw/grid.h"
#include "draw/scale.h"
#include "draw/text_table.h"
#include "profile/cost_curve.h"
#include "report/timeline_picture.h"

namespace flyball {
namespace {

constexpr double kPanelHeight = 190.0;
constexpr int kPanelWidth = 250;

// The options that the chosen plan gives to operations of this stage and instruction.
std::set<std::size_t> used_options(const RealisedPlan& plan, const OperationType& type) {
  std::set<std::size_t> options;
  for (int i = 0; i < plan.dag->size(); ++i) {
    const OperationType& own = plan.dag->type_of(i);
    if (own.stage == type.stage && own.instruction == type.instruction) {
      options.insert(plan.plan[static_cast<std::size_t>(i)]);
    }
  }
  return options;
}

}  // namespace

std::vector<std::size_t> types_with_choice(const ComputationDag& dag) {
  std::vector<std::size_t> types;
  for (std::size_t k = 0; k < dag.types().size(); ++k) {
    if (dag.types()[k].options.size() > 1) types.push_back(k);
  }
  // Instructions keep the order in which they first appear: forward before backward.
  std::stable_sort(types.begin(), types.end(),
                   [&](std::size_t a, std::size_t b) { return dag.types()[a].stage < dag.types()[b].stage; });
  return types;
}

SvgCanvas cost_curve_canvas(const ReportInput& input, std::size_t type_index, int width) {
  const OperationType& type = input.problem->dag->types()[type_index];
  const Watts blocking = input.problem->blocking[static_cast<std::size_t>(type.stage)];
  const auto& choices = input.problem->choices[type_index];
  const std::string title = fmt::format("stage {}, {}", type.stage, type.instruction);
  SvgCanvas svg(width, kPanelHeight, "Cost curve of " + title);

  std::vector<bool> pareto(type.options.size(), false);
  for (const std::uint16_t k : choices.pareto) pareto[k] = true;

  // Shows the range of the Pareto-optimal options and a little more: the slowest clocks of a GPU would squeeze all the
  // rest into a corner.
  const auto ms = [](const ClockOption& option) { return option.time.value() * 1e3; };
  double t_low = ms(type.options[choices.pareto.front()]);
  double t_high = ms(type.options[choices.pareto.back()]);
  t_high += std::max(0.35 * (t_high - t_low), 0.01 * t_low);
  double e_low = net_joules(type.options[choices.pareto.back()], blocking);
  double e_high = net_joules(type.options[choices.pareto.front()], blocking);
  std::size_t hidden = 0;
  for (const ClockOption& option : type.options) {
    if (ms(option) > t_high) {
      ++hidden;
      continue;
    }
    t_low = std::min(t_low, ms(option));
    e_low = std::min(e_low, net_joules(option, blocking));
    e_high = std::max(e_high, net_joules(option, blocking));
  }
  const double t_pad = 0.05 * (t_high - t_low);
  const double e_pad = 0.08 * std::max(e_high - e_low, 1e-6 * std::abs(e_high) + 1e-9);
  const LinearScale x{t_low - t_pad, t_high, 48.0, width - 8.0};
  const LinearScale y{e_low - e_pad, e_high + e_pad, kPanelHeight - 36.0, 24.0};

  svg.text(48.0, 14.0, title, "small strong");
  draw_columns(svg, x, y.high, y.low, 4, 14.0);
  draw_rows(svg, y, x.low, x.high, 5, 5.0);
  svg.rect(x.low, y.high, x.high - x.low, y.low - y.high, "frame");
  svg.text(0.5 * (x.low + x.high), kPanelHeight - 6.0, "time (ms)", "small soft", Anchor::kMiddle);
  svg.vertical_text(12.0, 0.5 * (y.low + y.high), "net energy (J)", "small soft");
  if (hidden > 0) {
    svg.text(x.high, 14.0, fmt::format("{} slower not shown", hidden), "tiny soft", Anchor::kEnd);
  }

  const std::set<std::size_t> used = used_options(input.chosen, type);
  for (const bool worthwhile : {false, true}) {
    svg.open_group(worthwhile ? "class=\"pareto\"" : "class=\"option\"");
    for (std::size_t k = type.options.size(); k-- > 0;) {
      const ClockOption& option = type.options[k];
      if (ms(option) > t_high || pareto[k] != worthwhile) continue;
      const double net = net_joules(option, blocking);
      svg.circle(x(ms(option)), y(net), 2.4, "",
                 fmt::format("{}\n{} ms\n{} J, {} W\nnet {} J", setting_text(type, k), short_number(ms(option)),
                             short_number(option.energy.value()), short_number((option.energy / option.time).value()),
                             short_number(net)));
    }
    svg.close_group();
  }
  Points hull;
  for (const CurveVertex& vertex : choices.hull) {
    hull.emplace_back(x(to_seconds(vertex.time).value() * 1e3), y(vertex.net_joules));
  }
  svg.polyline(hull, "hull");
  if (input.problem->cost_model == CostModel::kExponential && choices.pareto.size() >= 3) {
    std::vector<ClockOption> options;
    for (const std::uint16_t k : choices.pareto) options.push_back(type.options[k]);
    const ExponentialFit fit = fit_exponential(options, blocking);
    Points curve;
    constexpr int kPieces = 48;
    const Seconds first = options.front().time;
    const Seconds span = options.back().time - first;
    for (int k = 0; k <= kPieces; ++k) {
      const Seconds t = first + span * (static_cast<double>(k) / kPieces);
      const double py = y(fit.at(t));
      if (py >= y.high && py <= y.low) curve.emplace_back(x(t.value() * 1e3), py);
    }
    svg.polyline(curve, "fit");
  }
  for (std::size_t k = 0; k < type.options.size(); ++k) {
    const ClockOption& option = type.options[k];
    if (used.contains(k) && ms(option) <= t_high) {
      svg.circle(x(ms(option)), y(net_joules(option, blocking)), 4.6, "used");
    }
  }
  return svg;
}

SvgCanvas cost_curve_picture(const ReportInput& input, int width) {
  const std::vector<std::size_t> types = types_with_choice(*input.problem->dag);
  const int columns = std::clamp(width / kPanelWidth, 1, 8);
  const int panel = width / columns;
  const int rows = (static_cast<int>(types.size()) + columns - 1) / columns;
  SvgCanvas svg(width, 34.0 + rows * (kPanelHeight + 12.0), "Cost curves per stage and instruction. " + input.title);

  double px = 14.0;
  const auto legend = [&](std::string_view text, auto draw) {
    draw(px, 15.0);
    svg.text(px + 16.0, 19.0, text, "small soft");
    px += 16.0 + text_width(text, 11.0) + 18.0;
  };
  legend("measured", [&](double cx, double cy) { svg.circle(cx, cy, 3.0, "option"); });
  legend("Pareto-optimal", [&](double cx, double cy) { svg.circle(cx, cy, 3.0, "pareto"); });
  legend("lower hull", [&](double cx, double cy) { svg.line(cx - 9.0, cy, cx + 9.0, cy, "hull"); });
  if (input.problem->cost_model == CostModel::kExponential) {
    legend("exponential fit", [&](double cx, double cy) { svg.line(cx - 9.0, cy, cx + 9.0, cy, "fit"); });
  }
  legend("in the chosen plan", [&](double cx, double cy) { svg.circle(cx, cy, 4.6, "used"); });

  for (std::size_t k = 0; k < types.size(); ++k) {
    const int index = static_cast<int>(k);
    const int row = index / columns;
    svg.place(cost_curve_canvas(input, types[k], panel - 8), (index % columns) * panel,
              34.0 + row * (kPanelHeight + 12.0));
  }
  return svg;
}

}  // namespace flyball
