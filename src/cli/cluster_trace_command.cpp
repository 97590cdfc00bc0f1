// flyball cluster trace: job traces, made or converted.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "cli/cluster_options.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/pipeline_options.h"

namespace flyball {
namespace {

void print_or_write(const std::optional<std::string>& out, const std::string& text) {
  if (!out) return print_data(text);
  write_text_file(*out, text);
  print_result(fmt::format("wrote {}\n", *out));
}

struct TraceSynthOptions {
  TraceSynthesis request;
  bool models = false;
  std::optional<std::string> out;
};

Seconds parse_hours(std::string_view option, std::string_view text) {
  return Seconds(parse_positive(option, text) * 3600.0);
}

void run_trace_synth(const TraceSynthOptions& options) {
  TraceSynthesis request = options.request;
  if (options.models) {
    const GroundTruth truth = load_ground_truth("v100");
    for (std::size_t model = 0; model < truth.models().size(); ++model) {
      request.pool.push_back({truth.models()[model], truth.batch_sizes(static_cast<int>(model))});
    }
  }
  const JobTrace trace = synthesize_job_trace(request);
  print_or_write(options.out,
                 write_job_trace(trace, {fmt::format("Synthetic: {} jobs in {:g} h, seed {}; made by flyball cluster "
                                                     "trace synth. Not a recorded trace.",
                                                     request.jobs, request.span.value() / 3600.0, request.seed)}));
}

void add_trace_synth(const Command& parent) {
  const Command command = parent.add_subcommand("synth", "make a synthetic trace");
  const auto options = std::make_shared<TraceSynthOptions>();
  add_value(command, "--jobs", options->request.jobs, parse_count, "N", "number of jobs (default 1901)");
  add_value(command, "--hours", options->request.span, parse_hours, "H",
            "hours over which the jobs are submitted (default 24)");
  add_value(command, "--median", options->request.median_duration, parse_duration, "TIME",
            "median duration of the jobs (default 500s)");
  add_value(command, "--large-jobs", options->request.large_jobs, parse_positive, "FACTOR",
            "factor by which to scale the share of jobs of more than one GPU, which is 0.3 (default 1)");
  add_value(command, "--seed", options->request.seed, parse_count, "N", "seed of the random numbers (default 1)");
  command.add_flag("--models", options->models, "draw models and batch sizes of the jobs, too");
  add_value(command, "--out", options->out, parse_path, "FILE", "write to this file");
  command.footer(
      "Examples:\n"
      "  flyball cluster trace synth --out day.csv\n"
      "  flyball cluster trace synth --jobs 100 --hours 2 --models --seed 7");
  command.callback([options] { run_trace_synth(*options); });
}

struct ConvertOptions {
  std::string input;
  TraceFormat from = TraceFormat::kPhilly;
  std::optional<std::string> out;
};

void run_convert(const ConvertOptions& options) {
  std::size_t dropped = 0;
  const InterruptExit exit;
  std::optional<WorkLine> line("converting");
  const JobTrace trace = convert_job_trace(options.from, options.input, read_text_file(options.input), &dropped);
  line.reset();
  print_or_write(options.out,
                 write_job_trace(trace, {fmt::format("Converted; the original format is {}.", name_of(options.from))}));
  if (dropped > 0)
    print_warning(
        fmt::format("{} left out: they never ran, or asked for no GPU", counted(static_cast<long>(dropped), "row")));
}

void add_convert(const Command& parent) {
  const Command command = parent.add_subcommand("convert", "convert a trace of another format");
  const auto options = std::make_shared<ConvertOptions>();
  command.add_option("INPUT", options->input, "trace to convert").type_name("FILE").required();
  add_named_choice<TraceFormat>(
      command, "--from", options->from, "NAME",
      "format of the trace: philly (cluster_job_log), alibaba (pods of cluster-trace-gpu-v2023) or pollux (workloads)")
      .required();
  add_value(command, "--out", options->out, parse_path, "FILE", "write to this file");
  command.footer(
      "Examples:\n"
      "  flyball cluster trace convert openb_pod_list_default.csv --from alibaba --out jobs.csv");
  command.callback([options] { run_convert(*options); });
}

}  // namespace

void add_cluster_trace_command(const Command& parent) {
  const Command command = parent.add_subcommand("trace", "make or convert a trace of jobs");
  add_trace_synth(command);
  add_convert(command);
}

}  // namespace flyball
