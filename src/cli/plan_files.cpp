// The files are rendered to text before the first is written, so that an error in between leaves the folder as it was.
// Only a whole set of Zeus files, which may not fit into memory, is rendered while it is written. The report is last.
#include "cli/plan_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "cli/plan_output.h"
#include "draw/text_table.h"
#include "plan/plan_file.h"
#include "plan/stage_clock.h"
#include "plan/zeus_frequencies.h"
#include "report/report.h"
#include "report/timeline_trace.h"

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
    input.chosen.plan = switching.plan;
    input.chosen.durations = switching.run.durations;
    input.chosen.makespan = switching.run.makespan;
    input.chosen.energy = switching.run.energy;
    const Nanoseconds wait = std::max<Nanoseconds>(0, straggler - switching.run.makespan);
    input.chosen.energy.straggler_wait = switching.run.straggler_power * to_seconds(wait);
  }
  // The curve takes every change to hold at once. What it leaves out lasts for a latency after each change.
  const int copies = pipeline.spec.data_parallel * pipeline.spec.tensor_parallel;
  const auto curve = [&](const RealisedPlan& plan) {
    return power_curve(*plan.dag, plan.plan, pipeline.problem.blocking, copies, straggler);
  };
  input.power = JobPower{curve(input.baseline), curve(input.chosen), std::nullopt, copies};
  if (main.power) input.power->limit = main.power->limits.peak;
  for (const PlannerRun& run : runs) {
    input.planners.push_back(
        {run.summary.planner, &run.result.dag_of(pipeline.problem), &run.result.frontier, run.summary.selected_point});
  }
  input.lower_bound = bound_points(main.result.frontier);
  input.t_min = summary.t_min;
  input.t_star = summary.t_star;
  input.t_least_total = summary.t_least_total;
  input.t_straggler = summary.straggler_time;
  input.slower_is_dearer = summary.limit == PaceLimit::kLeastEnergy;
  input.summary = {{"Saving", format_fixed(summary.selected.saving_pct, 2), "%"},
                   {"Saving to expect", expected_saving_text(main), main.expected ? "%" : ""},
                   {"Slowdown", format_fixed(summary.selected.slowdown_pct, 2), "%"},
                   {"Over the lower bound", format_fixed(summary.selected.gap_pct, 3), "%"},
                   {"Clock switches per iteration", fmt::to_string(summary.selected.switches), ""},
                   {"Plans on the frontier", fmt::to_string(main.result.frontier.size()), ""},
                   {"Computations", fmt::to_string(pipeline.dag.size()), ""}};
  input.commands = {command};
  return input;
}

// Whether the name has only a number between `begin` and `end`, as zeus_file_name() puts one between "freqs_pipeline_"
// and ".py".
bool is_numbered(const std::string& name, std::string_view begin, std::string_view end) {
  if (name.size() <= begin.size() + end.size() || !name.starts_with(begin) || !name.ends_with(end)) return false;
  return std::all_of(name.begin() + static_cast<std::ptrdiff_t>(begin.size()),
                     name.end() - static_cast<std::ptrdiff_t>(end.size()), [](char c) { return c >= '0' && c <= '9'; });
}

// Removes the files that an earlier run may have written and this one may not write again. They would be taken for this
// run's plans.
void remove_stale_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> stale{folder / "plan-switching.json", folder / "in-flight.svg"};
  std::error_code code;
  const auto add = [&](const std::filesystem::path& in, std::string_view begin, std::string_view ending) {
    for (std::filesystem::directory_iterator entry(in, code), end; !code && entry != end; entry.increment(code)) {
      if (is_numbered(entry->path().filename().string(), begin, ending)) stale.push_back(entry->path());
    }
  };
  add(folder / "zeus", "freqs_pipeline_", ".py");
  add(folder / "zeus", "scheds_pipeline_", ".py");
  add(folder, "plan-budget-", ".json");
  for (const std::filesystem::path& path : stale) {
    if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(path, code))) continue;
    if (!std::filesystem::remove(path, code) && code) {
      throw SystemError(fmt::format("cannot remove {} of an earlier run: {}", path.string(), code.message()));
    }
  }
}

