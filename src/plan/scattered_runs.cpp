// Factors are exp(s z - s^2 / 2) with z normal: of mean 1, and of deviation r where s^2 = ln(1 + r^2).
#include "plan/scattered_runs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "pipeline/timeline.h"
#include "profile/smooth_curve.h"

namespace flyball {
namespace {

constexpr std::uint64_t kSeed = 20240611;
constexpr int kMostPairs = 100;
constexpr int kLeastPairs = 4;
// No iteration takes more than 2e9 s (ComputationDag), and four times that is still counted in nanoseconds. A normal
// draw of four deviations is beyond it where a run's deviation is above 40 % of its mean.
constexpr double kMostTimes = 4.0;
constexpr int kMostNodes = 20'000'000;  // that are replayed for each side of the pairs

}  // namespace

ScatteredRuns::ScatteredRuns(std::vector<double> shares) : sigmas_(std::move(shares)) {
  for (double& one : sigmas_) {
    one = one >= kLeast ? std::sqrt(std::log1p(std::min(one * one, kMost * kMost))) : 0.0;
    any_ = any_ || one > 0.0;
  }
}

template <class Take>
int ScatteredRuns::replay(const ComputationDag& dag, std::span<const Nanoseconds> durations, Take take) const {
  std::vector<int> scattered;
  for (int i = 0; i < dag.size(); ++i) {
    if (sigmas_[static_cast<std::size_t>(dag[i].type)] > 0.0) scattered.push_back(i);
  }
  NoiseSource random(kSeed);
  std::vector<Nanoseconds> drawn(durations.begin(), durations.end());
  std::vector<double> normals(scattered.size());
  const int pairs = std::clamp(kMostNodes / std::max(1, dag.size()), kLeastPairs, kMostPairs);
  for (int pair = 0; pair < pairs; ++pair) {
    for (double& one : normals) one = random.normal();
    for (const double side : {1.0, -1.0}) {
      for (std::size_t k = 0; k < scattered.size(); ++k) {
        const auto i = static_cast<std::size_t>(scattered[k]);
        const double sigma = sigmas_[static_cast<std::size_t>(dag[scattered[k]].type)];
        const double factor = std::min(kMostTimes, std::exp(sigma * (side * normals[k] - 0.5 * sigma)));
        drawn[i] = static_cast<Nanoseconds>(std::llround(factor * static_cast<double>(durations[i])));
      }
      take(drawn);
    }
  }
  return 2 * pairs;
}

Seconds ScatteredRuns::lateness(const ComputationDag& dag, std::span<const Nanoseconds> durations) const {
  if (!any_) return Seconds(0);
  std::vector<Nanoseconds> finish(durations.size());
  const Nanoseconds usual = makespan(dag, durations, finish);
  double sum = 0.0;
  const int draws = replay(dag, durations, [&](std::span<const Nanoseconds> drawn) {
    sum += to_seconds(makespan(dag, drawn, finish) - usual).value();
  });
  // The mean of maxima is no less than the maximum of means; what is below is the draws' own scatter.
  return Seconds(std::max(0.0, sum / draws));
}

std::vector<double> ScatteredRuns::criticality(const ComputationDag& dag,
                                               std::span<const Nanoseconds> durations) const {
  std::vector<double> critical(durations.size());
  const int draws = replay(dag, durations, [&](std::span<const Nanoseconds> drawn) {
    const Timeline timeline = emulate(dag, drawn);
    for (std::size_t i = 0; i < critical.size(); ++i) critical[i] += timeline.critical(static_cast<int>(i)) ? 1.0 : 0.0;
  });
  for (double& one : critical) one /= draws;
  return critical;
}

}  // namespace flyball
