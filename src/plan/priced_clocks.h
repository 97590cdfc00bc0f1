// Chooses the clocks of every stage at given prices of its operations' time and of a clock change. Internal to plan/.
//
// Idea. At the prices of the relaxation's optimum (relaxation.h) every operation would choose its clock by itself. With
// a price on each change as well, a stage's operations form a chain, whose cheapest sequence of clocks is found by
// dynamic programming (Viterbi) with one state per clock. A higher price of changes gives fewer, longer runs of equal
// clock, each at the clock that is best for all of its operations together. Only a replay tells whether the iteration
// then ends in time, since the prices are those of a relaxation in which changes are free.
//
// What it brings: on two shipped profiles, which are synthetic, with eight dwell times, plans that begin with this
// choice save 12.7 % in the mean and 10.5 % at worst, where edits of the planner's plan alone (clock_runs.h) saved 10.6
// and 3.9 %; `flyball plan PROFILE --microbatches M --switch-latency 7ms --min-dwell D` measures what they save
// together (docs/decisions/0048-few-changes-by-search.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "pipeline/timeline.h"
#include "plan/planner.h"

namespace flyball {

// Not thread-safe; the problem must outlive this object.
class PricedClocks {
 public:
  // A clock change takes hold `latency` after it is requested. The time by which this delays an operation is charged at
  // the operation's price of time.
  PricedClocks(const PlanProblem& problem, Nanoseconds latency);

  // Returns the plan that minimises, stage by stage, net energy + sum of prices * times + `per_change` * changes, a
  // change from the iteration's end to its beginning included. `prices` holds J/s, one number for each operation. The
  // minimum is approximate in two ways: every delay is charged as for a change from the clock that is cheapest until
  // then, and the clock in which the iteration before is taken to end is chosen without regard to the change that it
  // causes. Cost: O(operations * options at the stage's clocks).
  [[nodiscard]] ClockPlan plan(std::span<const double> prices, Joules per_change);
  // The number of states that a plan() visits: operations times clocks, twice.
  [[nodiscard]] std::int64_t cells() const;

 private:
  // One operation type of a stage at the stage's clocks: its options from begin[clock] to begin[clock + 1], fastest
  // first. There are several where labels tell them apart.
  struct AtClocks {
    std::vector<std::uint32_t> begin{0};
    std::vector<std::uint16_t> option;
    std::vector<double> net, seconds;  // infinite where the type was not measured at the clock

    // The place of the clock's option of the least net energy + price * time.
    [[nodiscard]] std::size_t cheapest(std::size_t clock, double price) const;
  };
  struct Stage {
    std::vector<std::int32_t> operations;  // those with a choice, in order
    std::size_t clocks = 0;
  };

  void plan_stage(const Stage& stage, std::span<const double> prices, double per_change, ClockPlan& plan);

  const PlanProblem& problem_;
  double latency_;  // s
  std::vector<Stage> stages_;
  std::vector<AtClocks> at_clocks_;  // by operation type
  // Scratch: the cost of the cheapest sequence that ends at each clock, and where it came from.
  std::vector<double> cost_, next_cost_;
  std::vector<std::uint16_t> from_;
};

}  // namespace flyball
