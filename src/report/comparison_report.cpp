// Puts compared policies into one page: headline, tables and the pictures of usage and completion times.
#include "report/comparison_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "draw/html_page.h"
#include "draw/palette.h"
#include "draw/scale.h"
#include "draw/text_table.h"
#include "report/cluster_picture.h"
#include "report/history_axis.h"

namespace flyball {
namespace {

constexpr std::string_view kComparisonWords = R"(<h2>Words</h2>
<dl>
<dt>job completion time</dt><dd>JCT: from a job's submission to its end, waiting included</dd>
<dt>JCT at equal energy</dt><dd>the run's average JCT over what the reference reaches with that run's energy, on the
line between its two nearest runs; of a run that takes more energy than the reference's fastest, over that one's</dd>
<dt>eta</dt><dd>the power budget, over that of all GPUs busy at the highest clock; only policies that are listed with
one keep to it</dd>
<dt>Zeus eta</dt><dd>what energy counts against time where Zeus chooses the clocks</dd>
</dl>
)";

std::string run_name(const ComparedRun& run) { return fmt::format("{}, {}", run.policy, setting_text(run)); }

std::string table_of(const std::vector<ComparedRun>& runs) {
  const ComparedRun& reference = reference_run(runs);
  const std::string unit = fmt::format("<small>x {}</small>", escape_markup(reference.policy));
  HtmlTable table({"policy", "setting", "average JCT<small>s</small>", "99 % JCT<small>s</small>",
                   "makespan<small>s</small>", "energy<small>MJ</small>", "GPUs in use<small>%</small>",
                   "JCT at equal energy" + unit});
  for (const ComparedRun& run : runs) {
    const SimulationResult& result = run.result;
    const auto ratio = jct_ratio_at_equal_energy(runs, run);
    table.row({escape_markup(run.policy), setting_text(run), grouped_number(result.avg_jct_s, 0),
               grouped_number(result.p99_jct_s, 0), grouped_number(result.makespan_s, 0),
               grouped_number(result.energy_j / 1e6, 1), format_fixed(100.0 * result.gpu_utilisation, 1),
               ratio ? format_fixed(*ratio, 2) : ""});
  }
  return table.str();
}

// For a policy that has runs at the reference's energy: the least and the largest of its JCTs over the reference's.
struct Behind {
  std::string policy;
  double least;
  double most;
};

std::vector<Behind> behind_reference(const std::vector<ComparedRun>& runs) {
  std::vector<Behind> list;
  for (const ComparedRun& run : runs) {
    const auto ratio = jct_ratio_at_equal_energy(runs, run);
    if (!ratio || run.policy == reference_run(runs).policy) continue;
    if (list.empty() || list.back().policy != run.policy) list.push_back({run.policy, *ratio, *ratio});
    list.back().least = std::min(list.back().least, *ratio);
    list.back().most = std::max(list.back().most, *ratio);
  }
  return list;
}

std::string headline_of(const std::vector<ComparedRun>& runs) {
  const ComparedRun& reference = reference_run(runs);
  const std::vector<Behind> behind = behind_reference(runs);
  if (behind.empty()) {
    return fmt::format(
        "<strong>{}</strong>: average completion time <strong>{}&nbsp;s</strong>, "
        "<strong>{}&nbsp;MJ</strong>.",
        escape_markup(run_name(reference)), grouped_number(reference.result.avg_jct_s, 0),
        grouped_number(reference.result.energy_j / 1e6, 1));
  }
  const auto by_least = [](const Behind& a, const Behind& b) { return a.least < b.least; };
  const auto by_most = [](const Behind& a, const Behind& b) { return a.most < b.most; };
  const std::string least = format_fixed(std::min_element(behind.begin(), behind.end(), by_least)->least, 2);
  const std::string most = format_fixed(std::max_element(behind.begin(), behind.end(), by_most)->most, 2);
  return fmt::format(
      "At equal energy, jobs take <strong>{}</strong> times as long on average under {} as under <strong>{}</strong>.",
      least == most ? least : fmt::format("{} to {}", least, most),
      behind.size() == 1 ? escape_markup(behind.front().policy) : fmt::format("{} other policies", behind.size()),
      escape_markup(reference.policy));
}

std::string behind_table(const std::vector<ComparedRun>& runs) {
  const std::vector<Behind> behind = behind_reference(runs);
  if (behind.empty()) return "";
  HtmlTable table(
      {"JCT at equal energy<small>x " + escape_markup(reference_run(runs).policy) + "</small>", "least", "most"});
  for (const Behind& one : behind) {
    table.row({escape_markup(one.policy), format_fixed(one.least, 2), format_fixed(one.most, 2)});
  }
  return table.str();
}

// The power that all jobs of a run may draw together, in W: that of the first run with a budget where this one has
// none, so that all can be held against one. None where no run has a budget.
std::optional<double> limit_w(const ComparedRun& run, const std::vector<const ComparedRun*>& runs,
                              const ClusterSpec& spec) {
  const auto has_budget = [](const ComparedRun* one) { return one->setting == PolicySetting::kBudget; };
  const auto first = std::find_if(runs.begin(), runs.end(), has_budget);
  if (first == runs.end()) return std::nullopt;
  return (has_budget(&run) ? run.value : (*first)->value) * spec.gpus() * spec.p_max.value();
}

}  // namespace

