#include "cli/pipeline_options.h"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "cli/option_values.h"

namespace flyball {
namespace {

constexpr Seconds kDefaultUnitTime{1e-3};
// Beyond this a plan needs tens of gigabytes; such a number is a slip of the keyboard.
constexpr double kMostComputations = 20e6;

PipelineSpec stated_pipeline(const PipelineOptions& options) {
  PipelineSpec spec;
  if (options.pipeline_file) spec = read_pipeline_file(*options.pipeline_file);
  if (!spec.dag_file.empty() && (options.schedule || options.microbatches || options.chunks)) {
    throw UsageError(
        fmt::format("{} names an explicit DAG, which has its own schedule and microbatches; drop --schedule, "
                    "--microbatches and --chunks, or the dag of the pipeline file",
                    *options.pipeline_file));
  }
  if (options.schedule) spec.schedule = parse_schedule(*options.schedule);
  if (options.microbatches) spec.microbatches = *options.microbatches;
  if (options.chunks) spec.chunks = *options.chunks;
  if (options.blocking_power) spec.blocking_power = *options.blocking_power;
  if (options.memory_limit) spec.memory_limit = *options.memory_limit;
  if (options.data_parallel) spec.data_parallel = *options.data_parallel;
  if (options.tensor_parallel) spec.tensor_parallel = *options.tensor_parallel;
  if (spec.dag_file.empty() && spec.microbatches < 1) {
    throw UsageError(options.pipeline_file
                         ? fmt::format("{} does not say how many microbatches an iteration has; add microbatches = N "
                                       "there, or --microbatches N here",
                                       *options.pipeline_file)
                         : "how many microbatches has an iteration? add --microbatches N (or --pipeline FILE.toml)");
  }
  return spec;
}

std::vector<Watts> power_per_stage(const PipelineSpec& spec, const ComputationDag& dag) {
  const auto stages = static_cast<std::size_t>(dag.stages());
  if (spec.blocking_power.size() != 1 && spec.blocking_power.size() != stages) {
    throw UsageError(fmt::format("{} blocking powers for {} stages; give one, or one per stage (--blocking-power)",
                                 spec.blocking_power.size(), stages));
  }
  std::vector<Watts> blocking;
  for (int stage = 0; stage < dag.stages(); ++stage) blocking.push_back(spec.blocking(stage));
  return blocking;
}

PlanProblem stated_problem(const PipelineSpec& spec, const ComputationDag& dag, const PipelineOptions& options) {
  const CostModel model = options.cost_model == "exponential" ? CostModel::kExponential : CostModel::kHull;
  return make_problem(dag, power_per_stage(spec, dag), to_nanoseconds(options.unit_time.value_or(kDefaultUnitTime)),
                      model, options.noise_pct.value_or(0.0) / 100.0, spec.memory_limit);
}

}  // namespace

void add_pipeline_options(CLI::App& command, PipelineOptions& options) {
  command
      .add_option("PROFILE", options.profile,
                  "measured profile: CSV stage,instruction,frequency,time,energy (MHz, s, J); - reads standard input")
      ->required();
  add_value(command, "--microbatches", options.microbatches, parse_count, "N", "microbatches per iteration");
  add_choice(command, "--schedule", options.schedule, schedule_names(), "NAME",
             "gpipe, 1f1b (default), interleaved-1f1b, early-recompute-1f1b or zb-h1");
  add_value(command, "--chunks", options.chunks, parse_count, "K", "model chunks per stage (interleaved-1f1b)");
  command
      .add_option_function<std::string>(
          "--pipeline", [&options](const std::string& path) { options.pipeline_file = path; },
          "pipeline file with these and further settings; options given here override it")
      ->type_name("FILE");
  add_value(command, "--blocking-power", options.blocking_power, parse_powers, "W[,W...]",
            "draw of a GPU that waits, in watts: one number, or one per stage (default 75)");
  add_value(command, "--memory-limit", options.memory_limit, parse_counts, "N[,N...]",
            "microbatches whose activations a stage can hold: one number, or one per stage (default no limit); EnvPipe "
            "moves forwards of 1f1b no further");
  add_value(command, "--data-parallel", options.data_parallel, parse_count, "D", "pipelines that train together");
  add_value(command, "--tensor-parallel", options.tensor_parallel, parse_count, "P", "GPUs per stage");
  add_value(command, "--unit-time", options.unit_time, parse_duration, "TIME",
            "spacing of the frontier's points (default 1ms)");
  add_choice(command, "--cost-model", options.cost_model, {"hull", "exponential"}, "NAME",
             "cost of a computation: lower hull of its measurements (default) or the fitted exponential");
  add_value(command, "--noise", options.noise_pct, parse_percent, "PERCENT",
            "what the meter cannot tell apart: a slower clock must save more than this (default 0)");
}

LoadedPipeline::LoadedPipeline(Profile measured, PipelineSpec stated, const PipelineOptions& options)
    : profile(std::move(measured)),
      spec(std::move(stated)),
      dag(build_dag(spec, profile)),
      problem(stated_problem(spec, dag, options)) {}

std::string LoadedPipeline::title() const {
  const std::string name =
      profile.source == "<stdin>" ? profile.source : std::filesystem::path(profile.source).filename().string();
  if (!spec.dag_file.empty()) {
    return fmt::format("{}: {} stages, {}", name, dag.stages(),
                       std::filesystem::path(spec.dag_file).filename().string());
  }
  const std::string chunks = spec.chunks > 1 ? fmt::format(" with {} chunks", spec.chunks) : "";
  return fmt::format("{}: {} stages, {} microbatches, {}{}", name, dag.stages(), spec.microbatches,
                     schedule_name(spec.schedule), chunks);
}

Profile load_profile(const std::string& path) {
  if (path != "-") return read_profile_file(path);
  const std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  return read_profile("<stdin>", text);
}

std::unique_ptr<LoadedPipeline> load_pipeline(const PipelineOptions& options) {
  PipelineSpec spec = stated_pipeline(options);
  Profile profile = load_profile(options.profile);
  const double computations = 3.0 * profile.stages * spec.microbatches * spec.chunks;
  if (computations > kMostComputations) {
    throw UsageError(
        fmt::format("{} stages with {} microbatches and {} chunks make more than {:.0f} million computations; "
                    "check --microbatches and --chunks",
                    profile.stages, spec.microbatches, spec.chunks, kMostComputations / 1e6));
  }
  return std::make_unique<LoadedPipeline>(std::move(profile), std::move(spec), options);
}

}  // namespace flyball
