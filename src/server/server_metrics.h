// Writes the server's figures in Prometheus' text format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/units.h"
#include "net/server.h"
#include "server/job_book.h"
#include "wire/metrics_text.h"

namespace flyball {

// The table that docs/metrics.md lists.
[[nodiscard]] std::span<const MetricInfo> server_metric_registry();

// Returns all figures, those of single jobs only if `of_jobs`. `zeus_waiting` is the number of requests of Zeus's
// clients that wait for a schedule. Cost: linear in the jobs.
[[nodiscard]] std::string server_metrics(const JobBook& book, bool of_jobs, std::size_t zeus_waiting,
                                         const ServerCounts& http, std::uint64_t refused_rate, Seconds uptime);

}  // namespace flyball
