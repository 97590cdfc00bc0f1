// Pipelines become vectors with a component for each computation of a stage: how much longer than usual it takes.
// Groups are made by farthest-first traversal (Gonzalez, Theoretical Computer Science 38, 1985): the pipeline nearest
// to the usual is the first centre, and whichever is farthest from all centres the next, until all are near to one.
#include "server/pipeline_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/own_name.h"
#include "pipeline/instruction.h"
#include "server/job_plan.h"

namespace flyball {
namespace {

constexpr std::size_t kMostPlans = 8;
constexpr Seconds kMostTime{15.0};  // that the pipelines' own plans may take, as it is expected

using Computation = std::pair<int, std::string_view>;  // stage, instruction

// What one pipeline has measured of a computation of a stage, over its clocks.
struct Difference {
  double sum = 0.0;  // of logarithms of times over the usual ones
  double squares = 0.0;
  int clocks = 0;

  [[nodiscard]] double mean() const { return clocks > 0 ? sum / clocks : 0.0; }
};

using Differences = std::map<Computation, std::vector<Difference>>;  // one for each pipeline

// Of several ranks of a stage the slowest counts, as in its profile.
Differences differences_of(const std::vector<RankMeasurements>& ranks, std::size_t pipelines) {
  std::map<std::tuple<int, std::string_view, double>, std::map<int, double>> times;  // by clock (MHz), then pipeline
  for (const RankMeasurements& rank : ranks) {
    for (const MeasurementSum& sum : *rank.sums) {
      // What first and last microbatches differ by is no less alike than the rest, and less sure.
      if (is_constant_operation(sum.instruction) || is_own_name(sum.instruction)) continue;
      double& slowest = times[{rank.stage, sum.instruction, sum.clock.value()}][rank.pipeline];
      slowest = std::max(slowest, (sum.time / sum.samples).value());
    }
  }
  Differences differences;
  std::vector<double> sorted;
  for (const auto& [what, of_pipelines] : times) {
    sorted.clear();
    for (const auto& [pipeline, time] : of_pipelines) sorted.push_back(time);
    const auto middle = sorted.begin() + std::ssize(sorted) / 2;
    std::nth_element(sorted.begin(), middle, sorted.end());
    auto& all = differences[{std::get<0>(what), std::get<1>(what)}];
    all.resize(pipelines);
    for (const auto& [pipeline, time] : of_pipelines) {
      const double longer = std::log(time / *middle);
      Difference& one = all[static_cast<std::size_t>(pipeline)];
      one.sum += longer;
      one.squares += longer * longer;
      ++one.clocks;
    }
  }
  return differences;
}

// The variance of one logarithm about its pipeline's mean.
double variance_of(const Differences& differences) {
  double squares = 0.0;
  int freedom = 0;
  for (const auto& [what, all] : differences) {
    for (const Difference& one : all) {
      if (one.clocks < 2) continue;
      squares += std::max(0.0, one.squares - one.sum * one.mean());
      freedom += one.clocks - 1;
    }
  }
  return freedom > 0 ? squares / freedom : 0.0;
}

}  // namespace

std::vector<int> group_pipelines(const std::vector<RankMeasurements>& ranks, int pipelines, std::size_t most) {
  const auto count = static_cast<std::size_t>(pipelines);
  std::vector<int> group_of(count, 0);
  if (count < 2 || most < 2) return group_of;
  const Differences differences = differences_of(ranks, count);
  const double variance = variance_of(differences);
  std::vector<std::vector<double>> places(count);  // a distance of 1 is the most at which pipelines are alike
  for (const auto& [what, all] : differences) {
    int clocks = 1;
    for (const Difference& one : all) clocks = std::max(clocks, one.clocks);
    const double error = std::sqrt(2.0 * variance / clocks);  // of a difference of two
    const double alike = std::max(kAlikeShare, kDifferenceDeviations * error);
    for (std::size_t i = 0; i < count; ++i) places[i].push_back(all[i].mean() / alike);
  }
  const auto distance = [](const std::vector<double>& one, const std::vector<double>& other) {
    double most_apart = 0.0;
    for (std::size_t k = 0; k < one.size(); ++k) most_apart = std::max(most_apart, std::abs(one[k] - other[k]));
    return most_apart;
  };
  std::vector<double> nearest(count, std::numeric_limits<double>::infinity());
  const auto add_centre = [&](std::size_t centre, int group) {
    for (std::size_t i = 0; i < count; ++i) {
      const double away = distance(places[i], places[centre]);
      if (!(away < nearest[i])) continue;
      nearest[i] = away;
      group_of[i] = group;
    }
  };
  std::vector<double> from_usual;
  const std::vector<double> usual(places.front().size());
  for (const auto& place : places) from_usual.push_back(distance(place, usual));
  add_centre(static_cast<std::size_t>(std::min_element(from_usual.begin(), from_usual.end()) - from_usual.begin()), 0);
  for (std::size_t groups = 1; groups < most; ++groups) {
    const auto farthest = std::max_element(nearest.begin(), nearest.end());
    if (*farthest <= 1.0) break;
    add_centre(static_cast<std::size_t>(farthest - nearest.begin()), static_cast<int>(groups));
  }
  return group_of;
}

std::vector<RankMeasurements> ranks_of_group(const std::vector<RankMeasurements>& ranks,
                                             const std::vector<int>& group_of, int group) {
  const auto is_in = [&](const RankMeasurements& rank) {
    return group_of[static_cast<std::size_t>(rank.pipeline)] == group;
  };
  std::map<int, bool> measured;  // stages of which the group has a rank
  for (const RankMeasurements& rank : ranks) measured[rank.stage] = measured[rank.stage] || is_in(rank);
  std::vector<RankMeasurements> of_group;
  for (const RankMeasurements& rank : ranks) {
    if (is_in(rank) || !measured[rank.stage]) of_group.push_back(rank);
  }
  return of_group;
}

std::size_t most_own_plans(const JobRequest& request, std::int64_t operations) {
  const double in_time = kMostTime / expected_planning_time(request);
  // Others may have taken more than is left since they were asked.
  const double left = static_cast<double>(std::max<std::int64_t>(0, operations));
  const double in_memory = left / static_cast<double>(operations_of(request));
  return static_cast<std::size_t>(std::min({static_cast<double>(kMostPlans), in_time, in_memory}));
}

}  // namespace flyball
