// flyball emulate: what planning saves over a whole job of many pipelines, and from which bloat (Perseus section 6.3);
// with --against, what an emulated iteration is worth beside recorded ones.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/against.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/option_values.h"
#include "cli/pipeline_options.h"
#include "cli/planning_run.h"
#include "draw/text_table.h"
#include "plan/plan_to_run.h"
#include "plan/stage_clock.h"
#include "plan/straggler.h"
#include "replay/recorded_runs.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

// What is left beyond an emulated time for a session's promise, as `plan_time_ratio`: to the third digit.
constexpr double kPromiseMargin = 5e-4;

struct EmulateOptions {
  PipelineOptions pipeline;
  std::optional<int> pipelines;
  std::optional<std::vector<double>> stragglers;
  std::optional<std::string> planner;
  std::optional<std::string> plan;
  std::optional<std::string> against;
  std::vector<std::string> fitted_to;
  std::vector<std::string> also_fitted_to;
  std::optional<std::string> format;
};

struct Emulation {
  double degree = 1.0;
  JobEmulation job;
};

Json split_json(const BloatSplit& split) {
  // Adding 0.0 turns -0 into 0.
  return {{"baseline", split.baseline.value()},
          {"intrinsic", split.intrinsic.value()},
          {"extrinsic", split.extrinsic.value()},
          {"planned", split.planned().value()},
          {"saving_pct", split.saving_pct() + 0.0}};
}

std::string emulation_json(const PlannerRun& run, JobShape shape, const std::vector<Emulation>& emulations) {
  Json list = Json::array();
  for (const auto& [degree, job] : emulations) {
    const BloatBreakdown& one = job.pipeline;
    list.push_back({{"straggler", degree},
                    {"t_straggler", to_seconds(one.straggler_time).value()},
                    {"t_opt", run.result.frontier.time(one.point).value()},
                    {"pipeline", split_json(one)},
                    {"job", split_json(job)}});
  }
  const Json json = {{"planner", run.summary.planner},
                     {"pipelines", shape.pipelines},
                     {"tensor_parallel", shape.tensor_parallel},
                     {"gpus", emulations.front().job.gpus},
                     {"t_min", run.summary.t_min.value()},
                     {"t_star", run.summary.t_star.value()},
                     {"emulations", std::move(list)}};
  return json.dump(2) + "\n";
}

std::string emulation_text(const LoadedPipeline& pipeline, const PlannerRun& run, JobShape shape,
                           const std::vector<Emulation>& emulations) {
  TextTable one({"straggler", "T' s", "T_opt s", "max clocks J", "intrinsic %", "extrinsic %", "saving %"});
  TextTable all({"straggler", "max clocks kJ", "intrinsic kJ", "extrinsic kJ", "planned kJ", "saving %"});
  const auto kilojoules = [](Joules energy) { return format_fixed(energy.value() * 1e-3, 3); };
  for (const auto& [degree, job] : emulations) {
    const BloatBreakdown& own = job.pipeline;
    const std::string label = degree > 1.0 ? fmt::format("{:g}", degree) : "none";
    one.add_row({label, format_fixed(to_seconds(own.straggler_time).value(), 4),
                 format_fixed(run.result.frontier.time(own.point).value(), 4), format_fixed(own.baseline.value(), 1),
                 format_fixed(own.intrinsic_pct(), 2), format_fixed(own.extrinsic_pct(), 2),
                 format_fixed(own.saving_pct(), 2)});
    all.add_row({label, kilojoules(job.baseline), kilojoules(job.intrinsic), kilojoules(job.extrinsic),
                 kilojoules(job.planned()), format_fixed(job.saving_pct(), 2)});
  }
  return fmt::format(
      "{}\nT_min {:.4f} s, T* {:.4f} s; energies per iteration, blocking and waiting included\n\n"
      "One planned pipeline, one GPU per stage:\n{}\n"
      "Whole job, {} of {} with {} each ({}),\none pipeline the straggler:\n{}",
      pipeline.title(), run.summary.t_min.value(), run.summary.t_star.value(), one.str(),
      counted(shape.pipelines, "pipeline"), counted(pipeline.dag.stages(), "stage"),
      counted(shape.tensor_parallel, "GPU"), counted(emulations.front().job.gpus, "GPU"), all.str());
}

