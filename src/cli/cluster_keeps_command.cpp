// flyball cluster keeps: what the script of an elastic job says between two programs, of which the first has left nodes
// and the second has not begun: that the job goes on with fewer GPUs. The others wait for no longer than that.
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/cluster_options.h"
#include "cli/console.h"
#include "cli/option_values.h"
#include "client/elastic_job.h"
#include "wire/cluster_messages.h"

namespace flyball {
namespace {

constexpr Seconds kAnswerWithin{10.0};

struct KeepsOptions {
  std::optional<int> gpus;
  std::optional<double> iteration;
  std::optional<std::string> format;
};

void run_keeps(const KeepsOptions& options) {
  if (!options.gpus) throw UsageError("--gpus is missing: how many the nodes have with which the job goes on");
  if (!options.iteration) throw UsageError("--iteration is missing: how many are done, as the checkpoint says");
  ElasticJob::Options how = ElasticJob::from_environment(*options.gpus);
  if (how.controller.empty() || how.job.empty()) {
    throw UsageError(
        fmt::format("this is for the script of an elastic job, where {} and SLURM_JOB_ID are set", kClusterVariable));
  }
  how.patience = kAnswerWithin;
  std::string trouble;
  how.notice = [&](const std::string& words) { trouble = words; };
  ElasticJob job(how);
  const bool stop = job.report(static_cast<std::int64_t>(*options.iteration), 0, Seconds(0));
  if (!trouble.empty()) throw SystemError(trouble);
  const nlohmann::ordered_json told{{"job", how.job}, {"gpus", how.gpus}, {"stop", stop}};
  print_result(options.format == "json" ? told.dump() + "\n"
               : stop                   ? fmt::format("job {} is to end\n", how.job)
                                        : fmt::format("job {} goes on with {} GPUs\n", how.job, how.gpus));
}

}  // namespace

void add_cluster_keeps_command(const Command& parent) {
  const Command command = parent.add_subcommand("keeps", "say, in the script of a job, that it has given nodes back");
  const auto options = std::make_shared<KeepsOptions>();
  add_value(command, "--gpus", options->gpus, parse_count, "N", "that the job has on the nodes that it keeps");
  add_value(command, "--iteration", options->iteration, parse_count, "N", "iterations that are done");
  add_format(command, options->format);
  command.footer(
      "For a job that was submitted with --shrinks and was told to go on with some of its\n"
      "nodes: when its program has ended on all nodes, and before it is started again on\n"
      "those. The other nodes are free for others from then on.\n\n"
      "Examples:\n"
      "  flyball cluster keeps --gpus 8 --iteration 12400");
  command.callback([options] { run_keeps(*options); });
}

}  // namespace flyball
