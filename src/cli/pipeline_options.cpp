// An option of the command line wins over the pipeline file, and that over the profile and the defaults. Options that
// contradict each other are refused before the profile is read.
#include "cli/pipeline_options.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/option_values.h"

namespace flyball {
namespace {

PipelineSpec stated_pipeline(const PipelineOptions& options) {
  PipelineSpec spec;
  if (options.pipeline_file) spec = read_pipeline_file(*options.pipeline_file);
  if (!spec.dag_file.empty() &&
      (options.schedule || options.microbatches || options.chunks || options.split_backward)) {
    throw UsageError(
        fmt::format("{} names an explicit DAG, which has its own schedule and microbatches; drop --schedule, "
                    "--microbatches, --chunks and --split-backward, or the dag of the pipeline file",
                    *options.pipeline_file));
  }
  if (options.schedule) spec.schedule = parse_schedule(*options.schedule);
  if (options.microbatches) spec.microbatches = *options.microbatches;
  if (options.chunks) spec.chunks = *options.chunks;
  if (options.split_backward) spec.split_backward = options.split_backward;
  if (options.clocks_asked) spec.clocks_asked = *options.clocks_asked;
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

PlanProblem stated_problem(const PipelineSpec& spec, const Profile& profile, const ComputationDag& dag,
                           const PipelineOptions& options) {
  const CostModel model = options.cost_model == "exponential" ? CostModel::kExponential : CostModel::kHull;
  std::optional<Nanoseconds> unit_time;
  if (options.unit_time) unit_time = to_nanoseconds(*options.unit_time);
  return make_problem(dag, spec.blocking_powers(dag.stages(), profile), unit_time, model,
                      options.noise_pct.value_or(0.0) / 100.0, spec.memory_limit);
}

// Takes the usual share where a schedule needs backwards in two parts and the profile has whole ones, and says so.
void split_whole_backwards(PipelineSpec& spec, const Profile& profile) {
  if (!lacks_weight_share(spec, profile)) return;
  spec.split_backward = kUsualWeightShare;
  print_warning(
      fmt::format("schedule {} runs backwards in two parts, and the profile has whole ones: {:g} of their time and "
                  "energy is taken for the weight gradients (--split-backward)",
                  schedule_name(spec.schedule), kUsualWeightShare));
}

// Reads straight from the descriptor, since a stream takes Ctrl-C for the end of the input. It looks for Ctrl-C several
// times a second, since a signal that comes just before a read does not end it.
std::string read_standard_input(const InterruptGuard& guard) {
  constexpr int kPollMilliseconds = 200;
  std::string text;
  std::vector<char> block(1u << 16);
  while (true) {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&input, 1, kPollMilliseconds);
    guard.throw_if_interrupted();
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t count = ::read(STDIN_FILENO, block.data(), block.size());
    const int reason = errno;
    if (count == 0) return text;
    if (count < 0) {
      if (reason == EINTR) continue;
      throw SystemError(fmt::format("reading standard input failed: {}", std::strerror(reason)));
    }
    text.append(block.data(), static_cast<std::size_t>(count));
    if (text.size() > kMaxInputBytes) {
      throw InputError({"<stdin>"}, fmt::format("the file is larger than {} MiB", kMaxInputBytes >> 20),
                       "check that this is the right file; inputs of this kind are far smaller");
    }
  }
}

}  // namespace

void add_pipeline_options(const Command& command, PipelineOptions& options) {
  command
      .add_option("PROFILE", options.profile,
                  "measured profile: CSV stage,instruction,frequency,time,energy (MHz, s, J); - reads standard input")
      .type_name("FILE")
      .required();
  add_value(command, "--microbatches", options.microbatches, parse_count, "N", "number of microbatches per iteration");
  add_choice(command, "--schedule", options.schedule, schedule_names(), "NAME",
             "schedule: gpipe, 1f1b (default), interleaved-1f1b, early-recompute-1f1b or zb-h1");
  add_value(command, "--chunks", options.chunks, parse_count, "K",
            "number of model chunks per stage (interleaved-1f1b)");
  add_value(command, "--split-backward", options.split_backward, parse_share, "SHARE",
            "run backwards in two parts, with this share of their time and energy for the weight gradients where the "
            "profile has whole backwards (1f1b, zb-h1; default for zb-h1 0.5)");
  command
      .add_option_function(
          "--pipeline", [&options](const std::string& path) { options.pipeline_file = path; },
          "pipeline file with these and further settings; options given here override it")
      .type_name("FILE");
  add_value(command, "--blocking-power", options.blocking_power, parse_powers, "W[,W...]",
            "blocking power, which a GPU draws while it waits for others, in watts: one number, or one per stage "
            "(default: as in the profile's rows 'waiting', else 75)");
  add_named_choice<ClocksAsked>(
      command, "--clocks-asked", options.clocks_asked, "WHEN",
      "when the engine asks for a computation's clock: as long before its stage is free as a change takes (ahead), "
      "as Flyball's sessions do, when its stage is free (when-free), or when it begins (at-begin), as Zeus's client "
      "does; stages wait at the next or at the last clock "
      "(default when-free; late clock changes are charged as at-begin unless this is given)");
  add_value(command, "--memory-limit", options.memory_limit, parse_list(parse_memory_option), "N[,N...]",
            "number of microbatches whose activations a stage can hold, or a stage's memory for activations over that "
            "of one microbatch's (60GB/6.4GB): one for all stages, or one per stage; planners that choose the order "
            "keep to it");
  add_value(command, "--data-parallel", options.data_parallel, parse_count, "D",
            "number of pipelines that train together");
  add_value(command, "--tensor-parallel", options.tensor_parallel, parse_count, "P", "number of GPUs per stage");
  add_value(
      command, "--unit-time", options.unit_time, parse_duration, "TIME",
      "difference in iteration time between neighbouring points of the frontier (default 1ms, and more where that "
      "changes energy by less than 0.005 %)");
  add_choice(command, "--cost-model", options.cost_model, {"hull", "exponential"}, "NAME",
             "curve of a computation's cost over its time: lower hull of the measurements (hull, default) or a fitted "
             "exponential");
  add_value(command, "--noise", options.noise_pct, parse_percent, "PERCENT",
            "noise of the energy meter: a slower clock must save more than this (default 0); lower bounds count the "
            "clocks that this drops, too");
}

LoadedPipeline::LoadedPipeline(Profile measured, PipelineSpec stated, const PipelineOptions& options)
    : profile(std::move(measured)),
      spec(std::move(stated)),
      dag(build_dag(spec, profile)),
      problem(stated_problem(spec, profile, dag, options)),
      noise(dag) {}

std::string LoadedPipeline::title() const {
  const std::string name =
      profile.source == "<stdin>" ? profile.source : std::filesystem::path(profile.source).filename().string();
  if (!spec.dag_file.empty()) {
    return fmt::format("{}: {}, {}", name, counted(dag.stages(), "stage"),
                       std::filesystem::path(spec.dag_file).filename().string());
  }
  const std::string chunks = spec.chunks > 1 ? fmt::format(" with {} chunks", spec.chunks) : "";
  return fmt::format("{}: {}, {}, {}{}", name, counted(dag.stages(), "stage"),
                     counted(spec.microbatches, "microbatch", "es"), schedule_name(spec.schedule), chunks);
}

Profile load_profile(const std::string& path, const InterruptGuard& guard) {
  if (path != "-") return read_profile_file(path);
  return read_profile("<stdin>", read_standard_input(guard));
}

std::unique_ptr<LoadedPipeline> load_pipeline(const PipelineOptions& options, const InterruptGuard& guard) {
  PipelineSpec spec = stated_pipeline(options);
  Profile profile = load_profile(options.profile, guard);
  split_whole_backwards(spec, profile);
  auto pipeline = std::make_unique<LoadedPipeline>(std::move(profile), std::move(spec), options);
  for (const std::string& words : blocking_warnings(pipeline->spec, pipeline->profile, pipeline->dag)) {
    print_warning(words);
  }
  return pipeline;
}

std::unique_ptr<LoadedPipeline> load_whole_backwards(const LoadedPipeline& pipeline, const PipelineOptions& options) {
  if (!splits_backward(pipeline.spec)) return nullptr;
  PipelineSpec spec = with_whole_backwards(pipeline.spec);
  spec.memory_limit.clear();
  try {
    return std::make_unique<LoadedPipeline>(pipeline.profile, std::move(spec), options);
  } catch (const InputError&) {  // parts whose clocks or labels do not go together
    return nullptr;
  }
}

}  // namespace flyball
