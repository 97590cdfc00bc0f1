// The agent's metrics for Prometheus; docs/metrics.md is made from their table.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "agent/lease_keeper.h"
#include "agent/user_limits.h"
#include "net/server.h"
#include "wire/agent_messages.h"
#include "wire/metrics_text.h"

namespace flyball {

[[nodiscard]] std::span<const MetricInfo> metric_registry();

struct AgentVitals {
  Seconds uptime;
  Seconds cpu_time;  // of this process
  double resident_bytes = 0;
  std::size_t leases = 0;  // the caller fills in this and the next four
  std::size_t sessions = 0;
  std::size_t power_listeners = 0;
  std::size_t late_samples = 0;
  LimitCounts limited;
};
[[nodiscard]] AgentVitals read_vitals();  // fills in what the kernel tells of this process

[[nodiscard]] std::string expose_metrics(const NodeStatus& devices, const LeaseCounts& leases,
                                         const ServerCounts& server, const AgentVitals& vitals);

}  // namespace flyball
