// The node's agent, which owns the devices, leases their clocks, streams their power and tells their state over HTTP.
//
// Everything but the vendors' calls happens in the loop's thread. When a lease ends, whatever ends it (its holder's
// death, silence or wish), the agent brings the GPUs' clocks and power limits back to what held before. If the agent
// itself is killed, its next start does so.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "agent/agent_config.h"
#include "driver/cpu.h"
#include "driver/gpu.h"
#include "net/event_loop.h"

namespace flyball {

struct AgentDevices {
  std::vector<std::shared_ptr<GpuDevice>> gpus;
  std::vector<std::shared_ptr<CpuDevice>> cpus;
};

// Methods must be called in the loop's thread, or while the loop does not run. The agent may be destroyed only after
// the loop has stopped for good.
class Agent {
 public:
  // Takes the state folder's lock, restores what its journal names, then listens. Throws SystemError, UsageError.
  Agent(EventLoop& loop, AgentConfig config, const AgentDevices& devices);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Ends all leases, waits (at most `most`) until the settings of every GPU are restored, closes all connections, and
  // calls `done`.
  void stop(Seconds most, std::function<void(bool all_restored)> done);

  [[nodiscard]] bool idle() const;               // no lease is held, and no setting is being undone
  [[nodiscard]] std::uint16_t tcp_port() const;  // 0 where there is none

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flyball
