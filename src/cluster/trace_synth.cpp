// Draws arrivals by the hour of the day, sizes by fixed shares and durations from a log-normal distribution.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "cluster/job_trace.h"
#include "cluster/random.h"

namespace flyball {
namespace {

struct SizeShare {
  int gpus;
  double share;
};

// Most jobs ask for one GPU and some for many, as in the published traces of Philly and Alibaba.
constexpr std::array<SizeShare, 4> kLargeSizes = {{{2, 0.12}, {4, 0.10}, {8, 0.06}, {16, 0.02}}};

constexpr double kSpread = 1.3;  // of the logarithm of durations
constexpr double kLeastDuration = 30.0;
constexpr double kMostDuration = 36'000.0;
constexpr double kDaySwing = 0.5;  // arrivals in the busiest hour over the mean, less one

int draw_size(Random& random, double large_jobs) {
  double at = random.uniform();
  for (const SizeShare& size : kLargeSizes) {
    at -= size.share * large_jobs;
    if (at < 0.0) return size.gpus;
  }
  return 1;
}

// The share of the day, in [0, 1), at which a job arrives; most arrive in the afternoon.
double draw_hour(Random& random) {
  while (true) {
    const double at = random.uniform();
    const double density = 1.0 - kDaySwing * std::cos(2.0 * std::numbers::pi * (at - 0.1));
    if (random.uniform() * (1.0 + kDaySwing) < density) return at;
  }
}

}  // namespace

JobTrace synthesize_job_trace(const TraceSynthesis& request) {
  Random random(request.seed);
  JobTrace trace{"synthetic", {}};
  trace.jobs.resize(static_cast<std::size_t>(request.jobs));
  constexpr double kDay = 86400.0;
  const double span = request.span.value();
  for (TraceJob& job : trace.jobs) {
    // If the trace spans several days, every day has its afternoon.
    const double days = std::max(1.0, std::round(span / kDay));
    const double at = (std::floor(random.uniform() * days) + draw_hour(random)) / days * span;
    job.submit = Seconds(std::floor(at));
    job.gpus = draw_size(random, request.large_jobs);
    const double duration = request.median_duration.value() * std::exp(kSpread * random.normal());
    job.duration = Seconds(std::round(std::clamp(duration, kLeastDuration, kMostDuration)));
    if (!request.pool.empty()) {
      const auto& [model, batches] = request.pool[random.below(request.pool.size())];
      job.model = model;
      if (!batches.empty()) job.batch_size = batches[random.below(batches.size())];
    }
  }
  std::stable_sort(trace.jobs.begin(), trace.jobs.end(),
                   [](const TraceJob& a, const TraceJob& b) { return a.submit < b.submit; });
  return trace;
}

}  // namespace flyball
