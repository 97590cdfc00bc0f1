// flyball agent: the node's daemon.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "agent/agent.h"
#include "agent/log.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/option_values.h"
#include "client/measurement.h"

namespace flyball {
namespace {

constexpr Seconds kMostToRestore{5.0};

struct AgentOptions {
  std::optional<std::string> config;
  std::optional<std::string> socket;
  std::optional<std::string> tcp;
  std::optional<std::string> token_file;
  std::optional<std::string> state_dir;
  std::optional<Seconds> period;
  bool no_zeusd = false;
};

AgentConfig config_of(const AgentOptions& options) {
  AgentConfig config;
  if (options.config) read_agent_config(*options.config, config);
  if (options.socket) config.socket_path = *options.socket;
  if (options.tcp) config.tcp = parse_host_port("--tcp", *options.tcp);
  if (options.token_file) config.token_file = *options.token_file;
  if (options.state_dir) config.state_dir = *options.state_dir;
  if (options.period) config.period = *options.period;
  if (options.no_zeusd) config.zeusd = false;
  if (!config.token_file.empty()) config.token = read_token(config.token_file);
  check_agent_config(config);
  return config;
}

AgentDevices open_devices() {
  const MachineDevices machine = open_machine();
  for (const DeviceError& error : machine.unavailable) {
    log_event(LogLevel::kNotice, "not_available", {{"device", error.device()}, {"reason", error.what()}});
  }
  if (machine.gpus.empty() && machine.cpus.empty()) {
    log_event(LogLevel::kWarning, "no_devices", {{"hint", "flyball devices says what is missing"}});
  }
  if (::geteuid() != 0) {
    log_event(LogLevel::kWarning, "not_root", {{"effect", "drivers will refuse to set clocks; reading works"}});
  }
  return {machine.gpus, machine.cpus};
}

void run_agent(const AgentOptions& options) {
  const AgentConfig config = config_of(options);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error like a full disk, not the end
  bool all_restored = true;
  {
    EventLoop loop;
    bool stopping = false;
    std::optional<Agent> agent;
    // Before the agent is there: a signal that comes while it restores must not go by.
    const auto signals = loop.on_signals({SIGTERM, SIGINT, SIGHUP, SIGQUIT}, [&](int) {
      if (stopping) return;
      stopping = true;
      notify_service_manager("STOPPING=1");
      log_event(LogLevel::kInfo, "stopping");
      agent->stop(kMostToRestore, [&](bool all) {
        all_restored = all;
        loop.stop();
      });
    });
    agent.emplace(loop, config, open_devices());
    notify_service_manager("READY=1");
    loop.run();
  }
  if (all_restored) return;
  print_error("some GPUs are not at their defaults; the next start of the agent restores them");
  // A driver that hangs keeps its thread: leaving by the front door would wait for it.
  ::_exit(1);
}

}  // namespace

void add_agent_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("agent", "own this node's GPUs: lease their clocks, stream their power");
  const auto options = std::make_shared<AgentOptions>();
  add_value(*command, "--config", options->config, parse_path, "FILE", "TOML with these options and who may set what");
  add_value(*command, "--socket", options->socket, parse_path, "PATH",
            "Unix socket to listen on (default /run/flyball/agent.sock)");
  add_value(*command, "--tcp", options->tcp, parse_path, "HOST:PORT", "listen there as well");
  add_value(*command, "--token-file", options->token_file, parse_path, "FILE",
            "what TCP clients must show; needed beyond loopback");
  add_value(*command, "--state-dir", options->state_dir, parse_path, "DIR",
            "where it notes what it may have changed (default /var/lib/flyball)");
  add_value(*command, "--period", options->period, parse_duration, "TIME",
            "of the power stream's samples (default 4ms)");
  command->add_flag("--no-zeusd", options->no_zeusd, "do not speak the interface of zeusd");
  command->footer(
      "Runs until SIGTERM or Ctrl-C, then brings every GPU back to its defaults. Needs\n"
      "root to set clocks. See docs/manual/agent.md.\n\n"
      "Examples:\n"
      "  sudo flyball agent\n"
      "  flyball agent --socket /tmp/agent.sock --state-dir /tmp/agent-state\n"
      "  sudo flyball agent --tcp 0.0.0.0:4938 --token-file /etc/flyball/token");
  command->callback([options] { run_agent(*options); });
}

}  // namespace flyball
