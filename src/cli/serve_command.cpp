// flyball serve: the planning server.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/processors.h"
#include "base/token_file.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/option_values.h"
#include "cli/tariff_options.h"
#include "cli/tls_options.h"
#include "client/agent_addresses.h"
#include "net/event_loop.h"
#include "server/planning_server.h"
#include "wire/job_messages.h"

namespace flyball {
namespace {

constexpr std::size_t kMostConnections = 65'536;
constexpr std::size_t kOwnDescriptors = 64;  // beyond the connections: the database, the loop, listeners
constexpr Seconds kShortestSilence{300.0};

struct ServeOptions {
  ServeOptions() { server.book.planning_threads = usable_processors() / 2; }

  PlanningServerOptions server;  // options that are taken as they are parsed, and those that server_options() adds
  std::optional<std::string> listen;
  std::optional<std::string> socket;
  std::optional<std::string> database;
  std::optional<std::string> admin_token_file;
  std::optional<std::string> registration_token_file;
  std::optional<std::string> agents;
  std::optional<std::string> agent_token_file;
  std::optional<std::string> agent_ca_file;
  std::optional<std::string> history;
  TlsOptions tls;
  bool no_zeus = false;
  bool in_memory = false;
};

// Each waiting rank has a connection, which takes a descriptor. Connections get all that the system allows, but for the
// server's own files.
std::size_t most_connections() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMostConnections;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= kMostConnections + kOwnDescriptors) return kMostConnections;
  return std::max<std::size_t>(limit.rlim_cur, 2 * kOwnDescriptors) - kOwnDescriptors;
}

// The agents that are asked how their nodes are; none without --agents.
NodeWatchOptions nodes_of(const ServeOptions& options) {
  NodeWatchOptions nodes;
  if (!options.agents) {
    if (!options.agent_token_file && !options.agent_ca_file) return nodes;
    throw UsageError("where the agents are is missing; give --agents");
  }
  nodes.addresses = read_agent_addresses(*options.agents);
  if (options.agent_token_file) nodes.token = read_token_file(*options.agent_token_file);
  nodes.ca_file = options.agent_ca_file.value_or("");
  return nodes;
}

// "server-history.db" beside "server.db".
std::string history_beside(const std::filesystem::path& database) {
  return database.parent_path() / (database.stem().string() + "-history" + database.extension().string());
}

PlanningServerOptions server_options(const ServeOptions& options) {
  PlanningServerOptions server = options.server;
  const HostPort address = parse_host_port("--listen", options.listen.value_or(kDefaultServerAddress));
  server.listen_host = address.host;
  server.listen_port = address.port;
  if (options.socket) {
    server.socket_path = *options.socket;
    if (!options.listen) server.listen_host.clear();
  }
  server.tls = tls_files(options.tls, options.listen || !options.socket);
  if (options.in_memory && options.database) throw UsageError("--in-memory and --database exclude each other");
  if (!options.in_memory) server.database = options.database ? *options.database : default_database("server.db");
  if (options.in_memory && options.history) throw UsageError("--in-memory and --history exclude each other");
  if (!options.in_memory) server.fleet.history = options.history.value_or(history_beside(server.database));
  server.fleet.nodes = nodes_of(options);
  if (server.fleet.controller.address.empty() && !server.fleet.controller.ca_file.empty()) {
    throw UsageError("where the controller is is missing; give --controller");
  }
  if (options.admin_token_file) {
    server.administrator_token = read_own_token_file(*options.admin_token_file, kShortestToken);
  }
  if (options.registration_token_file && server.open_registration) {
    throw UsageError("--registration-token-file and --open-registration exclude each other");
  }
  if (options.registration_token_file) {
    server.registration_token = read_own_token_file(*options.registration_token_file, kShortestToken);
  }
  if (options.no_zeus && !server.zeus_plan.empty()) throw UsageError("--no-zeus and --zeus-plan exclude each other");
  server.zeus = !options.no_zeus;
  if (server.book.silence > Seconds(0) && server.book.silence < kShortestSilence) {
    throw UsageError(
        fmt::format("--expire-after must be at least {} s, or 0: ranks may wait for a minute without a word",
                    kShortestSilence.value()));
  }
  server.log = [](const std::string& words) { print_report(fmt::format("flyball serve: {}\n", words)); };
  server.fleet.log = server.log;
  server.http.connections = most_connections();
  return server;
}

void run(const ServeOptions& options) {
  const PlanningServerOptions chosen = server_options(options);
  EventLoop loop;
  PlanningServer server(loop, chosen);
  std::string where;
  if (server.port() != 0)
    where += fmt::format("listening on {}\n", url_of(chosen.listen_host, server.port(), chosen.tls.has_value()));
  if (!chosen.socket_path.empty()) where += fmt::format("listening on {}\n", chosen.socket_path);
  where += chosen.database.empty()
               ? "jobs are kept in memory only\n"
               : fmt::format("jobs are kept in {} ({} there)\n", chosen.database, server.job_count());
  print_result(where);
  for (const std::string& trouble : server.troubles()) print_report(fmt::format("flyball serve: {}\n", trouble));
  bool stopping = false;
  const auto signals = loop.on_signals({SIGINT, SIGTERM}, [&](int) {
    if (stopping) return loop.stop();
    stopping = true;
    server.stop([&loop] { loop.stop(); });
  });
  loop.run();
}

}  // namespace

