// Writes the report's tables as HTML.
#include "report/html_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "draw/scale.h"
#include "draw/svg_canvas.h"
#include "draw/text_table.h"
#include "report/cost_curve_picture.h"
#include "report/timeline_picture.h"

namespace flyball {
namespace {

constexpr std::size_t kFrontierRows = 20;

// A table that may be wider than the page scrolls by itself.
std::string table(const std::string& caption, const std::string& head, const std::string& body,
                  std::string_view css = "") {
  return fmt::format(
      "<div class=\"scroll {3}\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table>\n<caption>{0}</caption>\n"
      "<thead><tr>{1}</tr></thead>\n<tbody>\n{2}</tbody></table></div>\n",
      escape_markup(caption), head, body, css);
}

std::string heading(std::string_view text, std::string_view unit, bool left = false) {
  return fmt::format("<th scope=\"col\"{}>{}{}</th>", left ? " class=\"left\"" : "", escape_markup(text),
                     unit.empty() ? "" : fmt::format("<small>{}</small>", escape_markup(unit)));
}

std::string cell(const std::string& text) { return "<td>" + escape_markup(text) + "</td>"; }

std::string percent_change(double now, double before) { return format_signed((now / before - 1.0) * 100.0, 2); }

double seconds(const RealisedPlan& plan) { return to_seconds(plan.makespan).value(); }

enum class RowKind { kWhole, kPart };

std::string before_after_row(RowKind kind, std::string_view name, std::string_view unit, double before, double after,
                             int decimals) {
  return fmt::format("<tr><th scope=\"row\" class=\"left{}\">{}{}</th>{}{}{}</tr>\n",
                     kind == RowKind::kPart ? " part" : "", name, unit.empty() ? "" : fmt::format(" ({})", unit),
                     cell(grouped_number(before, decimals)), cell(grouped_number(after, decimals)),
                     cell(before > 0.0 ? percent_change(after, before) : std::string("\u2013")));
}

// A histogram of clocks, one bar each.
std::string clock_bars(const std::map<double, int>& counts, double lowest, double highest) {
  constexpr double kWidth = 130.0;
  constexpr double kHeight = 20.0;
  SvgCanvas svg(kWidth, kHeight, "Distribution of clocks");
  int most = 1;
  for (const auto& [clock, count] : counts) most = std::max(most, count);
  const LinearScale x{lowest, std::max(highest, lowest + 1.0), 2.0, kWidth - 2.0};
  svg.line(0.0, kHeight - 0.5, kWidth, kHeight - 0.5, "axis");
  for (const auto& [clock, count] : counts) {
    const double height = std::max(2.0, (kHeight - 2.0) * count / most);
    svg.rect(x(clock) - 1.5, kHeight - 1.0 - height, 3.0, height, "f0", {},
             fmt::format("{} MHz: {} operations", short_number(clock), count));
  }
  return svg.inlined("bars");
}

}  // namespace

std::string before_after_table(const ReportInput& input) {
  const RealisedPlan& before = input.baseline;
  const RealisedPlan& after = input.chosen;
  std::string body;
  body += before_after_row(RowKind::kWhole, "Iteration time", "s", seconds(before), seconds(after), 3);
  body += before_after_row(RowKind::kWhole, "Energy per iteration", "J", before.energy.total().value(),
                           after.energy.total().value(), 1);
  body += before_after_row(RowKind::kPart, "computation", "J", before.energy.computation.value(),
                           after.energy.computation.value(), 1);
  body += before_after_row(RowKind::kPart, "blocking", "J", before.energy.blocking.value(),
                           after.energy.blocking.value(), 1);
  if (input.t_straggler) {
    body += before_after_row(RowKind::kPart, "waiting for the straggler", "J", before.energy.straggler_wait.value(),
                             after.energy.straggler_wait.value(), 1);
  }
  const double pace = input.t_straggler ? input.t_straggler->value() : 0.0;
  body += before_after_row(RowKind::kWhole, "Mean power of the pipeline", "W",
                           before.energy.total().value() / std::max(seconds(before), pace),
                           after.energy.total().value() / std::max(seconds(after), pace), 1);
  body += before_after_row(RowKind::kWhole, "Clock switches per iteration", "",
                           count_switches(*before.dag, before.plan), count_switches(*after.dag, after.plan), 0);
  return table("One iteration of one pipeline, one GPU per stage",
               heading("", "", true) + heading(before.name, "") + heading(after.name, "") + heading("change", "%"),
               body, "wrap");
}

std::string planner_table(const ReportInput& input) {
  if (input.planners.size() < 2) return "";
  const double base_time = seconds(input.baseline);
  const double base_energy = (input.baseline.energy.computation + input.baseline.energy.blocking).value();
  std::string body;
  for (std::size_t k = 0; k < input.planners.size(); ++k) {
    const PlannerCurve& curve = input.planners[k];
    if (curve.frontier == nullptr || curve.frontier->empty()) continue;
    const Frontier& frontier = *curve.frontier;
    const std::size_t i = std::min(curve.selected.value_or(0), frontier.size() - 1);
    const double time = frontier.time(i).value();
    const double energy = frontier.energy(i).value();
    body +=
        fmt::format("<tr{}><th scope=\"row\" class=\"left\">{}</th>{}{}{}{}{}</tr>\n",
                    k == 0 ? " class=\"selected\"" : "", escape_markup(curve.name), cell(format_fixed(time, 3)),
                    cell(percent_change(time, base_time)), cell(grouped_number(energy, 1)),
                    cell(format_fixed((1.0 - energy / base_energy) * 100.0, 2)), cell(fmt::to_string(frontier.size())));
  }
  return table(input.t_straggler ? "What each planner proposes; waiting for the straggler not counted"
                                 : "What each planner proposes",
               heading("planner", "", true) + heading("time", "s") + heading("slowdown", "%") + heading("energy", "J") +
                   heading("saving", "%") + heading("points", ""),
               body);
}

std::string frontier_table(const ReportInput& input) {
  if (input.planners.empty() || input.planners.front().frontier == nullptr) return "";
  const Frontier& frontier = *input.planners.front().frontier;
  if (frontier.empty()) return "";
  const std::size_t last = frontier.size() - 1;
  const std::size_t least = frontier.least_total_energy();
  const auto selected = input.planners.front().selected;

  std::set<std::size_t> rows{0, last, least};
  if (selected) rows.insert(std::min(*selected, last));
  const Seconds span = frontier.time(last) - frontier.time(0);
  for (std::size_t k = 0; k < kFrontierRows; ++k) {
    rows.insert(
        frontier.lookup(to_nanoseconds(frontier.time(0) + span * (static_cast<double>(k) / (kFrontierRows - 1.0)))));
  }
  const double base_time = seconds(input.baseline);
  const double base_energy = (input.baseline.energy.computation + input.baseline.energy.blocking).value();
  std::string body;
  for (const std::size_t i : rows) {
    const double energy = frontier.energy(i).value();
    const double bound = frontier.lower_bound(i).value();
    std::vector<std::string> marks;
    if (selected && i == *selected) marks.emplace_back("chosen");
    if (i == 0) marks.emplace_back("fastest");
    if (i == least) marks.emplace_back("least total energy");
    if (i == last) marks.emplace_back("T*");
    body += fmt::format(
        "<tr{}>{}{}{}{}{}{}<td class=\"left\">{}</td></tr>\n", selected && i == *selected ? " class=\"selected\"" : "",
        cell(format_fixed(frontier.time(i).value(), 4)), cell(percent_change(frontier.time(i).value(), base_time)),
        cell(grouped_number(energy, 1)), cell(format_fixed((1.0 - energy / base_energy) * 100.0, 2)),
        cell(grouped_number(bound, 1)), cell(format_fixed((energy / bound - 1.0) * 100.0, 3)),
        escape_markup(fmt::format("{}", fmt::join(marks, ", "))));
  }
  return table(fmt::format("{} of {} points of the frontier of {}; energy includes blocking, not a straggler's wait",
                           rows.size(), frontier.size(), input.planners.front().name),
               heading("time", "s") + heading("slowdown", "%") + heading("energy", "J") + heading("saving", "%") +
                   heading("lower bound", "J") + heading("gap", "%") + heading("", "", true),
               body);
}

std::string clock_table(const ReportInput& input) {
  struct Row {
    std::vector<double> clocks;
    Seconds time;
    Joules energy;
  };
  const RealisedPlan& plan = input.chosen;
  const ComputationDag& dag = *plan.dag;
  std::map<std::int32_t, Row> by_type;
  double lowest = 1e12;
  double highest = 0.0;
  for (int i = 0; i < dag.size(); ++i) {
    const OperationType& type = dag.type_of(i);
    if (type.options.size() < 2) continue;
    Row& row = by_type[dag[i].type];
    const ClockOption& option = option_of(plan, i);
    row.clocks.push_back(option.frequency.value());
    row.time += option.time;
    row.energy += option.energy;
    lowest = std::min(lowest, option.frequency.value());
    highest = std::max(highest, option.frequency.value());
  }
  std::string body;
  for (const std::size_t k : types_with_choice(dag)) {
    const auto found = by_type.find(static_cast<std::int32_t>(k));
    if (found == by_type.end()) continue;
    Row& row = found->second;
    std::sort(row.clocks.begin(), row.clocks.end());
    std::map<double, int> counts;
    for (const double clock : row.clocks) ++counts[clock];
    const auto n = static_cast<double>(row.clocks.size());
    const OperationType& type = dag.types()[k];
    body += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"left\">{}</td>{}{}{}{}{}{}<td>{}</td></tr>\n",
                        type.stage, escape_markup(type.instruction), cell(fmt::to_string(row.clocks.size())),
                        cell(short_number(row.clocks.front())), cell(short_number(row.clocks[row.clocks.size() / 2])),
                        cell(short_number(row.clocks.back())), cell(short_number(row.time.value() / n * 1e3)),
                        cell(short_number((row.energy / row.time).value())), clock_bars(counts, lowest, highest));
  }
  return table(
      fmt::format("Clocks of the chosen plan; bars from {} to {} MHz", short_number(lowest), short_number(highest)),
      heading("stage", "") + heading("instruction", "", true) + heading("operations", "") + heading("lowest", "MHz") +
          heading("median", "MHz") + heading("highest", "MHz") + heading("mean time", "ms") +
          heading("mean power", "W") + heading("distribution", "", true),
      body);
}

std::string summary_table(const ReportInput& input) {
  if (input.summary.empty()) return "";
  std::string body;
  for (const SummaryRow& row : input.summary) {
    body += fmt::format("<tr><th scope=\"row\" class=\"left\">{}{}</th>{}</tr>\n", escape_markup(row.label),
                        row.unit.empty() ? "" : fmt::format(" ({})", escape_markup(row.unit)), cell(row.value));
  }
  return table("Further figures", heading("", "", true) + heading("value", ""), body);
}

}  // namespace flyball
