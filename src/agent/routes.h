// The agent's routes: its own interface below /v1, and zeusd's. Included by this folder only.
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

// Remembers who asks on each connection. The process is looked up in /proc at the first request only: later its number
// may belong to another process, and for a process with thousands of threads the kernel takes long to answer. May be
// used in the loop's thread only.
class Claimants {
 public:
  [[nodiscard]] const Claimant& of(const Peer& peer);
  void forget(std::uint64_t connection) { known_.erase(connection); }

 private:
  std::map<std::uint64_t, Claimant> known_;
};

// The parts of the agent with which the routes work; all must outlive the router.
struct AgentParts {
  EventLoop& loop;
  const AgentConfig& config;
  LeaseKeeper& keeper;
  DeviceMonitor& monitor;
  PowerFeed& feed;
  PowerFeed& glances;  // for clients that only look at the latest power
  AccountSessions& sessions;
  UserBudgets& budgets;
  Claimants& claimants;
  std::function<ServerCounts()> server_counts;
};

void add_v1_routes(Router& router, const AgentParts& parts);
void add_session_routes(Router& router, const AgentParts& parts);
void add_zeusd_routes(Router& router, const AgentParts& parts);

// Throws HttpError 429 for a user who sends too many requests.
void check_budget(const AgentParts& parts, const Request& request);

// Throws HttpError 401 for a TCP client without the token where one is needed; some paths are open to all.
void check_token(const AgentConfig& config, const Request& request);

// Throws HttpError 400 for a query parameter of another name.
void refuse_other_queries(const Request& request, std::initializer_list<std::string_view> known);

// Returns the HTTP status that fits an error: LeaseRefused, DeviceError, and those that net/ knows.
[[nodiscard]] unsigned agent_status_of(const std::exception& error);
// Makes an RFC 9457 problem of an error; a refusal says who holds the GPU.
[[nodiscard]] Response agent_problem(const std::exception& error);

}  // namespace flyball
