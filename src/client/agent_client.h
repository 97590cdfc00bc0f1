// The client of the node's agent.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "net/client.h"
#include "wire/agent_messages.h"

namespace flyball {

// Thrown where the agent refuses a request; `status` is HTTP's (403 not allowed, 409 held by another, 507 no journal).
class AgentRefusal : public SystemError {
 public:
  AgentRefusal(unsigned status, const std::string& what) : SystemError(what), status_(status) {}
  [[nodiscard]] unsigned status() const { return status_; }

 private:
  unsigned status_;
};

// Returns what FLYBALL_AGENT names ("/path/to/socket", "host:port"), else the default socket.
[[nodiscard]] Endpoint default_agent_endpoint();
// Returns the token for TCP, from FLYBALL_AGENT_TOKEN; empty where that is not set.
[[nodiscard]] std::string default_agent_token();

// A lease that is held: its GPUs may be set by this process and by nobody else. A thread sends the heartbeats, over a
// connection of the lease's own. When the lease ends (by release(), by destruction, or by the end of this process,
// however it comes), the agent brings the GPUs back to what held before; where the request had a lost_power_limit,
// every end but release() leaves that behind. Thread-safe. A call takes as long as the
// driver's, about 10 ms.
class AgentLease {
 public:
  ~AgentLease();  // gives the lease back by closing its connection, without waiting
  AgentLease(AgentLease&&) noexcept;
  AgentLease& operator=(AgentLease&&) = delete;

  // The next four throw AgentRefusal or SystemError.
  void change(std::size_t gpu, const SettingsChange& change);
  void lock_sm_clocks(std::size_t gpu, ClockBounds clocks);
  void reset_sm_clocks(std::size_t gpu);
  void release();  // gives the lease back, and returns when the GPUs are restored

  [[nodiscard]] const LeaseInfo& info() const;  // as granted
  // Returns why the lease was lost (the agent went away, a GPU fell off the bus); empty while it is held.
  [[nodiscard]] std::string lost() const;

 private:
  friend class AgentClient;
  class Impl;
  explicit AgentLease(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Not thread-safe.
class AgentClient {
 public:
  explicit AgentClient(const Endpoint& endpoint = default_agent_endpoint(),
                       const std::string& token = default_agent_token());
  // With a time limit for each call, and with the authorities that may have issued an https:// agent's certificate.
  AgentClient(const Endpoint& endpoint, HttpClient::Options how);

  // All functions throw AgentRefusal, or SystemError where there is no agent.
  [[nodiscard]] NodeStatus devices();
  // Returns the clocks that a lease may set, highest first, without those that the agent's configuration allows to
  // nobody, and the power limits that this user may set.
  [[nodiscard]] GpuClocks clocks(std::size_t gpu);
  // Takes a lease, which has a connection of its own and may outlive the client.
  [[nodiscard]] AgentLease lease(const LeaseRequest& request);
  // Ends a lease that this client need not have taken, as an operator may, and returns when its GPUs are as before it.
  // AgentRefusal has status 403 where this user may not, 404 where there is no such lease, 410 where it has ended.
  void end_lease(const std::string& id);
  // Lifts the cap of a GPU and returns it. AgentRefusal has status 404 where there is none.
  Cap lift_cap(std::size_t gpu);

  // The rest is for this user's account sessions, whose power traces the agent records. Start and stop wait for the
  // sensors, half a second at most. AgentRefusal has status 404 where there is no such session, 409 where it records
  // already, and 429 where there are too many.
  AccountSessionInfo start_session(const AccountSessionRequest& request);
  AccountSessionInfo stop_session(const std::string& name);
  void drop_session(const std::string& name);
  [[nodiscard]] AccountSessionInfo session(const std::string& name);
  [[nodiscard]] std::vector<AccountSessionInfo> sessions();
  // Reads the session's power trace so far (docs/formats/power-trace.md), 64 MiB at most. The first form calls
  // `on_piece` with pieces of whole lines of about a MiB until it returns false; the second returns all at once.
  void session_trace(const std::string& name, const std::function<bool(const std::string&)>& on_piece);
  [[nodiscard]] std::string session_trace(const std::string& name);

 private:
  HttpClient::Options how_;
  HttpClient http_;
};

}  // namespace flyball