void run_against(const Command& command, const EmulateOptions& options) {
  constexpr std::array<std::string_view, 5> kAllowed = {"--against", "--fitted-to", "--also-fitted-to", "--schedule",
                                                        "--format"};
  for (const Option& option : command.options()) {
    if (!option.is_given() || std::ranges::find(kAllowed, option.name()) != kAllowed.end()) continue;
    throw UsageError(fmt::format("--against replays recorded runs, which state everything but the schedule; drop {}",
                                 option.name()));
  }
  const InterruptExit exit;
  const ScheduleKind schedule = parse_schedule(options.pipeline.schedule.value_or("1f1b"));
  std::optional<WorkLine> line("replaying recorded runs");
  RecordedRuns runs = read_runs(*options.against);
  const OtherRuns others{read_each(options.fitted_to), read_each(options.also_fitted_to)};
  const Judgement judgement = judge_runs(std::move(runs), others, schedule);
  line.reset();
  print_result(options.format == "json" ? against_json(judgement) : against_text(judgement));
}

struct PlanFigures {
  Seconds time;
  Joules energy;
};

PlanFigures figures_of(const PlanProblem& problem, const ClockPlan& plan) {
  Frontier only(problem.total_blocking());
  only.add(replay(*problem.dag, problem.blocking, plan), plan);
  only.finish();
  return {only.time(0), only.energy(0)};
}

// What a plan from elsewhere takes on the user's own profile.
void run_plan(const Command& command, const EmulateOptions& options) {
  for (const char* name : {"--pipelines", "--straggler", "--planner"}) {
    if (!command.option(name).is_given()) continue;
    throw UsageError(fmt::format("--plan emulates one plan of one pipeline; drop {}", name));
  }
  const InterruptGuard guard;
  PlanToRun plan = read_plan_to_run(std::filesystem::path(*options.plan));
  const auto pipeline = load_pipeline(options.pipeline, guard);
  std::optional<WorkLine> line("emulating the plan");
  const PlanProblem& problem = pipeline->problem;
  if (pipeline->spec.dag_file.empty()) {
    PipelineSpec job = pipeline->spec;
    job.stages = pipeline->dag.stages();
    fit_to_job(plan, job, {});
  }
  const PlanFigures fast = figures_of(problem, max_clock_plan(problem));
  const PlanFigures planned = figures_of(problem, plan_on(plan, pipeline->dag));
  line.reset();
  const double saving_pct = 100.0 * (1.0 - planned.energy / fast.energy);
  const double slower_pct = 100.0 * (planned.time / fast.time - 1.0);
  if (options.format == "json") {
    const auto figures = [](const PlanFigures& of) {
      return Json{{"time_s", of.time.value()}, {"energy_j", of.energy.value()}};
    };
    const Json json = {{"plan", *options.plan},
                       {"max_clocks", figures(fast)},
                       {"planned", figures(planned)},
                       {"saving_pct", saving_pct},
                       {"slower_pct", slower_pct}};
    return print_result(json.dump(2) + "\n");
  }
  TextTable table({"", "time s", "energy J", "saving %", "slower %"});
  table.add_row({"max clocks", format_fixed(fast.time.value(), 4), format_fixed(fast.energy.value(), 1), "-", "-"});
  table.add_row({"the plan", format_fixed(planned.time.value(), 4), format_fixed(planned.energy.value(), 1),
                 format_fixed(saving_pct, 2), format_fixed(slower_pct, 2)});
  std::string text = fmt::format("{}\n{}: energies per iteration, blocking included\n\n{}", pipeline->title(),
                                 *options.plan, table.str());
  if (plan.max_clock_time == Seconds(0) && slower_pct > 100.0 * kPromiseMargin) {
    text += fmt::format("\nThe file promises nothing: a session runs it with plan_time_ratio = {:.3f}.\n",
                        planned.time / fast.time + kPromiseMargin);
  }
  print_result(text);
}

