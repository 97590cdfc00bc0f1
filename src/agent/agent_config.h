// The settings of an agent, as its configuration file and its command line give them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "agent/account_sessions.h"
#include "agent/gpu_control.h"
#include "agent/gpu_rules.h"
#include "agent/journal.h"
#include "agent/lease_table.h"
#include "agent/user_limits.h"
#include "net/server.h"

namespace flyball {

struct AgentConfig {
  std::string socket_path = kAgentSocket;  // empty: no Unix socket
  unsigned socket_mode = 0666;             // who may connect; what they may set is `access`
  std::optional<HostPort> tcp;
  std::filesystem::path token_file;
  std::string tls_cert;  // PEM files of a certificate and its key: TCP speaks TLS only; empty: it is not encrypted
  std::string tls_key;
  std::string token;  // what read_token_file() found; empty: none is asked for, and TCP clients may set nothing
  std::filesystem::path state_dir = "/var/lib/flyball";
  MachineBoot boot = boot_of_machine();  // stands in the journal's entries; the file has no key for it
  std::optional<Seconds> period;         // of the sampler; none: its default, at no more than its usual cost
  bool zeusd = true;                     // whether to speak zeusd's interface, too
  Seconds zeusd_remote_hold{0.0};        // how long a setting made through it over TCP lasts; 0: refused
  bool zeusd_shared = false;             // whether a user's processes may change what another of them set through it
  AccessRules access;
  NodeRules gpus;
  ServerLimits limits{.connections_per_party = 1024};
  UserLimits per_user;
  ControlOptions control;
  AccountSessionLimits sessions;
};

// Both functions read TOML and set the members of `config` that it names; the others stay as they are. They throw
// InputError with line and column, or SystemError where the file cannot be read.
void read_agent_config(const std::string& path, AgentConfig& config);
void read_agent_config(const std::string& source, std::string_view text, AgentConfig& config);

// Throws UsageError where members contradict one another, such as an address that others can reach without a token.
void check_agent_config(const AgentConfig& config);

}  // namespace flyball
