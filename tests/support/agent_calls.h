// What only tests ask of the agent, over the interface that its users have.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.h"
#include "base/record.h"
#include "client/agent_client.h"
#include "net/client.h"
#include "support/event_stream.h"
#include "wire/agent_messages.h"

namespace flyball::testing {

// Of simulated machines: a clock change takes half a millisecond.
inline constexpr double kTimeScale = 20.0;
inline constexpr uid_t kNobody = 65534;
inline constexpr ClockBounds kSlow{Megahertz(1005), Megahertz(1005)};

inline std::string answer_at(const Endpoint& agent, std::string_view target) {
  const Response response = HttpClient(agent).request("GET", target);
  EXPECT_EQ(response.status, 200u) << response.body;
  return response.body;
}

inline std::string metrics_at(const Endpoint& agent) { return answer_at(agent, "/metrics"); }

inline std::vector<LeaseInfo> leases_at(const Endpoint& agent) {
  return read_message<LeaseList>(parse_json("the agent's answer", answer_at(agent, "/v1/leases"))).leases;
}

// Calls `on_samples` every hundredth of a second with the new samples, until it returns false.
inline void stream_power(const Endpoint& agent, const std::string& devices,
                         const std::function<bool(const std::vector<PowerPoint>&)>& on_samples) {
  follow_events(RawSocket(agent.socket_path), "/v1/power?interval=0.01s" + devices, [&](const ServerEvent& event) {
    return event.name != "power" ||
           on_samples(read_message<PowerEvent>(parse_json("the power stream", event.data)).samples);
  });
}

inline void set_power_limit(AgentLease& lease, std::size_t gpu, Watts limit) {
  SettingsChange change;
  change.power_limit = limit;
  lease.change(gpu, change);
}

inline void reset_power_limit(AgentLease& lease, std::size_t gpu) {
  SettingsChange change;
  change.power_limit = std::optional<Watts>();
  lease.change(gpu, change);
}

// What a call is refused with: status and words; 0 where it is not.
struct Refusal {
  unsigned status = 0;
  std::string words;
};
template <class Action>
Refusal refusal_of(Action action) {
  try {
    action();
  } catch (const AgentRefusal& refusal) {
    return {refusal.status(), refusal.what()};
  }
  return {};
}

// Runs the action in a process of its own, as user nobody where `uid` is given. Its result, 99 where it throws.
inline int in_other_process(const std::function<int()>& action, std::optional<uid_t> uid = {}) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (uid && (::setgid(*uid) != 0 || ::setuid(*uid) != 0)) ::_exit(98);
    try {
      ::_exit(action());
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(99);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

inline bool is_root() { return ::geteuid() == 0; }

}  // namespace flyball::testing
