// What orders of operations hold and save, for tests of planners that choose one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "pipeline/timeline.h"
#include "plan/planner.h"
#include "plan/stage_clock.h"
#include "plan/stage_orders.h"
#include "support/lp_oracle.h"

namespace flyball::testing {

inline std::vector<int> held(const std::vector<StageOrder>& orders) {
  std::vector<int> most;
  for (const StageOrder& order : orders) most.push_back(most_in_flight(order));
  return most;
}

// The least energy by the deadline, by a linear programme for each iteration time up to it.
inline double least_energy(const PlanProblem& problem, const ComputationDag& dag, Nanoseconds deadline) {
  std::vector<Nanoseconds> fastest;
  for (const Computation& computation : dag.computations()) {
    fastest.push_back(problem.choices[static_cast<std::size_t>(computation.type)].hull.front().time);
  }
  std::vector<Nanoseconds> finish(fastest.size());
  const Nanoseconds t_min = makespan(dag, fastest, finish);
  if (t_min > deadline) return std::numeric_limits<double>::infinity();
  // Convex in time: a ternary search.
  const auto energy = [&](Nanoseconds time) {
    return lp_bound(dag, problem.hulls(), time) + (problem.total_blocking() * to_seconds(time)).value();
  };
  if (deadline - t_min > 1'000'000 && energy(deadline - 1'000'000) > energy(deadline)) return energy(deadline);
  Nanoseconds low = t_min;
  Nanoseconds high = deadline;
  while (high - low > 1'000'000) {
    const Nanoseconds third = (high - low) / 3;
    if (energy(low + third) < energy(high - third)) {
      high -= third;
    } else {
      low += third;
    }
  }
  return std::min(energy(low), energy(high));
}

// The least of all orders that can run in which each stage's is one of these.
inline double least_energy_of_all(const PlanProblem& problem, const std::vector<StageOrder>& each_stage,
                                  Nanoseconds deadline) {
  const auto stages = static_cast<std::size_t>(problem.dag->stages());
  double least = std::numeric_limits<double>::infinity();
  const std::function<void(Orders)> extend = [&](const Orders& orders) {
    if (orders.size() == stages) {
      least = std::min(least, least_energy(problem, reorder(*problem.dag, orders), deadline));
      return;
    }
    for (const StageOrder& order : each_stage) {
      Orders longer = orders;
      longer.push_back(order);
      if (can_run(longer)) extend(longer);
    }
  };
  extend({});
  return least;
}

inline Nanoseconds time_at_maximum(const PlanProblem& problem) {
  return replay(*problem.dag, problem.blocking, max_clock_plan(problem)).time;
}

struct Chosen {
  Nanoseconds time;
  double joules;
};

inline Chosen chosen(const PlannerResult& result, Nanoseconds deadline) {
  const std::size_t point = result.frontier.cheapest_by(deadline);
  return {result.frontier.points()[point].time, result.frontier.energy(point).value()};
}

}  // namespace flyball::testing
