// Order and clocks together: which order of forwards and backwards, within the memory there is, leaves the most to
// save.
//
// Perseus takes the framework's order as given, EnvPipe changes it by a rule and then has one plan without a bound.
// Clocks and order belong together: more microbatches in flight turn the bubbles between the stages into room that
// clocks can use. Here the frontier of an order is known before a single clock is: the relaxation (relaxation.h) tells
// in milliseconds what the best plan of an order could save at the time that is allowed. The search walks from the
// framework's order to the one of least bound, over all orders in which each stage takes its microbatches in turn
// (stage_orders.h), and Perseus plans for that order alone.
//
// Guarantees, of pipelines of which there are stage_orders(): no stage holds more microbatches than the memory limit;
// the plan for the time that is allowed (the first of the problem's focus, else that of all-maximum clocks) takes no
// more energy than Perseus' in the framework's order, or ends in time where that one cannot; bounds of points are of
// their own order. All other pipelines keep their order, whatever it holds.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "plan/planner.h"
#include "plan/stage_orders.h"

namespace flyball {

// What the search found out about one order.
struct OrderChoice {
  std::vector<StageOrder> orders;  // by stage
  // No plan in these orders takes less, by the time that is allowed; J, blocking included. Infinite where none of them
  // ends by then: the orders are then the fastest that were found.
  double joules = 0.0;
  int looked_at = 0;  // orders that were bounded
};

// Returns the best orders for iterations of at most `deadline` that were found, starting from those of the problem's
// DAG, which must have some. `memory_limit` as in PlanProblem. `progress` may stop the search. Deterministic. Cost:
// some hundreds of small relaxations, about 2 s at most; beyond 20,000 operations two, since such a pipeline keeps its
// order, or takes as many microbatches in turn as fit where its own do not.
[[nodiscard]] OrderChoice search_orders(const PlanProblem& problem, Nanoseconds deadline,
                                        std::span<const int> memory_limit, const Progress& progress);

[[nodiscard]] std::unique_ptr<Planner> make_joint();

}  // namespace flyball
