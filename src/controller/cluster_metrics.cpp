// One table of names, units and help texts; all values are those of `flyball cluster status`.
#include "controller/cluster_metrics.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace flyball {
namespace {

constexpr MetricKind kGauge = MetricKind::kGauge;
constexpr MetricKind kCounter = MetricKind::kCounter;

constexpr MetricInfo kRegistry[] = {
    {"flyball_cluster_budget_watts", kGauge, "W", "", "Power budget of all GPUs that counts now."},
    {"flyball_cluster_others_watts", kGauge, "W", "", "The part of the budget that GPUs without elastic jobs take."},
    {"flyball_cluster_limit_watts", kGauge, "W", "", "The part that is left for elastic jobs."},
    {"flyball_cluster_counted_watts", kGauge, "W", "", "Power with which elastic jobs count."},
    {"flyball_cluster_measured_watts", kGauge, "W", "",
     "Power that the agents of all nodes measure; absent while one of them is silent."},
    {"flyball_cluster_jobs", kGauge, "1", "state", "Elastic jobs, by state."},
    {"flyball_cluster_gpus", kGauge, "1", "", "GPUs of the nodes that the controller has."},
    {"flyball_cluster_gpus_used", kGauge, "1", "", "Those of them that any job has."},
    {"flyball_cluster_nodes", kGauge, "1", "state", "Nodes, by the cluster engine's word for their state."},
    {"flyball_cluster_silent_agents", kGauge, "1", "", "Nodes that have an agent which does not answer."},
    {"flyball_cluster_decisions_total", kCounter, "1", "", "Decisions of the policy since the controller started."},
    {"flyball_cluster_cycle_seconds", kGauge, "s", "",
     "Time that the last look at the cluster took, with all that followed."},
    {"flyball_cluster_trouble", kGauge, "1", "", "1 while the cluster engine cannot be asked, else 0."},
    {"flyball_cluster_job_energy_joules", kGauge, "J", "job_id, kind, user",
     "Energy of an elastic job by the meters, since the controller has seen it run."},
};

}  // namespace

std::span<const MetricInfo> cluster_metric_registry() { return kRegistry; }

std::string cluster_metrics(const ClusterRunStatus& status) {
  MetricsText text(kRegistry);
  const auto add = [&](std::string_view name, double value) {
    text.add(fmt::format("flyball_cluster_{}", name), {}, value);
  };
  std::map<std::string, int> jobs;
  for (const ClusterJobStatus& one : status.jobs) {
    ++jobs[one.state];
    text.add("flyball_cluster_job_energy_joules",
             {{"job_id", fmt::to_string(one.job)}, {"kind", one.kind}, {"user", one.user}}, one.energy.value());
  }
  std::map<std::string, int> nodes;
  int gpus = 0;
  int used = 0;
  int silent = 0;
  bool all_measured = !status.nodes.empty();
  Watts measured;
  for (const ClusterNodeStatus& one : status.nodes) {
    ++nodes[one.state];
    gpus += one.gpus;
    used += one.gpus_used;
    silent += !one.agent.empty() && !one.off && !one.power ? 1 : 0;
    all_measured = all_measured && (one.power || one.off);
    measured += one.off ? Watts(0.0) : one.power.value_or(Watts(0.0));
  }
  for (const auto& [state, count] : jobs) text.add("flyball_cluster_jobs", {{"state", state}}, count);
  for (const auto& [state, count] : nodes) text.add("flyball_cluster_nodes", {{"state", state}}, count);
  add("budget_watts", status.budget.value());
  add("others_watts", status.others.value());
  add("limit_watts", status.limit.value());
  add("counted_watts", status.power.value());
  if (all_measured) add("measured_watts", measured.value());
  add("gpus", gpus);
  add("gpus_used", used);
  add("silent_agents", silent);
  add("decisions_total", static_cast<double>(status.decisions));
  add("cycle_seconds", status.cycle.value());
  add("trouble", status.trouble.empty() ? 0.0 : 1.0);
  return text.text();
}

}  // namespace flyball
