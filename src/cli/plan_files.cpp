#include "cli/plan_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "cli/plan_output.h"
#include "plan/stage_clock.h"
#include "report/plan_json.h"
#include "report/report.h"
#include "report/text_table.h"
#include "report/zeus_export.h"

namespace flyball {
namespace {

Nanoseconds straggler_nanoseconds(const PlanSummary& summary) {
  return summary.straggler_time ? to_nanoseconds(*summary.straggler_time) : 0;
}

std::vector<BoundPoint> bound_points(const Frontier& frontier) {
  std::vector<BoundPoint> points;
  for (std::size_t i = 0; i < frontier.size(); ++i) points.push_back({frontier.time(i), frontier.lower_bound(i)});
  return points;
}

ReportInput report_input(const LoadedPipeline& pipeline, const std::vector<PlannerRun>& runs,
                         const std::string& command) {
  const PlannerRun& main = runs.front();
  const PlanSummary& summary = main.summary;
  const Nanoseconds straggler = straggler_nanoseconds(summary);
  ReportInput input;
  input.title = pipeline.title();
  input.problem = &pipeline.problem;
  input.baseline = realise_plan("all-maximum clocks", pipeline.dag, max_clock_plan(pipeline.problem),
                                pipeline.problem.blocking, straggler);
  input.chosen = realise_plan(summary.planner, main.result.dag_of(pipeline.problem),
                              main.result.frontier.plan(summary.selected_point), pipeline.problem.blocking, straggler);
  if (main.switching) {
    const SwitchingFigures& switching = *main.switching;
    input.chosen.plan = switching.reduced_plan;
    input.chosen.durations = switching.reduced_run.durations;
    input.chosen.makespan = switching.reduced_run.makespan;
    input.chosen.energy = switching.reduced_run.energy;
    const Nanoseconds wait = std::max<Nanoseconds>(0, straggler - switching.reduced_run.makespan);
    input.chosen.energy.straggler_wait = pipeline.problem.total_blocking() * to_seconds(wait);
  }
  for (const PlannerRun& run : runs) {
    input.planners.push_back({run.summary.planner, &run.result.frontier, run.summary.selected_point});
  }
  input.lower_bound = bound_points(main.result.frontier);
  input.t_min = summary.t_min;
  input.t_star = summary.t_star;
  input.t_least_total = summary.t_least_total;
  input.t_straggler = summary.straggler_time;
  input.summary = {{"Saving", format_fixed(summary.selected.saving_pct, 2), "%"},
                   {"Slowdown", format_fixed(summary.selected.slowdown_pct, 2), "%"},
                   {"Over the lower bound", format_fixed(summary.selected.gap_pct, 3), "%"},
                   {"Clock switches per iteration", fmt::to_string(summary.selected.switches), ""},
                   {"Plans on the frontier", fmt::to_string(main.result.frontier.size()), ""},
                   {"Computations", fmt::to_string(pipeline.dag.size()), ""}};
  input.commands = {command};
  return input;
}

}  // namespace

std::vector<WrittenFile> write_plan_files(const std::filesystem::path& folder, const LoadedPipeline& pipeline,
                                          const std::vector<PlannerRun>& runs, ZeusFiles zeus,
                                          const std::string& command) {
  const PlannerRun& main = runs.front();
  const Frontier& frontier = main.result.frontier;
  const std::size_t selected = main.summary.selected_point;
  const ReportInput input = report_input(pipeline, runs, command);
  std::vector<WrittenFile> files;
  const auto write = [&](const std::string& name, const std::string& what, const std::string& text) {
    write_text_file(folder / name, text);
    files.push_back({name, what});
  };
  const ComputationDag& dag = main.result.dag_of(pipeline.problem);
  const std::string source = std::filesystem::path(pipeline.profile.source).filename().string();
  const std::string schedule(pipeline.spec.dag_file.empty() ? schedule_name(pipeline.spec.schedule) : "");
  write("report.html", "open this: timelines, frontier, costs", html_report(input));
  write("plan.json", "the clock of every computation at every point",
        write_plan_json({main.summary.planner, source, schedule, selected}, dag, pipeline.problem.blocking, frontier));
  if (main.switching) {
    Frontier reduced(frontier.total_blocking());
    reduced.add(replay(dag, pipeline.problem.blocking, main.switching->reduced_plan), main.switching->reduced_plan);
    reduced.finish();
    write("plan-switching.json", "the chosen plan with clock changes reduced",
          write_plan_json({main.summary.planner, source, schedule, 0}, dag, pipeline.problem.blocking, reduced));
  }
  write("summary.json", "the figures above and the frontier", plan_results_json(runs, false));
  write("timeline.svg", "the iteration before and after", timeline_svg(input));
  write("frontier.svg", "time against energy, every planner", frontier_svg(input));
  write("cost-curves.svg", "the measurements and what the planner sees", cost_curve_svg(input));
  if (zeus == ZeusFiles::kAll) {
    const std::size_t count = write_zeus_files(folder / "zeus", dag, frontier);
    files.push_back({"zeus/", fmt::format("{} plans for Zeus", count)});
  } else if (zeus == ZeusFiles::kSelected) {
    // Numbered as in the whole set, slowest first.
    const std::string name = "zeus/" + zeus_file_name(frontier.size() - 1 - selected);
    write(name, "the chosen plan for Zeus",
          zeus_frequencies(dag, input.chosen.plan,
                           fmt::format("{} s, {} J", to_seconds(input.chosen.makespan).value(),
                                       input.chosen.energy.total().value())));
  }
  return files;
}

}  // namespace flyball
