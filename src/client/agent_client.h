// What a process asks of the node's agent.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "net/client.h"
#include "wire/account_session_messages.h"
#include "wire/agent_messages.h"

namespace flyball {

// The agent said no; `status` is HTTP's (403 not allowed, 409 held by another, 507 no journal, ...).
class AgentRefusal : public SystemError {
 public:
  AgentRefusal(unsigned status, const std::string& what) : SystemError(what), status_(status) {}
  [[nodiscard]] unsigned status() const { return status_; }

 private:
  unsigned status_;
};

// What FLYBALL_AGENT names ("/path/to/socket", "host:port"), else the default socket.
[[nodiscard]] Endpoint default_agent_endpoint();
// The token for TCP: what FLYBALL_AGENT_TOKEN holds.
[[nodiscard]] std::string default_agent_token();

// A lease held: GPUs that this process, and nobody else, may set. A thread of its own sends the heartbeats over the
// lease's own connection. Its end (release(), destruction, or the end of this process however it comes) brings the GPUs
// back to their defaults. Thread-safe; a call takes as long as the driver's, about 10 ms.
class AgentLease {
 public:
  ~AgentLease();  // gives it back; what goes wrong then is the agent's to mend
  AgentLease(AgentLease&&) noexcept;
  AgentLease& operator=(AgentLease&&) = delete;

  // All throw AgentRefusal or SystemError.
  void change(std::size_t gpu, const SettingsChange& change);
  void lock_sm_clocks(std::size_t gpu, ClockBounds clocks);
  void reset_sm_clocks(std::size_t gpu);
  void set_power_limit(std::size_t gpu, Watts limit);
  void reset_power_limit(std::size_t gpu);
  void release();  // returns when the GPUs are at their defaults

  [[nodiscard]] const LeaseInfo& info() const;  // as granted
  // Why it was lost (the agent went away, a GPU fell off the bus); empty while it is held.
  [[nodiscard]] std::string lost() const;

 private:
  friend class AgentClient;
  class Impl;
  explicit AgentLease(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One thread at a time, but for interrupt().
class AgentClient {
 public:
  explicit AgentClient(const Endpoint& endpoint = default_agent_endpoint(), std::string token = default_agent_token());
  ~AgentClient();
  AgentClient(const AgentClient&) = delete;
  AgentClient& operator=(const AgentClient&) = delete;

  // All throw AgentRefusal, or SystemError where there is no agent.
  [[nodiscard]] NodeStatus devices();
  [[nodiscard]] std::vector<LeaseInfo> leases();
  [[nodiscard]] std::string metrics();
  // Those that a lease may set, highest first: without those that the agent's configuration keeps from all.
  [[nodiscard]] std::vector<Megahertz> sm_clocks(std::size_t gpu);
  // On a connection of its own; outlives the client.
  [[nodiscard]] AgentLease lease(const LeaseRequest& request);

  // Samples as they come, a few times a second (every `interval`), until `on_samples` returns false or interrupt().
  // `devices` empty: all ("GPU:0", "CPU:0", "DRAM:0"). Times are of the node's CLOCK_MONOTONIC.
  void stream_power(const std::vector<std::string>& devices, Seconds interval,
                    const std::function<bool(const std::vector<PowerPoint>&)>& on_samples);
  void interrupt();  // any thread

  // This user's sessions, whose power traces the agent records. Start and stop wait for the sensors, half a second at
  // most. AgentRefusal: 404 no such session, 409 it records already, 429 too many.
  AccountSessionInfo start_session(const AccountSessionRequest& request);
  AccountSessionInfo stop_session(const std::string& name);
  void drop_session(const std::string& name);
  [[nodiscard]] AccountSessionInfo session(const std::string& name);
  [[nodiscard]] std::vector<AccountSessionInfo> sessions();
  // Its power trace so far (docs/formats/power-trace.md), 64 MiB at most. In pieces of whole lines of about a MiB,
  // until `on_piece` returns false; or all of it.
  void session_trace(const std::string& name, const std::function<bool(const std::string&)>& on_piece);
  [[nodiscard]] std::string session_trace(const std::string& name);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flyball
