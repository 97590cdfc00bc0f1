// What the agent answers: its own interface below /v1 and zeusd's. Included by this folder only.
#pragma once

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "agent/account_sessions.h"
#include "agent/agent_config.h"
#include "agent/device_monitor.h"
#include "agent/lease_keeper.h"
#include "agent/power_feed.h"
#include "net/router.h"
#include "net/server.h"

namespace flyball {

// Who asks on each connection, looked up in /proc with its first request: later the process may be another of the same
// number, and of one with thousands of threads the kernel takes long to tell. Loop's thread only.
class Claimants {
 public:
  [[nodiscard]] const Claimant& of(const Peer& peer);
  void forget(std::uint64_t connection) { known_.erase(connection); }

 private:
  std::map<std::uint64_t, Claimant> known_;
};

// What the routes work with; all of it outlives the router.
struct AgentParts {
  EventLoop& loop;
  const AgentConfig& config;
  LeaseKeeper& keeper;
  DeviceMonitor& monitor;
  PowerFeed& feed;
  PowerFeed& glances;  // for who only looks at the latest power
  AccountSessions& sessions;
  UserBudgets& budgets;
  Claimants& claimants;
  std::function<ServerCounts()> server_counts;
};

void add_v1_routes(Router& router, const AgentParts& parts);
void add_session_routes(Router& router, const AgentParts& parts);
void add_zeusd_routes(Router& router, const AgentParts& parts);

// Refuses a user who asks too much, by HttpError 429.
void check_budget(const AgentParts& parts, const Request& request);

// Refuses a TCP client without the token where one is asked for; some paths are open to all.
void check_token(const AgentConfig& config, const Request& request);

// Throws HttpError 400 for a query parameter of another name.
void refuse_other_queries(const Request& request, std::initializer_list<std::string_view> known);

// The status that fits a fault: LeaseRefused and DeviceError as well as what net knows.
[[nodiscard]] unsigned agent_status_of(const std::exception& error);
// As RFC 9457 problems; a refusal says who holds the GPU.
[[nodiscard]] Response agent_problem(const std::exception& error);

}  // namespace flyball