void add_serve_command(const Command& program) {
  const Command command = program.add_subcommand("serve", "run the planning server: profiles in, schedules out");
  const auto options = std::make_shared<ServeOptions>();
  add_value(command, "--listen", options->listen, parse_path, "HOST:PORT",
            "address or name to listen on, and TCP port, 0 for a free one (default 127.0.0.1:4940)");
  add_value(command, "--socket", options->socket, parse_path, "PATH",
            "listen on this Unix socket (and on TCP only if --listen is given)");
  add_value(command, "--database", options->database, parse_path, "FILE",
            "SQLite file that jobs are kept in (default ~/.local/state/flyball/server.db)");
  command.add_flag("--in-memory", options->in_memory, "keep jobs in memory only; they end with the server");
  add_value(command, "--history", options->history, parse_path, "FILE",
            "SQLite file that the past of jobs and nodes is kept in (default: beside the database, server-history.db)");
  add_value(command, "--agents", options->agents, parse_path, "FILE",
            "file with lines of a node and its agent's address, such as n1 https://n1:4938: ask these agents each "
            "second how their nodes are");
  add_value(command, "--agent-token-file", options->agent_token_file, parse_path, "FILE",
            "file with the token that the agents ask for over TCP");
  add_value(command, "--agent-ca-file", options->agent_ca_file, parse_path, "FILE",
            "certificates of the authorities that issued the agents' (default: the system's)");
  add_value(
      command, "--controller", options->server.fleet.controller.address, parse_path, "ADDRESS",
      "address of the cluster's controller (flyball cluster run), such as 127.0.0.1:4942: ask it each second what "
      "its jobs have and what it has decided");
  add_value(command, "--controller-ca-file", options->server.fleet.controller.ca_file, parse_path, "FILE",
            "certificates of the authorities that issued the controller's (default: the system's)");
  add_constant_tariff_options(command, options->server.fleet.price_per_kwh, options->server.fleet.carbon_g_per_kwh);
  add_value(command, "--admin-token-file", options->admin_token_file, parse_path, "FILE",
            "file with the administrator's token, readable by its owner only; needed to listen beyond this machine");
  add_value(command, "--registration-token-file", options->registration_token_file, parse_path, "FILE",
            "file with a token with which jobs can be registered, and nothing else; without it, registering takes the "
            "administrator's token beyond this machine, and none on it");
  command.add_flag("--open-registration", options->server.open_registration,
                   "let everybody who reaches the server register jobs, from other machines, too");
  add_tls_options(command, options->tls);
  add_value(command, "--zeus-plan", options->server.zeus_plan, parse_path, "FILE",
            "plan (plan.json of flyball plan) for Zeus clients with the same number of stages");
  command.add_flag("--no-zeus", options->no_zeus, "leave out the interface of Zeus's pipeline frequency server");
  add_value(command, "--jobs", options->server.book.jobs, parse_count, "N", "most jobs at a time (default 1024)");
  add_value(command, "--rate", options->server.requests_per_second, parse_count, "N",
            "most requests per second with the token of one job (plus 20 for each of its ranks), and most of one "
            "client address without a valid token (default 500)");
  add_value(command, "--connections-per-address", options->server.http.connections_per_party, parse_count, "N",
            "most connections of one client address, or of one user on the Unix socket (default 1024)");
  add_value(command, "--planning-threads", options->server.book.planning_threads, parse_count, "N",
            "number of jobs that are planned at a time, at least 2: one thread is kept for short plans (default half "
            "the processors)");
  add_value(command, "--planning-time", options->server.book.planning_time, parse_duration, "TIME",
            "longest time that one plan may take; then the planner is ended, and the job says so (default 600s)");
  add_value(command, "--most-operations", options->server.book.operations, parse_count, "N",
            "most operations of a job that registers: 3 * stages * microbatches * chunks (default 500000, the most "
            "there is)");
  add_value(
      command, "--total-operations", options->server.book.total_operations, parse_count, "N",
      "most operations of all jobs together (default 2000000); plans take some 300 bytes of memory for each operation");
  add_value(command, "--expire-after", options->server.book.silence, parse_duration_or_zero, "TIME",
            "time after which a job is deleted when none of its ranks has been heard from, 0: never (default 86400s)");
  add_value(command, "--lost-after", options->server.book.lost_after, parse_duration_or_zero, "TIME",
            "time after which a job counts as lost when none of its ranks has been heard from, 0: never (default 90s)");
  command.footer(
      "Answers survive kill -9: what was acknowledged is in the database.\n"
      "SIGTERM and Ctrl-C stop it after the requests under way.\n\n"
      "Examples:\n"
      "  flyball serve\n"
      "  flyball serve --listen 10.0.0.1:4940 --admin-token-file /etc/flyball/token\n"
      "  flyball serve --listen 10.0.0.1:4940 --admin-token-file /etc/flyball/token --tls-cert cert.pem --tls-key "
      "key.pem\n"
      "  curl http://127.0.0.1:4940/openapi.yaml");
  command.callback([options] { run(*options); });
}

}  // namespace flyball
