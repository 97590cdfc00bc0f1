// The planner `joint`, which chooses the order of forwards and backwards together with the clocks: it looks for the
// order that leaves the most to save within the memory there is.
//
// Perseus takes the framework's order as given; EnvPipe changes it by a rule and then has one plan without a bound. But
// clocks and order belong together: more microbatches in flight turn the bubbles between the stages into slack that
// lower clocks can use. An order can be judged without choosing a single clock: the relaxation (relaxation.h) tells in
// milliseconds the least energy that any plan in this order can reach in the allowed time. The search walks from the
// framework's order towards lower bounds, over orders in which each stage takes its microbatches in turn
// (stage_orders.h), and Perseus plans for the order that it ends at.
//
// The allowed time is the first of the problem's focus, or that of all-maximum clocks where the focus is empty.
//
// Backwards in two parts leave it the place of every weight gradient as well: work that no other stage waits for.
//
// What it brings: on the two published measurements of eight stages (GPT-3 175B on A40s, Bloom 176B on A100s, 12
// microbatches), with memory for one more microbatch on each stage, 18.8 % are saved in the mean and 17.6 % at worst,
// where Perseus in 1F1B's order saves 12.35 and 12.3 %; `python3 bench/order_tables.py --data FOLDER` measures that
// (docs/manual/order-savings.md).
//
// Guarantees for pipelines that have stage_orders(): no stage holds more microbatches than the memory limit; the plan
// for the allowed time takes no more energy than that of Perseus in the framework's order, or ends in time where that
// one cannot, and the same holds, with backwards in two parts, for the orders of 1F1B and ZB-H1 where these fit into
// memory; the lower bounds of points are those of their own order. All other pipelines keep their order, whatever
// memory it takes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "plan/planner.h"
#include "plan/stage_orders.h"

namespace flyball {

// The orders that the search ended at.
struct OrderChoice {
  std::vector<StageOrder> orders;  // by stage
  // What operations are expected to take, as reorder() of stage_orders.h takes it to place transfers that occupy both
  // stages; the problem's own orders keep the places that they have.
  std::vector<Nanoseconds> expected;
  // No plan in these orders that ends by the deadline takes less energy than this: J, blocking included. It is infinite
  // where no plan ends by then; the orders are then the fastest that were found.
  double joules = 0.0;
  int looked_at = 0;  // how many orders were bounded
};

// Searches for the orders with the least energy of an iteration of at most `deadline`, starting from those of the
// problem's DAG, which must have stage_orders(). `memory_limit` is as in PlanProblem. `progress` may stop the search,
// which then returns the best orders so far. Deterministic. Cost: some hundreds of small relaxations, about 2 s at
// most. Pipelines of more than 20,000 operations are not searched: they keep their order where it fits into memory, and
// otherwise take as many microbatches in turn as fit, at the cost of two relaxations.
[[nodiscard]] OrderChoice search_orders(const PlanProblem& problem, Nanoseconds deadline,
                                        std::span<const int> memory_limit, const Progress& progress);

// What could be saved if every stage but the last ran one forward more ahead than in the DAG's order, and so held one
// microbatch more.
struct DeeperOrder {
  std::vector<int> in_flight;  // microbatches that each stage then holds at most
  Joules least_energy;         // of any plan that ends by the deadline, blocking included: a bound, not a plan
};

// Returns that of the order that takes microbatches in turn, or none where the DAG has no stage_orders(), is too large
// for search_orders(), or `go_on` said no. Cost: one relaxation.
[[nodiscard]] std::optional<DeeperOrder> one_deeper(const PlanProblem& problem, Nanoseconds deadline,
                                                    const std::function<bool()>& go_on);

[[nodiscard]] std::unique_ptr<Planner> make_joint();

}  // namespace flyball
