// flyball cluster submit: sbatch, with a comment by which the controller knows the job.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/cluster_options.h"
#include "cli/console.h"
#include "cli/option_values.h"
#include "controller/elastic_option.h"
#include "controller/slurm_submission.h"
#include "wire/cluster_messages.h"

namespace flyball {
namespace {

struct SubmitOptions {
  ElasticOption job;
  std::optional<std::string> kind;
  std::optional<double> iterations;
  std::optional<std::string> controller;
  bool until_saved = false;
  std::vector<std::string> sbatch;
  std::optional<std::string> format;
};

void run_submit(const SubmitOptions& options) {
  if (options.job.pipeline && (options.job.min != 1 || options.job.max != 1 || options.job.shrinks)) {
    throw UsageError("--pipeline keeps the GPUs that sbatch's options ask for; leave --min, --max and --shrinks out");
  }
  if (!options.kind) throw UsageError("--kind is missing: the name of what the job trains");
  if (!options.iterations) throw UsageError("--iterations is missing: how many iterations the job has");
  if (options.sbatch.empty()) throw UsageError("the script is missing: flyball cluster submit ... -- job.sh");
  ElasticOption job = options.job;
  job.kind = *options.kind;
  job.iterations = *options.iterations;
  (void)parse_elastic_option(job.text());  // says what is wrong
  SlurmSubmission submission;
  submission.comment = job.text();
  submission.held = !job.pipeline;
  if (!job.pipeline) submission.sbatch = {"--nodes=1", "--ntasks=1", "--gpus-per-node=1"};
  submission.sbatch.push_back(
      fmt::format("--export=ALL,{}={}", kClusterVariable, controller_address(options.controller)));
  submission.sbatch.insert(submission.sbatch.end(), options.sbatch.begin(), options.sbatch.end());
  SavedSubmissionOptions saved;
  saved.tell = print_warning;
  const std::int64_t job_number =
      options.until_saved ? submit_until_saved(submission, saved) : submit_to_slurm(submission);
  print_result(options.format == "json" ? nlohmann::ordered_json{{"job", job_number}}.dump() + "\n"
               : options.job.pipeline   ? fmt::format("job {} waits for Slurm\n", job_number)
                                        : fmt::format("job {} waits for the controller\n", job_number));
}

}  // namespace

std::string controller_address(const std::optional<std::string>& given) {
  const char* const variable = std::getenv(kClusterVariable);
  return given ? *given : variable != nullptr && *variable != '\0' ? variable : kClusterAddress;
}

void add_cluster_submit_command(const Command& parent) {
  const Command command = parent.add_subcommand("submit", "hand an elastic job or a pipeline to Slurm");
  const auto options = std::make_shared<SubmitOptions>();
  add_value(command, "--kind", options->kind, parse_path, "NAME",
            "what the job trains; jobs of one kind cost the same per iteration");
  add_value(command, "--iterations", options->iterations, parse_count, "N", "iterations of the whole job");
  command.add_flag("--pipeline", options->job.pipeline,
                   "it keeps the GPUs that sbatch's options ask for, and is moved along its frontier by the planning "
                   "server's job slurm-NUMBER");
  add_value(command, "--min", options->job.min, parse_count, "N", "fewest GPUs (default 1)");
  add_value(command, "--max", options->job.max, parse_count, "N", "most GPUs (default 1)");
  command.add_flag("--shrinks", options->job.shrinks, "it can go on with some of its nodes, and says when it does");
  command.add_flag("--until-saved", options->until_saved,
                   "wait some 15 s until Slurm has saved the job, and submit it again if Slurm has forgotten it");
  add_value(
      command, "--controller", options->controller, parse_path, "ADDRESS",
      fmt::format("where the job reports to (default: what {} names, else {})", kClusterVariable, kClusterAddress));
  add_format(command, options->format);
  command.add_option("SBATCH", options->sbatch, "after --: options of sbatch, the script and its arguments")
      .type_name("FILE");
  command.footer(
      "An elastic job is submitted held, with one node, one task and one GPU, and the\n"
      "controller gives it its size. Its script must go on from a checkpoint when it is\n"
      "started again.\n\n"
      "Examples:\n"
      "  flyball cluster submit --kind resnet50 --iterations 20000 --max 8 -- job.sh\n"
      "  flyball cluster submit --kind bert --iterations 5000 --min 2 --max 8 -- \\\n"
      "    --cpus-per-task=8 --open-mode=append --output=bert.log job.sh --batch 256\n"
      "  flyball cluster submit --pipeline --kind gpt3 --iterations 9000 -- \\\n"
      "    --nodes=4 --gpus-per-node=4 train.sh");
  command.callback([options] { run_submit(*options); });
}

}  // namespace flyball
