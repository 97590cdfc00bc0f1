// A planning server is asked for its nodes, and of each job that a lease of theirs names for its plan and savings.
#include "cli/top_source.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <memory>
#include <set>
#include <utility>

#include "agent/node_reader.h"
#include "base/error.h"
#include "base/token_file.h"
#include "client/agent_client.h"
#include "client/measurement.h"
#include "client/plan_server.h"
#include "wire/fleet_messages.h"

namespace flyball {
namespace {

TopSource agent_source(const Endpoint& endpoint) {
  const auto client = std::make_shared<AgentClient>(endpoint);
  return {"agent at " + endpoint.text(), false, [client] { return TopLook{{{client->devices()}}}; }};
}

TopSource direct_source() {
  const MachineDevices machine = open_machine();
  const auto reader = std::make_shared<NodeReader>(machine, machine.cpus);
  return {"read from the devices; without an agent there are no leases", false,
          [reader] { return TopLook{{{reader->read()}}}; }};
}

// A node that is silent has no readings: the last ones are not those of now.
TopLook::Node node_of(const WatchedNode& told) {
  TopLook::Node node;
  node.status.node = told.node;
  node.status.version = told.version;
  if (told.silent) {
    const std::string since = told.age ? fmt::format("for {:.0f} s", told.age->value()) : "it has never answered";
    node.silent = told.trouble.empty() ? since : fmt::format("{}: {}", since, told.trouble);
  }
  for (const WatchedGpu& gpu : told.gpus) {
    GpuStatus status = status_of(gpu);
    if (told.silent) {
      status.power.reset();
      status.sm_clock.reset();
      status.temperature_celsius.reset();
      status.utilisation.reset();
      status.throttle_reasons.clear();
    }
    node.status.gpus.push_back(std::move(status));
  }
  return node;
}

std::map<std::string, TopJob> jobs_of(PlanServer& server, const std::set<std::string>& ids) {
  std::map<std::string, TopJob> jobs;
  for (const std::string& id : ids) {
    try {
      const JobStatus status = server.status(id);
      TopJob& job = jobs[id];
      job.version = status.version;
      job.promise = status.promise.verdict;
      if (status.promise.measured_saving_error_pct > 0.0) job.saving_pct = status.promise.measured_saving_pct;
      for (const JobRankStatus& rank : server.ranks(id).ranks) job.stages[rank.rank] = rank.pp_rank;
    } catch (const ServerRefusal& refusal) {
      if (refusal.status() != 404) throw;  // a job of another server
    }
  }
  return jobs;
}

TopSource server_source(const TopSourceOptions& options) {
  const std::string token = options.token_file ? read_token_file(*options.token_file) : std::string();
  const auto server = std::make_shared<PlanServer>(*options.server, token, Seconds(0), options.ca_file.value_or(""));
  return {"planning server at " + *options.server, true, [server] {
            TopLook look;
            std::set<std::string> jobs;
            for (const WatchedNode& node : server->nodes().nodes) {
              look.nodes.push_back(node_of(node));
              for (const WatchedGpu& gpu : node.gpus) {
                if (!gpu.job.empty()) jobs.insert(gpu.job);
              }
            }
            look.jobs = jobs_of(*server, jobs);
            return look;
          }};
}

}  // namespace

TopSource choose_source(const TopSourceOptions& options) {
  if (options.direct && options.agent) throw UsageError("--direct and --agent exclude each other");
  if (options.server && (options.direct || options.agent)) {
    throw UsageError("--server excludes --agent and --direct: the server asks the agents of its own list");
  }
  if (options.server) return server_source(options);
  if (options.token_file || options.ca_file) throw UsageError("--token-file and --ca-file are for --server");
  if (options.direct) return direct_source();
  if (options.agent) return agent_source(parse_endpoint(*options.agent));
  const Endpoint usual = default_agent_endpoint();
  struct stat there {};
  const bool agent_runs = usual.socket_path.empty() || ::stat(usual.socket_path.c_str(), &there) == 0;
  return agent_runs ? agent_source(usual) : direct_source();
}

}  // namespace flyball
