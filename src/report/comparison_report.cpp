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

// The power that all jobs of a run may draw together, in kW: that of the first run with a budget where this one has
// none, so that all can be held against one. None where no run has a budget.
std::optional<double> limit_kw(const ComparedRun& run, const std::vector<const ComparedRun*>& runs,
                               const ClusterSpec& spec) {
  const auto has_budget = [](const ComparedRun* one) { return one->setting == PolicySetting::kBudget; };
  const auto first = std::find_if(runs.begin(), runs.end(), has_budget);
  if (first == runs.end()) return std::nullopt;
  return (has_budget(&run) ? run.value : (*first)->value) * spec.gpus() * spec.p_max.value() / 1e3;
}

struct UsagePanel {
  std::string name;
  double most;
  std::function<double(const ClusterPower&)> value;
};

}  // namespace

SvgCanvas policy_usage_picture(const std::vector<const ComparedRun*>& runs, const ClusterSpec& spec, int width) {
  constexpr double kTop = 30.0;  // the legend
  constexpr double kName = 20.0;
  constexpr double kStrip = 62.0;
  constexpr double kBelow = 48.0;
  constexpr double kLeft = 44.0;
  constexpr double kRight = 20.0;
  constexpr double kHeading = 24.0;
  const bool beside = width >= 600;
  const double column = beside ? 0.5 * width : width;
  const double block = kHeading + static_cast<double>(runs.size()) * (kName + kStrip) + kBelow;
  SvgCanvas svg(width, kTop + (beside ? block : 2.0 * block), "GPUs in use and power over time, by policy");
  draw_legend(svg, {{"f0", "this policy"}, {"f6", run_name(*runs.front())}}, kLeft, 8.0, width - kRight);

  Seconds begin = runs.front()->usage.front().at;
  Seconds end = begin;
  double most_kw = 0.0;
  for (const ComparedRun* run : runs) {
    begin = std::min(begin, run->usage.front().at);
    end = std::max(end, run->usage.back().at);
    for (const ClusterPower& sample : run->usage) most_kw = std::max(most_kw, sample.power.value() / 1e3);
    most_kw = std::max(most_kw, limit_kw(*run, runs, spec).value_or(0.0));
  }
  const std::array<UsagePanel, 2> quantities{{
      {"GPUs in use", 1.08 * spec.gpus(), [](const ClusterPower& sample) { return double(sample.gpus); }},
      {"power of all GPUs (kW)", 1.08 * most_kw, [](const ClusterPower& s) { return s.power.value() / 1e3; }},
  }};
  for (std::size_t q = 0; q < quantities.size(); ++q) {
    const UsagePanel& quantity = quantities[q];
    const double left = beside ? static_cast<double>(q) * column : 0.0;
    double top = kTop + (beside ? 0.0 : static_cast<double>(q) * block);
    const TimeAxis axis = time_axis(begin, end, left + kLeft, left + column - kRight);
    svg.text(axis.x.low, top + 14.0, quantity.name, "heading");
    top += kHeading;
    const double first = top + kName;
    const double last = top + static_cast<double>(runs.size()) * (kName + kStrip);
    draw_time_axis(svg, axis, first, last, beside ? 8 : 5);
    for (const ComparedRun* run : runs) {
      const LinearScale y{0.0, quantity.most, top + kName + kStrip, top + kName};
      svg.text(axis.x.low, top + kName - 5.0, run_name(*run), "small halo");
      draw_values(svg, axis.x, y, "", 3);
      svg.line(axis.x.low, y.low, axis.x.high, y.low, "axis");
      if (const auto limit = limit_kw(*run, runs, spec); limit && q == 1) {
        svg.line(axis.x.low, y(*limit), axis.x.high, y(*limit), "bound");
      }
      if (run != runs.front()) svg.polyline(mean_line(runs.front()->usage, axis, y, quantity.value), "curve s6");
      svg.polyline(mean_line(run->usage, axis, y, quantity.value), "curve s0");
      top += kName + kStrip;
    }
  }
  return svg;
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
      "others: {}. Dotted: the limit of the jobs' power; of a policy without one, that of the first that has "
      "one.</p>\n",
      energies);
  body += in_both_widths([&](int width) { return policy_usage_picture(alike, report.spec, width); });
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
       .files = {}});
}

}  // namespace flyball
