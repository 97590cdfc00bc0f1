// The agent's metrics for Prometheus. One table holds every metric's name, kind, unit and help; the exposition and
// docs/metrics.md are made from it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/lease_keeper.h"
#include "net/server.h"
#include "wire/agent_messages.h"

namespace flyball {

enum class MetricKind { kGauge, kCounter };

struct MetricInfo {
  const char* name;  // ends with its unit, as Prometheus asks; a counter's with _total
  MetricKind kind;
  const char* unit;    // "W", "J", "Hz"; "1" for counts, ratios and flags
  const char* labels;  // "gpu, uuid"; empty for none
  const char* help;
};

[[nodiscard]] std::span<const MetricInfo> metric_registry();
// The table as docs/metrics.md holds it.
[[nodiscard]] std::string metrics_as_markdown();

// Prometheus' text format 0.0.4. A metric that the registry does not hold cannot be written: std::logic_error.
class Exposition {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  void add(std::string_view name, Labels labels, double value);
  [[nodiscard]] std::string text() const;  // metrics in the registry's order; those without a sample are left out

 private:
  std::vector<std::string> samples_ = std::vector<std::string>(metric_registry().size());
};

struct AgentVitals {
  Seconds uptime;
  Seconds cpu_time;  // of this process
  double resident_bytes = 0;
  std::size_t leases = 0;  // this and the next two: the caller's to fill
  std::size_t power_listeners = 0;
  std::size_t late_samples = 0;
};
[[nodiscard]] AgentVitals read_vitals();  // what the kernel says of this process

[[nodiscard]] std::string expose_metrics(const NodeStatus& devices, const LeaseCounts& leases,
                                         const ServerCounts& server, const AgentVitals& vitals);

}  // namespace flyball