TimeCharts policy_usage_charts(const std::vector<const ComparedRun*>& runs, const ClusterSpec& spec) {
  Seconds begin = runs.front()->usage.front().at;
  Seconds end = begin;
  double most_w = 0.0;
  for (const ComparedRun* run : runs) {
    begin = std::min(begin, run->usage.front().at);
    end = std::max(end, run->usage.back().at);
    for (const ClusterPower& sample : run->usage) most_w = std::max(most_w, sample.power.value());
    most_w = std::max(most_w, limit_w(*run, runs, spec).value_or(0.0));
  }
  constexpr double kAbove = 1.08;
  TimeCharts charts{.unit = "h", .lines = {}, .charts = {}, .in_pairs = true};
  for (const ComparedRun* run : runs) {
    const std::size_t gpus = charts.lines.size();
    const Seconds last = run->usage.back().at;
    charts.lines.push_back(mean_steps(run->usage, begin, last, [](const ClusterPower& s) { return double(s.gpus); }));
    charts.lines.push_back(mean_steps(run->usage, begin, last, [](const ClusterPower& s) { return s.power.value(); }));
    TimeChart in_use{run_name(*run) + ": GPUs in use", "", kAbove * spec.gpus(), {}};
    TimeChart power{run_name(*run) + ": power of all GPUs", "W", kAbove * most_w, {}};
    in_use.series.push_back({.label = run->policy, .colour = "--p0", .line = gpus});
    power.series.push_back({.label = run->policy, .colour = "--p0", .line = gpus + 1});
    if (run != runs.front()) {
      in_use.series.push_back({.label = runs.front()->policy, .colour = "--p6", .line = 0});
      power.series.push_back({.label = runs.front()->policy, .colour = "--p6", .line = 1});
    }
    if (const auto limit = limit_w(*run, runs, spec)) {
      power.series.push_back({.label = "limit", .colour = "--ink", .line = charts.lines.size(), .dashed = true});
      charts.lines.push_back({{0.0, hours(end - begin)}, {limit}});
    }
    charts.charts.push_back(std::move(in_use));
    charts.charts.push_back(std::move(power));
  }
  return charts;
}

SvgCanvas policy_jct_picture(const std::vector<const ComparedRun*>& runs, int width) {
  constexpr double kPlot = 300.0;
  constexpr double kLeft = 58.0;
  constexpr double kRight = 26.0;
  double least = runs.front()->jcts_s.front();
  double most = least;
  std::vector<std::pair<std::string, std::string>> entries;
  for (const ComparedRun* run : runs) {
    least = std::min(least, run->jcts_s.front());
    most = std::max(most, run->jcts_s.back());
    entries.emplace_back(fmt::format("f{}", entries.size() % kPlannerClasses), run_name(*run));
  }
  SvgCanvas measure(width, 1.0, "");
  const double top = draw_legend(measure, entries, kLeft, 8.0, width - kRight) + 10.0;
  SvgCanvas svg(width, top + kPlot + 48.0, "Distribution of job completion times, by policy");
  draw_legend(svg, entries, kLeft, 8.0, width - kRight);
  const LinearScale x = jct_scale(least, most, kLeft, width - kRight);
  const LinearScale y{0.0, 100.0, top + kPlot, top};
  draw_jct_axes(svg, x, y);
  // The reference is the first run, and is drawn last, over the others.
  for (std::size_t k = runs.size(); k-- > 0;) {
    svg.polyline(jct_line(runs[k]->jcts_s, x, y), fmt::format("curve s{}", k % kPlannerClasses));
  }
  return svg;
}

std::string comparison_html(const ComparisonReport& report) {
  const ComparedRun& reference = reference_run(report.runs);
  const std::vector<const ComparedRun*> alike = runs_of_like_energy(report.runs);
  const auto [least, most] = std::minmax_element(
      alike.begin(), alike.end(), [](const auto* a, const auto* b) { return a->result.energy_j < b->result.energy_j; });
  const std::string energies = alike.size() == 1
                                   ? fmt::format("{} MJ", grouped_number((*least)->result.energy_j / 1e6, 0))
                                   : fmt::format("{} to {} MJ", grouped_number((*least)->result.energy_j / 1e6, 0),
                                                 grouped_number((*most)->result.energy_j / 1e6, 0));
  std::string body = "<h2>Completion time against energy</h2>\n";
  body += in_both_widths([&](int width) { return jct_energy_picture(report.runs, width); });
  body += behind_table(report.runs);
  body += fmt::format(
      "<h2>GPUs in use and power over time</h2>\n<p>Of each policy the run whose energy is nearest to that of the "
      "others: {}, with that of the first behind it. The limit of a policy without one is that of the first that has "
      "one. Drag over a chart to see less of the time in all of them; a double click shows all of it again.</p>\n",
      energies);
  body += time_charts(policy_usage_charts(alike, report.spec));
  body += "<h2>Job completion times</h2>\n<p>The same runs.</p>\n";
  body += in_both_widths([&](int width) { return policy_jct_picture(alike, width); });
  body += "<h2>All runs</h2>\n" + table_of(report.runs);
  return html_document(
      {.title = fmt::format("Policies compared: {} x {} {}, jobs: {}", report.spec.nodes, report.spec.gpus_per_node,
                            report.spec.gpu, reference.result.jobs),
       .headline = headline_of(report.runs),
       .body = std::move(body),
       .commands = report.command.empty() ? std::vector<std::string>{} : std::vector<std::string>{report.command},
       .closing = std::string(kComparisonWords),
       .files = time_chart_files()});
}

}  // namespace flyball
