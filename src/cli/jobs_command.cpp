// flyball jobs: the training jobs of a planning server, what was promised of them and what they have saved.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/record.h"
#include "base/token_file.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/iteration_text.h"
#include "cli/option_values.h"
#include "client/plan_server.h"
#include "draw/text_table.h"
#include "wire/job_messages.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

struct JobsOptions {
  std::string job;
  bool iteration = false;
  std::optional<std::string> server;
  std::optional<std::string> ca_file;
  std::optional<std::string> token_file;
  std::optional<std::string> format;
};

PlanServer server_of(const JobsOptions& options) {
  const std::string token = options.token_file ? read_token_file(*options.token_file) : std::string();
  return {options.server.value_or(kDefaultServerAddress), token, Seconds(0), options.ca_file.value_or("")};
}

// What everybody may know of a job.
JobStatus status_of(const JobListing& listing) {
  JobStatus status;
  status.job = listing.job;
  status.name = listing.name;
  status.state = listing.state;
  status.ranks = listing.ranks;
  status.ranks_registered = listing.ranks_registered;
  status.version = listing.version;
  status.plan_status = listing.plan_status;
  status.ordered_maximum = listing.ordered_maximum;
  return status;
}

// A job may be deleted between the list and the question for it. The list may be open to everybody, its jobs are not.
std::vector<JobStatus> statuses(PlanServer& server, const std::string& job) {
  if (!job.empty()) return {server.status(job)};
  std::vector<JobStatus> all;
  bool refused = false;
  for (const JobListing& one : server.jobs().jobs) {
    try {
      all.push_back(server.status(one.job));
    } catch (const ServerRefusal& refusal) {
      if (refusal.status() == 404) continue;
      if (refusal.status() != 401 && refusal.status() != 403) throw;
      all.push_back(status_of(one));
      refused = true;
    }
  }
  if (refused) print_warning("the server tells promises and savings to its administrator; give --token-file");
  return all;
}

std::string with_error(double value, double error) {
  return error > 0.0 ? fmt::format("{:.4g} ± {:.2g}", value, error) : fmt::format("{:.4g}", value);
}

std::string if_known(Seconds time) { return time > Seconds(0) ? fmt::format("{:.4g}", time.value()) : "-"; }

Joules saved(const JobStatus& job) { return job.savings.energy_at_maximum - job.savings.energy; }

// "registering" and "profiling" with how many ranks have come so far, and how many say that they do not.
std::string state_text(const JobStatus& job) {
  std::string state(name_of(job.state));
  const std::string cannot = job.unprofiled.empty() ? "" : fmt::format(", {} cannot", job.unprofiled.size());
  switch (job.state) {
    case JobState::kRegistering: return fmt::format("{} {}/{}{}", state, job.ranks_registered, job.ranks, cannot);
    case JobState::kProfiling: return fmt::format("{} {}/{}{}", state, job.ranks_profiled, job.ranks, cannot);
    case JobState::kPlanning: return fmt::format("{} {:.0f} %", state, 100.0 * job.planning_progress);
    default: return state;
  }
}

std::string list_text(const std::vector<JobStatus>& jobs) {
  if (jobs.empty()) return "the server has no jobs\n";
  TextTable table({"<job", "GPUs", "<state", "<planner", "<promise", "iteration s", "promised s", "saving %",
                   "promised %", "saved kJ"});
  std::string troubles;
  for (const JobStatus& job : jobs) {
    const bool compared = job.savings.iterations > 0;
    table.add_row({job.job, fmt::to_string(job.ranks),
                   state_text(job) + (job.ordered_maximum ? ", maximum clocks" : ""), job.planner,
                   std::string(name_of(job.promise.verdict)), if_known(job.promise.measured),
                   if_known(job.promise.promised),
                   job.promise.measured_saving_error_pct > 0.0
                       ? with_error(job.promise.measured_saving_pct, job.promise.measured_saving_error_pct)
                       : "-",
                   job.promise.promised_saving_pct != 0.0 ? format_fixed(job.promise.promised_saving_pct, 2) : "-",
                   compared ? with_error(saved(job).value() / 1e3, job.savings.energy_error.value() / 1e3) : "-"});
    if (!job.trouble.empty()) troubles += fmt::format("{}: {}\n", job.job, job.trouble);
  }
  return table.str() + troubles;
}

std::string straggler_text(const FoundStraggler& one) {
  return fmt::format("rank {} computes {:.3g} times as long as usual since its step {} ({}{}{})", one.rank,
                     one.slowdown, one.since, name_of(one.cause), one.detail.empty() ? "" : ", ", one.detail);
}

std::string plan_text(const PipelinePlan& plan) {
  const bool all = plan.count == std::ssize(plan.pipelines);
  return fmt::format("{} {} {}{}: {} s by themselves, {} s by plan of the {} s that all wait for, {} J", plan.count,
                     plan.count == 1 ? "pipeline," : "pipelines,", fmt::join(plan.pipelines, " "), all ? "" : " ...",
                     if_known(plan.base_time), if_known(plan.iteration_time), if_known(plan.allowed_time),
                     format_fixed(plan.energy.value(), 1));
}

