// flyball agent: the node's daemon.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "agent/absent_gpu.h"
#include "agent/agent.h"
#include "agent/log.h"
#include "base/error.h"
#include "base/token_file.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/option_values.h"
#include "client/measurement.h"
#include "driver/patience.h"

namespace flyball {
namespace {

// Tokens are guessed over the network: 16 hexadecimal digits, the weakest that one draws, take some 10^19 tries.
constexpr std::size_t kShortestAgentToken = 16;
constexpr Seconds kMostToRestore{5.0};
constexpr Seconds kForEver{1e9};
constexpr Seconds kLook{1.0};  // how often to look whether a library that hung has answered

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
  if (!config.token_file.empty()) config.token = read_own_token_file(config.token_file, kShortestAgentToken);
  check_agent_config(config);
  return config;
}

MachineDevices look_for_devices() {
  MachineDevices machine = open_machine();
  for (const DeviceError& error : machine.unavailable) {
    if (!machine.misses(error)) continue;
    log_event(LogLevel::kNotice, "not_available", {{"device", error.device()}, {"reason", error.what()}});
  }
  if (machine.gpus.empty() && machine.cpus.empty()) {
    log_event(LogLevel::kWarning, "no_devices", {{"hint", "flyball devices says what is missing"}});
  }
  return machine;
}

// Waits, in a thread of its own, for a vendor's library that hangs before it has said how many GPUs it has. Returns
// nothing if every library has said so: its GPUs that hang have their numbers and come back by themselves
// (absent_gpu.h).
std::optional<PendingAnswer<void>> ask_library_that_hangs(const MachineDevices& machine) {
  const auto hangs = std::count_if(machine.unavailable.begin(), machine.unavailable.end(),
                                   [](const auto& error) { return error.fault() == DeviceFault::kTimeout; });
  const auto devices = std::count_if(machine.refused.begin(), machine.refused.end(),
                                     [](const auto& gpu) { return gpu.why.fault() == DeviceFault::kTimeout; });
  if (hangs == devices) return std::nullopt;
  return PendingAnswer<void>([] {
    MachineOptions options;
    options.cpus = false;
    options.patience = kForEver;
    static_cast<void>(open_machine(options));
  });
}

enum class End { kAllRestored, kSomeLeft, kLibraryAnswers };

// Runs one agent, from looking for devices until it is told to stop, or until a library that hung answers. Then the
// GPUs get their numbers anew, for which there must be no lease.
End serve(const AgentConfig& config) {
  End end = End::kAllRestored;
  EventLoop loop;
  bool stopping = false;
  bool told_to_stop = false;
  std::optional<Agent> agent;
  const auto stop = [&] {
    if (std::exchange(stopping, true)) return;
    agent->stop(kMostToRestore, [&](bool all) {
      end = !all ? End::kSomeLeft : told_to_stop ? End::kAllRestored : End::kLibraryAnswers;
      loop.stop();
    });
  };
  // The signals are caught before the agent is there, so that one that comes while it restores is not missed.
  const auto signals = loop.on_signals({SIGTERM, SIGINT, SIGHUP, SIGQUIT}, [&](int) {
    if (std::exchange(told_to_stop, true)) return;
    notify_service_manager("STOPPING=1");
    log_event(LogLevel::kInfo, "stopping");
    stop();
  });
  const MachineDevices machine = look_for_devices();
  agent.emplace(loop, config, AgentDevices{with_absent_gpus(machine.gpus, machine.refused), machine.cpus});
  const auto library = ask_library_that_hangs(machine);
  const auto look = loop.every(kLook, [&] {
    if (!library || !library->arrived() || stopping || !agent->idle()) return;
    log_event(LogLevel::kNotice, "driver_answers_again", {{"next", "look for devices anew"}});
    stop();
  });
  notify_service_manager("READY=1");
  loop.run();
  return end;
}

void run_agent(const AgentOptions& options) {
  const AgentConfig config = config_of(options);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error like a full disk, not the end
  if (::geteuid() != 0) {
    log_event(LogLevel::kWarning, "not_root", {{"effect", "drivers will refuse to set clocks; reading works"}});
  }
  End end = End::kLibraryAnswers;
  while (end == End::kLibraryAnswers) end = serve(config);
  if (end == End::kAllRestored) return;
  print_error("some GPUs are not at their defaults; the next start of the agent restores them");
  // A driver that hangs keeps its thread, and an ordinary exit would wait for it.
  ::_exit(1);
}

}  // namespace

void add_agent_command(const Command& program) {
  const Command command =
      program.add_subcommand("agent", "own this node's GPUs: lease their clocks, stream their power");
  const auto options = std::make_shared<AgentOptions>();
  add_value(command, "--config", options->config, parse_path, "FILE",
            "TOML file with these options, and with who may set what");
  add_value(command, "--socket", options->socket, parse_path, "PATH",
            "Unix socket to listen on (default /run/flyball/agent.sock)");
  add_value(command, "--tcp", options->tcp, parse_path, "HOST:PORT", "TCP address to listen on, besides the socket");
  add_value(command, "--token-file", options->token_file, parse_path, "FILE",
            "file with the token that TCP clients must show; needed to listen beyond loopback");
  add_value(command, "--state-dir", options->state_dir, parse_path, "DIR",
            "folder in which the agent notes what it may have changed (default /var/lib/flyball)");
  add_value(command, "--period", options->period, parse_duration, "TIME",
            "time between two samples of the power stream (default 4ms; processors, and GPUs that take long to answer, "
            "less often where that would cost more than 0.1 % of the node)");
  command.add_flag("--no-zeusd", options->no_zeusd, "leave out the interface of zeusd");
  command.footer(
      "Runs until SIGTERM or Ctrl-C, then brings every GPU back to its defaults. Needs\n"
      "root to set clocks. See docs/manual/agent.md.\n\n"
      "Examples:\n"
      "  sudo flyball agent\n"
      "  flyball agent --socket /tmp/agent.sock --state-dir /tmp/agent-state\n"
      "  sudo flyball agent --tcp 0.0.0.0:4938 --token-file /etc/flyball/token");
  command.callback([options] { run_agent(*options); });
}

}  // namespace flyball
