// flyball plan: from a measured profile to a clock for every computation.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/option_values.h"
#include "cli/pipeline_options.h"
#include "cli/plan_files.h"
#include "cli/plan_output.h"
#include "cli/planning_run.h"
#include "draw/text_table.h"
#include "pipeline/late_clocks.h"
#include "plan/power_budget.h"

namespace flyball {
namespace {

struct PlanOptions {
  PipelineOptions pipeline;
  std::optional<std::string> planner;
  std::optional<std::string> order;
  std::optional<Seconds> target_time;
  std::optional<double> straggler;
  std::optional<LatencyRange> switch_latency;
  std::optional<Seconds> min_dwell;
  std::optional<double> max_power;
  std::optional<double> max_ramp;
  std::optional<Seconds> ramp_window;
  std::optional<std::string> budget;
  std::optional<std::string> out;
  std::optional<std::string> zeus_files;
  std::optional<std::string> format;
};

bool limits_power(const PlanOptions& options) { return options.max_power || options.max_ramp || options.budget; }

// A pipeline that says how many microbatches its stages can hold can run another order than the schedule's.
std::string planner_of(const PlanOptions& options, const std::vector<int>& memory_limit) {
  if (options.planner) return *options.planner;
  if (options.order) return *options.order == "free" ? kFreeOrderPlanner : kMainPlanner;
  const bool needs_fixed = options.budget || options.pipeline.cost_model;
  return memory_limit.empty() || needs_fixed ? kMainPlanner : kFreeOrderPlanner;
}

void refuse_contradictions(const PlanOptions& options) {
  const std::string planner = planner_of(options, {});
  if (options.planner && options.order) {
    throw UsageError("--order chooses between planners perseus (fixed) and joint (free); leave out --planner");
  }
  if (options.target_time && options.straggler) {
    throw UsageError("--target-time and --straggler both set the pace; give one of them");
  }
  if (options.budget && options.max_power) {
    throw UsageError("--budget says what power the job may draw when, and --max-power at all times; give one of them");
  }
  if (limits_power(options) && (options.target_time || options.straggler)) {
    throw UsageError(
        "--max-power, --max-ramp and --budget choose the fastest plan inside; --target-time and --straggler choose by "
        "time. Give one of the two");
  }
  if (limits_power(options) && planner != kMainPlanner && planner != kFreeOrderPlanner) {
    throw UsageError(fmt::format(
        "limits on power are kept by planners perseus and joint; {} chooses its clocks without regard to them",
        planner));
  }
  if (options.budget && planner == kFreeOrderPlanner) {
    throw UsageError(
        "planner joint may find another order for each period of a budget, which a running job cannot change to; use "
        "--budget with --order fixed");
  }
  if (limits_power(options) &&
      (options.min_dwell || (options.switch_latency && options.switch_latency->longest > Seconds(0)))) {
    throw UsageError(
        "the power of a plan whose clock changes are late is not known; leave out the limits on power, or "
        "--switch-latency and --min-dwell");
  }
  if (options.ramp_window && !options.max_ramp) throw UsageError("--ramp-window is for --max-ramp; add that");
  if (options.zeus_files && !options.out) throw UsageError("--zeus-files says which files go to --out DIR; add --out");
  if (options.pipeline.cost_model && planner != kMainPlanner && planner != kAllPlanners) {
    throw UsageError(
        fmt::format("--cost-model is for planner perseus; planner {} uses the measurements themselves", planner));
  }
}

ZeusFiles zeus_choice(const PlanOptions& options) {
  const std::string choice = options.zeus_files.value_or("selected");
  return choice == "all" ? ZeusFiles::kAll : choice == "none" ? ZeusFiles::kNone : ZeusFiles::kSelected;
}

void refuse_missed_target(const PlanSummary& summary, const PlanOptions& options) {
  if (!options.target_time || to_nanoseconds(summary.selected.time) <= to_nanoseconds(*options.target_time)) return;
  throw Error(
      fmt::format("no plan of {} ends within {} s: its fastest takes {:.9g} s\n"
                  "  to mend: ask for a --target-time of at least that",
                  summary.planner, options.target_time->value(), summary.selected.time.value()));
}

std::string files_text(const std::string& folder, const std::vector<WrittenFile>& files) {
  std::size_t width = 0;
  for (const WrittenFile& file : files) width = std::max(width, file.name.size());
  std::string text = fmt::format("\nwritten to {}\n", folder);
  for (const WrittenFile& file : files) text += fmt::format("  {:<{}}  {}\n", file.name, width, file.what);
  return text;
}

// A planner that is asked for by its name plans as its paper does, for which changes are free.
std::optional<SwitchingLimits> switching_limits(const PlanOptions& options, const Profile& profile) {
  const bool asked = options.switch_latency || options.min_dwell;
  if (limits_power(options) || (!asked && options.planner)) return std::nullopt;
  const LatencyRange latency =
      options.switch_latency ? *options.switch_latency : measured_latency(profile).value_or(kUsualLatency);
  const Seconds min_dwell = options.min_dwell.value_or(Seconds(0));
  if (latency.longest == Seconds(0) && min_dwell == Seconds(0)) return std::nullopt;
  return SwitchingLimits{latency.longest, min_dwell, latency.longest - latency.shortest,
                         options.pipeline.clocks_asked.value_or(ClocksAsked::kAtBegin)};
}

void run_plan(const PlanOptions& options, const std::string& command) {
  refuse_contradictions(options);
  const InterruptGuard guard;
  const auto pipeline = load_pipeline(options.pipeline, guard);
  const std::string planner = planner_of(options, pipeline->problem.memory_limit);
  PlanningRequest request;
  request.planners = planners_named(planner);
  request.pace = {options.target_time, options.straggler};
  request.switching = switching_limits(options, pipeline->profile);
  request.look_at_order = !options.planner && !options.order && planner == kMainPlanner && !limits_power(options) &&
                          pipeline->problem.memory_limit.empty();
  if (limits_power(options)) {
    PowerRequest& power = request.power.emplace();
    if (options.budget) power.budget = read_power_budget_file(*options.budget);
    if (options.max_power) power.limits.peak = Watts(*options.max_power);
    power.limits.ramp_w_per_s = options.max_ramp;
    power.limits.ramp_window = options.ramp_window.value_or(power.limits.ramp_window);
  }
  const auto whole = load_whole_backwards(*pipeline, options.pipeline);
  if (whole) request.whole_backwards = &whole->problem;
  const auto runs = run_planners(*pipeline, request, guard);
  refuse_missed_target(runs.front().summary, options);
  std::vector<WrittenFile> files;
  if (options.out) files = write_plan_files(*options.out, *pipeline, runs, zeus_choice(options), command);
  if (options.format == "json") return print_result(plan_results_json(*pipeline, runs, true));
  print_result(plan_results_text(*pipeline, runs) + (files.empty() ? "" : files_text(*options.out, files)));
}

std::vector<std::string> planner_choices() {
  std::vector<std::string> names = planner_names();
  names.emplace_back(kAllPlanners);
  return names;
}

}  // namespace

void add_plan_command(const Command& program, const std::string& command_line) {
  const Command command =
      program.add_subcommand("plan", "find the time-energy frontier and a clock for every computation");
  const auto options = std::make_shared<PlanOptions>();
  add_pipeline_options(command, options->pipeline);
  add_choice(
      command, "--planner", options->planner, planner_choices(), "NAME",
      fmt::format("planner: {}; all compares them (default: as --order says)", fmt::join(planner_choices(), ", ")));
  add_value(command, "--target-time", options->target_time, parse_duration, "TIME",
            "time that an iteration may take: choose the plan of least energy that takes no longer (default: the "
            "fastest plan)");
  add_value(
      command, "--straggler", options->straggler, parse_straggler, "FACTOR",
      "slowdown of another pipeline, which takes T' = FACTOR times T_min: choose the plan of T_opt = min(T*, T')");
  add_choice(
      command, "--order", options->order, {"fixed", "free"}, "WHICH",
      "order of forwards and backwards: fixed, as the schedule gives it, or free, the one that saves most within "
      "--memory-limit (default: free where that is given)");
  add_value(command, "--switch-latency", options->switch_latency, parse_latency, "TIME[..TIME]",
            "time from a clock change until it takes effect, or the shortest and the longest: avoid changes that do "
            "not pay, charge the others (0: changes are free; default: as the profile's clock_change rows say, else "
            "4ms..9ms, and 0 with --planner or limits on power)");
  add_value(command, "--min-dwell", options->min_dwell, parse_duration_or_zero, "TIME",
            "least time between two clock changes of one stage");
  add_value(command, "--max-power", options->max_power, parse_positive, "W",
            "choose the fastest plan in which all GPUs of the job together never draw more");
  add_value(command, "--max-ramp", options->max_ramp, parse_positive, "W/S",
            "... in which their power, averaged over a second, changes no faster");
  add_value(command, "--ramp-window", options->ramp_window, parse_duration, "TIME",
            "average over so long for --max-ramp (default 1s)");
  add_value(command, "--budget", options->budget, parse_path, "FILE",
            "like --max-power, but with a limit for each period of the file, and a plan for each");
  add_value(command, "--out", options->out, parse_path, "DIR",
            "write plan.json, report.html, pictures, summary.json and Zeus files to this folder; Zeus files, "
            "plan-switching.json and plan-budget-N.json of an earlier run there go away");
  add_choice(command, "--zeus-files", options->zeus_files, {"selected", "all", "none"}, "WHICH",
             "plans to write freqs_pipeline files of: selected (default), all or none");
  add_format(command, options->format);
  command.footer(
      "Energies are per iteration of one pipeline with one GPU per stage, blocking\n"
      "included. T_min is the shortest iteration in the schedule's order; T* takes\n"
      "the least energy when waiting for others is paid anyway; 'least total' takes\n"
      "the least when nobody else is waited for. The gap is to a lower bound that no\n"
      "plan of that order can beat.\n\n"
      "Examples:\n"
      "  flyball plan examples/profiles/gpt3-1.3b-a100-4stage.csv --microbatches 128\n"
      "  flyball plan examples/profiles/bert-1.3b-a100-4stage.csv --microbatches 32 \\\n"
      "    --straggler 1.2 --out out/bert\n"
      "  flyball plan examples/profiles/bert-1.3b-a100-4stage.csv --microbatches 8 \\\n"
      "    --planner all --format json\n"
      "  flyball plan examples/profiles/bert-1.3b-a100-4stage.csv --microbatches 8 \\\n"
      "    --max-power 850\n"
      "  flyball plan examples/profiles/bert-1.3b-a100-4stage.csv --microbatches 8 \\\n"
      "    --memory-limit 60GB/12GB");
  command.callback([options, command_line] { run_plan(*options, command_line); });
}

}  // namespace flyball
