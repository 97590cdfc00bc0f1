// The server's figures in Prometheus' text format.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/units.h"
#include "net/server.h"
#include "server/job_book.h"
#include "wire/metrics_text.h"

namespace flyball {

// What docs/metrics.md lists.
[[nodiscard]] std::span<const MetricInfo> server_metric_registry();

// Cost: linear in the jobs.
[[nodiscard]] std::string server_metrics(const JobBook& book, const ServerCounts& http, std::uint64_t refused_rate,
                                         Seconds uptime);

}  // namespace flyball
