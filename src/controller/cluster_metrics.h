// Writes the figures of a cluster's controller in Prometheus' text format.
#pragma once

#include <span>
#include <string>

#include "wire/cluster_messages.h"
#include "wire/metrics_text.h"

namespace flyball {

// The table that docs/metrics.md lists.
[[nodiscard]] std::span<const MetricInfo> cluster_metric_registry();

// Returns all figures of a status. Cost: linear in its jobs and nodes.
[[nodiscard]] std::string cluster_metrics(const ClusterRunStatus& status);

}  // namespace flyball