std::string job_text(const JobStatus& job) {
  std::string text = fmt::format("{}{}{}\n", job.job, job.name.empty() ? "" : "  ", job.name);
  const auto line = [&text](std::string_view what, const std::string& is) {
    text += fmt::format("  {:<12}{}\n", what, is);
  };
  line("state", state_text(job));
  line("job", fmt::format("{} GPUs: stages {}, pipelines {}, GPUs per stage {}; {} with {} microbatches", job.ranks,
                          job.stages, job.data_parallel, job.tensor_parallel, job.schedule, job.microbatches));
  line("plan", job.version > 0 ? fmt::format("{}, version {}", job.planner, job.version)
                               : fmt::format("{}, none yet", job.planner));
  if (job.ordered_maximum) line("clocks", "ordered to maximum clocks, until the plan is ordered again");
  if (!job.memory_limit.empty()) {
    line("memory",
         fmt::format("stages hold at most {} microbatches in flight, as {}", fmt::join(job.memory_limit, ", "),
                     job.memory_limit_from == MemoryLimitFrom::kMeasured ? "the ranks have measured"
                                                                         : "the job was registered"));
  }
  for (const PipelinePlan& plan : job.plans) line("plan of", plan_text(plan));
  line("promise",
       std::string(name_of(job.promise.verdict)) + (job.promise.cause.empty() ? "" : ": " + job.promise.cause));
  if (job.promise.measured > Seconds(0)) {
    line("iteration", fmt::format("{} s, promised {} s; at maximum clocks {} s", if_known(job.promise.measured),
                                  if_known(job.promise.promised), if_known(job.promise.at_maximum)));
  }
  if (job.promise.measured_saving_error_pct > 0.0) {
    line("saving", fmt::format("{} % of the energy at maximum clocks, promised {} %",
                               with_error(job.promise.measured_saving_pct, job.promise.measured_saving_error_pct),
                               format_fixed(job.promise.promised_saving_pct, 2)));
  }
  if (job.savings.iterations > 0) {
    line("saved so far",
         fmt::format("{} kJ in {} iterations by plan, promised {} kJ",
                     with_error(saved(job).value() / 1e3, job.savings.energy_error.value() / 1e3),
                     job.savings.iterations,
                     format_fixed((job.savings.energy_at_maximum - job.promised_energy).value() / 1e3, 1)));
  }
  for (const FoundStraggler& one : job.found_stragglers) line("straggler", straggler_text(one));
  for (const SlowLink& one : job.slow_links) line("slow link", text_of(one));
  for (const UnprofiledRank& one : job.unprofiled) line("unprofiled", text_of(one));
  if (!job.trouble.empty()) line("trouble", job.trouble);
  return text;
}

void run_jobs(const JobsOptions& options) {
  PlanServer server = server_of(options);
  if (options.iteration) {
    if (options.job.empty()) throw UsageError("--iteration: name the JOB whose last iteration is to be shown");
    const MeasuredIteration iteration = server.iteration(options.job);
    return print_result(options.format == "json" ? dump_json(to_json(iteration), 2) + "\n" : iteration_text(iteration));
  }
  const std::vector<JobStatus> jobs = statuses(server, options.job);
  if (options.format == "json") {
    Json list = Json::array();
    for (const JobStatus& job : jobs) list.push_back(to_json(job));
    return print_result(dump_json(Json{{"jobs", std::move(list)}}, 2) + "\n");
  }
  print_result(options.job.empty() ? list_text(jobs) : job_text(jobs.front()));
}

}  // namespace

void add_jobs_command(const Command& program) {
  const Command command =
      program.add_subcommand("jobs", "the planning server's training jobs: states, promises and savings");
  const auto options = std::make_shared<JobsOptions>();
  command.add_option("JOB", options->job, "show this job's whole state; without one, all jobs are listed");
  command.add_flag("--iteration", options->iteration,
                   "show JOB's last iteration as it was measured, beside what was planned");
  add_value(command, "--server", options->server, parse_path, "ADDRESS",
            "HOST:PORT, https://HOST:PORT or the path of a Unix socket (default 127.0.0.1:4940)");
  add_value(command, "--ca-file", options->ca_file, parse_path, "FILE",
            "PEM file of the authorities from which an https:// server's certificate may come");
  add_value(command, "--token-file", options->token_file, parse_path, "FILE",
            "file with the administrator's token, or for one JOB that of the job");
  add_choice(command, "--format", options->format, {"text", "json"}, "NAME",
             "text (default) or json: what the server tells");
  command.footer(
      "Savings are those of the iterations by plan whose energy was compared with\n"
      "maximum clocks, by the GPUs' own counters, with their standard errors.\n\n"
      "Examples:\n"
      "  flyball jobs --server HOST:4940 --token-file admin.token\n"
      "  flyball jobs my-job --server HOST:4940 --token-file job.token\n"
      "  flyball jobs my-job --iteration --server HOST:4940 --token-file job.token\n"
      "  flyball jobs --server /run/flyball/server.sock --format json");
  command.callback([options] { run_jobs(*options); });
}

}  // namespace flyball
