// Each act is one call of scontrol.
#include "controller/slurm_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "controller/command_output.h"

namespace flyball {
namespace {

std::vector<std::string> scontrol(std::vector<std::string> words) {
  words.insert(words.begin(), "scontrol");
  return words;
}

}  // namespace

std::string comment_with(std::string_view comment, std::string words) {
  std::ranges::replace(words, ';', ',');
  std::vector<std::string> parts{std::move(words)};
  for (const std::string_view part : split_at(';', comment)) {
    if (!part.empty() && !part.starts_with("flyball: ")) parts.emplace_back(part);
  }
  return fmt::format("{}", fmt::join(parts, ";"));
}

EngineView SlurmEngine::observe() {
  EngineView view;
  read_command_output({"squeue", "--json", "--states=all"}, limit_, squeue_printed_);
  view.jobs = lists_.jobs(squeue_printed_, &view.odd);
  read_command_output({"sinfo", "--json"}, limit_, sinfo_printed_);
  view.nodes = lists_.nodes(sinfo_printed_, &view.odd);
  for (EngineJob& job : view.jobs) job.changeable = job.changeable || has_accounts();
  return view;
}

// Without such a database, Slurm changes nothing of a job from which nodes were taken, until its next start: it waits
// five seconds for the database's number of the job, and refuses (22.05).
bool SlurmEngine::has_accounts() {
  if (!has_accounts_) {
    const std::string config = command_output(scontrol({"show", "config"}), limit_);
    const std::size_t line = config.find("AccountingStorageType");
    has_accounts_ = line != std::string::npos &&
                    config.substr(line, config.find('\n', line) - line).find("slurmdbd") != std::string::npos;
  }
  return *has_accounts_;
}

void SlurmEngine::hold(const EngineJob& job) {
  (void)command_output(scontrol({"hold", fmt::to_string(job.id)}), limit_);
}

void SlurmEngine::requeue_held(const EngineJob& job) {
  (void)command_output(scontrol({"requeuehold", fmt::to_string(job.id)}), limit_);
}

// The counts of nodes, tasks and processors must agree, or Slurm finds that no node can ever run the job.
void SlurmEngine::resize(const EngineJob& job, const GpuShape& shape) {
  const auto nodes = static_cast<int>(shape.nodes.size());
  const int tasks = nodes * job.tasks_per_node;
  (void)command_output(
      scontrol({"update", fmt::format("JobId={}", job.id), fmt::format("NumNodes={0}-{0}", nodes),
                fmt::format("NumTasks={}", tasks), fmt::format("NumCPUs={}", tasks * job.cpus_per_task),
                fmt::format("TresPerNode=gres:gpu:{}", shape.gpus_per_node),
                fmt::format("ReqNodeList={}", fmt::join(shape.nodes, ","))}),
      limit_);
}

void SlurmEngine::start(const EngineJob& job) {
  (void)command_output(scontrol({"release", fmt::to_string(job.id)}), limit_);
}

// Slurm writes scripts with the job's new environment (slurm_job_N_resize.sh) only where this is called inside a job.
void SlurmEngine::keep_nodes(const EngineJob& job, const std::vector<std::string>& kept) {
  (void)command_output(
      scontrol({"update", fmt::format("JobId={}", job.id), fmt::format("NodeList={}", fmt::join(kept, ","))}), limit_);
}

void SlurmEngine::resume(const EngineNode& node) {
  (void)command_output(scontrol({"update", fmt::format("NodeName={}", node.name), "State=RESUME"}), limit_);
}

void SlurmEngine::set_power(const std::vector<std::string>& nodes, bool on) {
  (void)command_output(scontrol({"update", fmt::format("NodeName={}", fmt::join(nodes, ",")),
                                 on ? "State=POWER_UP" : "State=POWER_DOWN"}),
                       limit_);
}

void SlurmEngine::explain(const EngineJob& job, const std::string& words) {
  (void)command_output(scontrol({"update", fmt::format("JobId={}", job.id),
                                 fmt::format("AdminComment={}", comment_with(job.shown, "flyball: " + words))}),
                       limit_);
}

}  // namespace flyball