struct RenderedFile {
  WrittenFile file;
  std::string text;
};

}  // namespace

std::vector<WrittenFile> write_plan_files(const std::filesystem::path& folder, const LoadedPipeline& pipeline,
                                          const std::vector<PlannerRun>& runs, ZeusFiles zeus,
                                          const std::string& command) {
  const PlannerRun& main = runs.front();
  const Frontier& frontier = main.result.frontier;
  const std::size_t selected = main.summary.selected_point;
  const ReportInput input = report_input(pipeline, runs, command);
  std::vector<RenderedFile> rendered;
  const auto render = [&](const std::string& name, const std::string& what, std::string text) {
    rendered.push_back({{name, what}, std::move(text)});
  };
  const ComputationDag& dag = main.result.dag_of(pipeline.problem);
  const std::string source = std::filesystem::path(pipeline.profile.source).filename().string();
  const std::string schedule(pipeline.spec.dag_file.empty() ? schedule_name(pipeline.spec.schedule) : "");
  render("report.html", "open this: timelines, frontier, costs", html_report(input));
  render("plan.json", "the clock of every computation at every point",
         write_plan_json({main.summary.planner, source, schedule, selected}, dag, pipeline.problem.blocking, frontier));
  if (main.switching) {
    Frontier reduced(frontier.total_blocking());
    reduced.add(replay(dag, pipeline.problem.blocking, main.switching->plan), main.switching->plan);
    reduced.finish();
    render("plan-switching.json", "the chosen plan with clock changes reduced",
           write_plan_json({main.summary.planner, source, schedule, 0}, dag, pipeline.problem.blocking, reduced));
  }
  std::size_t next = 0;
  for (const BudgetedPlan& one : main.budget) {
    if (one.number < next) continue;  // it is the plan of an earlier period, too
    next = one.number + 1;
    Frontier only(frontier.total_blocking());
    only.add(one.point, one.plan);
    only.finish();
    render(fmt::format("plan-budget-{}.json", one.number), fmt::format("the plan from {} on", one.period.from),
           write_plan_json({main.summary.planner, source, schedule, 0}, dag, pipeline.problem.blocking, only));
  }
  render("summary.json", "the figures above and the frontier", plan_results_json(pipeline, runs, false));
  for (PictureFile& picture : picture_files(input)) render(picture.name, picture.what, std::move(picture.svg));
  render("timeline.trace.json", "the timelines for ui.perfetto.dev", timeline_trace(input));
  if (zeus == ZeusFiles::kSelected) {
    // The file is numbered as in the whole set, slowest first.
    const std::size_t number = frontier.size() - 1 - selected;
    const std::string comment =
        fmt::format("{} s, {} J", to_seconds(input.chosen.makespan).value(), input.chosen.energy.total().value());
    render("zeus/" + zeus_file_name(number), "the chosen plan for Zeus",
           zeus_frequencies(dag, input.chosen.plan, comment));
    if (announces_labels(dag)) {
      render("zeus/" + kareus_file_name(number), "its labels, as Kareus reads them",
             kareus_schedules(dag, input.chosen.plan, comment));
    }
  }

  remove_stale_files(folder);
  std::vector<WrittenFile> files;
  for (const RenderedFile& one : rendered) {
    if (&one != &rendered.front()) write_text_file(folder / one.file.name, one.text);
    files.push_back(one.file);
  }
  if (zeus == ZeusFiles::kAll) {  // written as they are rendered: all at once may not fit into memory
    const std::size_t count = write_zeus_files(folder / "zeus", dag, frontier);
    files.push_back({"zeus/", fmt::format("{} plans for Zeus{}", count,
                                          announces_labels(dag) ? ", and their labels as Kareus reads them" : "")});
  }
  // The report comes last: whoever finds it finds the rest.
  write_text_file(folder / rendered.front().file.name, rendered.front().text);
  return files;
}

}  // namespace flyball
