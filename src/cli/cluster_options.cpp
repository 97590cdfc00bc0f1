// Which options a set of policies heeds follows from what the policies state of themselves (PolicySetting,
// PolicyTraits), so that a new policy needs no entry here.
#include "cli/cluster_options.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/option_values.h"

namespace flyball {
double parse_eta(std::string_view option, std::string_view text) {
  const auto value = parse_number(text);
  if (value && *value > 0.0 && *value <= 10.0) return *value;
  throw UsageError(fmt::format(
      "{} takes the power budget over that of all GPUs at the highest clock, such as 0.7, not '{}'", option, text));
}

double parse_zeus_eta(std::string_view option, std::string_view text) {
  return parse_number_within(option, text, 0.0, 1.0,
                             "how much energy counts against time, from 0 (only time) to 1 (only energy)");
}

void add_cluster_options(const Command& command, ClusterOptions& options) {
  command.add_option("--trace", options.trace, "jobs: CSV submit_time,num_gpus,duration[,model,batch_size]")
      .type_name("JOBS")
      .required();
  add_value(command, "--nodes", options.setup.spec.nodes, parse_count, "N", "nodes of the cluster (default 16)");
  add_value(command, "--gpus-per-node", options.setup.spec.gpus_per_node, parse_count, "N",
            "GPUs of a node, a power of two (default 4)");
  add_value(command, "--gpu", options.setup.spec.gpu, parse_path, "NAME", "GPU model: v100 (default) or a100")
      .suggests({"v100", "a100"});
  add_value(command, "--table", options.table, parse_path, "FILE",
            "CSV file of iterations' times and energies, in place of the synthetic table for --gpu");
  add_value(command, "--pipelines", options.pipelines, parse_path, "FILE",
            "pipeline-parallel jobs beside those of the trace: CSV with columns submit_time, profile, microbatches, "
            "pipelines, iterations");
  add_named_choice<PipelineSpeeds>(
      command, "--pipeline-speeds", options.pipeline_speeds, "NAME",
      "plans that the scheduler may choose for these jobs: frontier (default): every plan of the frontier; "
      "fastest: only the fastest of them; max: maximum clocks");
  add_value(command, "--eta", options.eta, parse_eta, "SHARE",
            "power budget of the jobs, as a share of the power of all GPUs busy at the highest clock (default 1)");
  add_value(command, "--seed", options.setup.seed, parse_count, "N",
            "seed for the models that the trace leaves open, and for measurement noise (default 1)");
  add_named_choice<Knowledge>(
      command, "--knowledge", options.knowledge, "NAME",
      "what policies know of iterations' costs: learned (default): from models fitted while jobs run; fitted: "
      "from models fitted beforehand; profiled: everything");
  add_value(command, "--restart", options.setup.spec.restart, parse_duration_or_zero, "TIME",
            "time that a job loses when its GPUs change (default 30s)");
  add_value(command, "--start", options.setup.spec.start, parse_duration_or_zero, "TIME",
            "time for which a job holds its first GPUs idle until it computes (default 0s)");
  add_value(command, "--changeover", options.setup.spec.changeover, parse_duration_or_zero, "TIME",
            "time from when a job loses GPUs, or ends, until another can start on them (default 0s); it is a part of "
            "--restart");
  add_value(command, "--profiling", options.profiling, parse_duration, "TIME",
            "time for which a job is profiled at a new size, at all clocks (default 240s)");
  command.add_flag("--no-node-shutdown", options.no_node_shutdown,
                   "keep all nodes on, whatever the policy (else nodes without jobs are shut down)");
  add_value(command, "--wake", options.wake, parse_duration_or_zero, "TIME",
            "time until a node that was off can be used (default 60s)");
  add_value(command, "--off-after", options.off_after, parse_duration_or_zero, "TIME",
            "time without a job after which a node is shut down (default 60s)");
  add_value(command, "--clock", options.clock, parse_positive, "MHZ",
            "clock of all jobs in MHz, for policies that choose none (default: the highest)");
  add_value(command, "--zeus-eta", options.zeus_eta, parse_zeus_eta, "SHARE",
            "weight of energy against time, from 0 to 1, for policies with Zeus's clocks (default 0.5)");
  command.add_flag("--no-packing", options.no_packing,
                   "put no two jobs on a GPU, also under policies that would (Gandiva)");
}

HeededOptions heeded_options(const std::vector<std::string>& policies) {
  HeededOptions heeded;
  for (const std::string& name : policies) {
    const PolicySetting setting = find_policy(name).setting;
    heeded.clock |= setting == PolicySetting::kClock;
    heeded.eta |= setting == PolicySetting::kBudget;
    heeded.zeus_eta |= setting == PolicySetting::kZeusEta;
    const PolicyTraits traits = make_policy(name)->traits();
    heeded.learning |= traits.profiles;
    heeded.packing |= traits.jobs_per_gpu > 1;
  }
  return heeded;
}

void warn_if_ignored(std::string_view option, bool given, bool heeded, std::string_view why) {
  if (given && !heeded) print_warning(fmt::format("{} has no effect{}", option, why));
}

void warn_of_ignored_options(const ClusterOptions& options, const HeededOptions& heeded) {
  constexpr std::string_view kForLearners = "; it is for policies that learn what jobs cost";
  warn_if_ignored("--clock", options.clock.has_value(), heeded.clock, kForOneClock);
  warn_if_ignored("--eta", options.eta.has_value(), heeded.eta, kForBudgets);
  warn_if_ignored("--zeus-eta", options.zeus_eta.has_value(), heeded.zeus_eta, kForZeus);
  warn_if_ignored("--no-packing", options.no_packing, heeded.packing,
                  "; it is for policies that put two jobs on a GPU");
  warn_if_ignored("--knowledge", options.knowledge.has_value(), heeded.learning, kForLearners);
  if (heeded.learning && options.knowledge.value_or(Knowledge::kLearned) != Knowledge::kLearned) {
    warn_if_ignored("--profiling", options.profiling.has_value(), false,
                    fmt::format(" with --knowledge {}: nothing is profiled", name_of(*options.knowledge)));
  } else {
    warn_if_ignored("--profiling", options.profiling.has_value(), heeded.learning, kForLearners);
  }
  warn_if_ignored("--pipeline-speeds", options.pipeline_speeds.has_value(), options.pipelines.has_value(),
                  " without --pipelines");
  warn_if_ignored("--wake", options.wake.has_value(), !options.no_node_shutdown, " with --no-node-shutdown");
  warn_if_ignored("--off-after", options.off_after.has_value(), !options.no_node_shutdown, " with --no-node-shutdown");
}

MeasurementSet read_measurements_of(const GpuModel& gpu, const std::string& path) {
  MeasurementSet measured = read_measurements_file(path, gpu.maximum);
  for (const auto& [model, rows] : measured) {
    for (const JobMeasurement& row : rows) {
      const Megahertz clock = row.configuration.clock;
      if (clock >= gpu.minimum && clock <= gpu.maximum) continue;
      throw InputError({path},
                       fmt::format("{} has a row at {:g} MHz; the clocks of a {} are from {:g} to {:g} MHz", model,
                                   clock.value(), gpu.name, gpu.minimum.value(), gpu.maximum.value()),
                       "name the GPU that was measured with --gpu, or delete the row");
    }
  }
  return measured;
}

ClusterInput load_cluster(const ClusterOptions& options) {
  SimulationSetup setup = options.setup;
  ClusterSpec& spec = setup.spec;
  spec.profiling = options.profiling.value_or(spec.profiling);
  spec.node_shutdown = !options.no_node_shutdown;
  spec.wake = options.wake.value_or(spec.wake);
  spec.off_after = options.off_after.value_or(spec.off_after);
  setup.eta = options.eta.value_or(setup.eta);
  setup.knowledge = options.knowledge.value_or(setup.knowledge);
  if (options.pipelines) {
    const PipelineSpeeds speeds = options.pipeline_speeds.value_or(PipelineSpeeds::kFrontier);
    setup.pipelines = read_pipeline_jobs(*options.pipelines, speeds);
  }
  const GpuModel gpu = load_gpu_model(spec.gpu);
  GroundTruth truth = options.table ? GroundTruth(*options.table, read_measurements_of(gpu, *options.table))
                                    : load_ground_truth(spec.gpu);
  PolicyOptions policy;
  if (options.clock) policy.clock = Megahertz(*options.clock);
  policy.packing = !options.no_packing;
  policy.zeus_eta = options.zeus_eta.value_or(policy.zeus_eta);
  return {setup, std::move(truth), read_job_trace_file(options.trace), policy};
}

}  // namespace flyball