void run_emulate(const Command& command, const EmulateOptions& options) {
  if (options.against) return run_against(command, options);
  if (options.plan) return run_plan(command, options);
  for (const char* name : {"--fitted-to", "--also-fitted-to"}) {
    if (!command.option(name).is_given()) continue;
    throw UsageError(fmt::format("{} says what --against predicts from; add --against RUNS", name));
  }
  if (options.pipeline.profile.empty()) {
    throw UsageError("emulate: PROFILE is required, or --against RUNS\n  see: flyball emulate --help");
  }
  if (options.pipelines && options.pipeline.data_parallel && *options.pipelines != *options.pipeline.data_parallel) {
    throw UsageError("--pipelines and --data-parallel both count the pipelines; give one of them");
  }
  const InterruptGuard guard;
  const auto pipeline = load_pipeline(options.pipeline, guard);
  const JobShape shape{options.pipelines.value_or(pipeline->spec.data_parallel), pipeline->spec.tensor_parallel};
  const PlanProblem& problem = pipeline->problem;
  const std::vector<double> degrees = options.stragglers.value_or(std::vector<double>{1.0});
  PlanningRequest request;
  request.planners = {options.planner.value_or(kMainPlanner)};
  const Seconds t_min = fastest_time(problem);
  for (const double degree : degrees) request.focus.push_back(to_nanoseconds(degree * t_min));
  const auto runs = run_planners(*pipeline, request, guard);
  const FrontierPoint baseline = replay(pipeline->dag, problem.blocking, max_clock_plan(problem));
  std::vector<Emulation> emulations;
  for (const double degree : degrees) {
    emulations.push_back(
        {degree, emulate_job(runs.front().result.frontier, baseline, pipeline->dag.stages(), shape, degree)});
  }
  print_result(options.format == "json" ? emulation_json(runs.front(), shape, emulations)
                                        : emulation_text(*pipeline, runs.front(), shape, emulations));
}

}  // namespace

void add_emulate_command(const Command& program) {
  const Command command =
      program.add_subcommand("emulate", "what planning saves in a job of many pipelines, by kind of energy bloat");
  const auto options = std::make_shared<EmulateOptions>();
  add_pipeline_options(command, options->pipeline);
  command.option("PROFILE").required(false);
  add_value(command, "--pipelines", options->pipelines, parse_count, "N",
            "number of pipelines of the job (the same as --data-parallel)");
  add_value(command, "--straggler", options->stragglers, parse_list(parse_straggler), "FACTOR[,...]",
            "slowdown of one pipeline: at maximum clocks it takes FACTOR times as long as it would otherwise; several "
            "factors make a table (default 1: no straggler)");
  add_choice(command, "--planner", options->planner, planner_names(), "NAME",
             "planner, as for 'flyball plan' (default perseus)");
  add_value(
      command, "--plan", options->plan, parse_path, "FILE",
      "a plan to emulate on this profile, in place of planning: a plan.json, or a list of clocks as Zeus, Perseus "
      "and Kareus have them");
  add_value(command, "--against", options->against, parse_path, "RUNS",
            "recorded runs to replay, in place of a profile; prints predicted beside measured figures");
  command
      .add_option("--fitted-to", options->fitted_to,
                  "with --against: recorded runs to predict from (default: every other point, and the rest is judged); "
                  "several of one pipeline are fitted together")
      .type_name("RUNS")
      .one_value_each();
  command
      .add_option("--also-fitted-to", options->also_fitted_to,
                  "with --against: recorded runs of the same pipeline to predict from besides every other point")
      .type_name("RUNS")
      .one_value_each()
      .excludes("--fitted-to");
  add_format(command, options->format);
  command.footer(
      "Intrinsic bloat is what the fastest plan saves inside a pipeline; extrinsic\n"
      "bloat is what slowing down to T_opt = min(T*, T') saves beyond it while another\n"
      "pipeline sets the pace (Perseus, sections 2 and 6.3).\n\n"
      "Examples:\n"
      "  flyball emulate examples/profiles/bert-1.3b-a100-4stage.csv \\\n"
      "    --microbatches 32 --pipelines 16 --straggler 1.2\n"
      "  flyball emulate examples/profiles/bert-1.3b-a100-4stage.csv \\\n"
      "    --microbatches 32 --pipelines 16 --tensor-parallel 8 \\\n"
      "    --straggler 1,1.05,1.1,1.2,1.5 --format json\n"
      "  flyball emulate examples/profiles/bert-1.3b-a100-4stage.csv \\\n"
      "    --microbatches 32 --plan out/plan.json\n"
      "  flyball emulate --against examples/runs/two-stage\n"
      "  flyball emulate --against examples/runs/two-stage \\\n"
      "    --fitted-to examples/runs/two-stage --format json\n"
      "  flyball emulate --against examples/runs/two-stage \\\n"
      "    --also-fitted-to examples/runs/two-stage-by-stage");
  command.callback([command, options] { run_emulate(command, *options); });
}

}  // namespace flyball
