// Puts a simulated cluster's figures and pictures into one page.
#include "report/cluster_report.h"

#include <fmt/format.h>

#include "draw/html_page.h"
#include "draw/scale.h"
#include "draw/text_table.h"

namespace flyball {
namespace {

constexpr std::string_view kClusterWords = R"(<h2>Words</h2>
<dl>
<dt>job completion time</dt><dd>JCT: from a job's submission to its end, waiting included</dd>
<dt>limit</dt><dd>what the running jobs may draw together; GPUs without a job draw their idle power on top of it, and
those of nodes that are off nothing</dd>
<dt>profiled</dt><dd>a job trains while it is measured at a number of GPUs that its kind has not had before</dd>
<dt>restarts</dt><dd>a job's GPUs changed, moved, or came back after a wait: it is stored and started again</dd>
</dl>
)";

}  // namespace

std::vector<ClusterFigure> cluster_figures(const SimulationResult& result) {
  return {{"average JCT", result.avg_jct_s, 1, "s"},
          {"median JCT", result.p50_jct_s, 1, "s"},
          {"99th percentile JCT", result.p99_jct_s, 1, "s"},
          {"makespan", result.makespan_s, 0, "s"},
          {"energy of all GPUs", result.energy_j / 1e6, 3, "MJ"},
          {"  of it while profiling", result.profiling_energy_j / 1e6, 3, "MJ"},
          {"average power", result.avg_power_w, 0, "W"},
          {"peak power", result.peak_power_w, 0, "W"},
          {"GPU utilisation", 100.0 * result.gpu_utilisation, 1, "%"},
          {"restarts and migrations", static_cast<double>(result.migrations), 0, ""},
          {"decisions", static_cast<double>(result.decisions), 0, ""}};
}

std::string cluster_html(const ClusterReport& report) {
  const SimulationResult result = report.simulation.result();
  const ClusterState& state = report.simulation.state();
  HtmlTable figures({"", "Value", "Unit"});
  for (const ClusterFigure& one : cluster_figures(result)) {
    figures.row({one.name, grouped_number(one.value, one.decimals), one.unit});
  }
  std::string body = figures.str();
  body +=
      "<h2>Power and GPUs over time</h2>\n<p>Since the first submission. Drag over a chart to see less of the time in "
      "all of them; a double click shows all of it again.</p>\n";
  body += time_charts(usage_charts(report));
  body += "<h2>Job completion times</h2>\n" + in_both_widths([&](int width) { return jct_picture(report, width); });
  body += "<h2>Jobs</h2>\n";
  const std::size_t step = shown_job_step(state.jobs.size());
  body += step == 1 ? "<p>A row per job.</p>\n"
                    : fmt::format("<p>A row for one job of {}; jobs.csv has them all.</p>\n", step);
  body += in_both_widths([&](int width) { return job_picture(report, width); });
  return html_document(
      {.title = fmt::format("Simulated cluster: {} x {} {}, jobs: {}", state.spec.nodes, state.spec.gpus_per_node,
                            state.spec.gpu, result.jobs),
       .headline =
           fmt::format("<strong>{}</strong>: average completion time <strong>{}&nbsp;s</strong>, "
                       "<strong>{}&nbsp;MJ</strong>, GPUs {}&nbsp;% in use.",
                       escape_markup(result.policy), grouped_number(result.avg_jct_s, 0),
                       grouped_number(result.energy_j / 1e6, 1), format_fixed(100.0 * result.gpu_utilisation, 1)),
       .body = std::move(body),
       .commands = report.command.empty() ? std::vector<std::string>{} : std::vector<std::string>{report.command},
       .closing = std::string(kClusterWords),
       .files = time_chart_files()});
}

}  // namespace flyball
