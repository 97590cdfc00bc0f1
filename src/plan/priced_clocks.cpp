// Each stage is planned in two passes of dynamic programming: the first one finds the clock at which the iteration
// ends, the second one begins at that clock.
#include "plan/priced_clocks.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include "base/index.h"
#include "plan/stage_clock.h"
#include "profile/cost_curve.h"

namespace flyball {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

PricedClocks::PricedClocks(const PlanProblem& problem, Nanoseconds latency)
    : problem_(problem), latency_(to_seconds(latency).value()), at_clocks_(problem.dag->types().size()) {
  const ComputationDag& dag = *problem.dag;
  std::vector<std::set<Megahertz, std::greater<>>> worth(at(dag.stages()));
  for (std::size_t t = 0; t < dag.types().size(); ++t) {
    const OperationType& type = dag.types()[t];
    if (type.options.size() < 2 || !type.occupies_stage) continue;
    for (const std::uint16_t option : problem.choices[t].pareto) {
      worth[at(type.stage)].insert(type.options[option].frequency);
    }
  }
  for (std::size_t t = 0; t < dag.types().size(); ++t) {
    const OperationType& type = dag.types()[t];
    if (type.options.size() < 2 || !type.occupies_stage) continue;
    AtClocks& measured = at_clocks_[t];
    for (const Megahertz clock : worth[at(type.stage)]) {
      const auto first = option_at(type, clock);
      for (std::size_t k = first.value_or(0); first && k < type.options.size(); ++k) {
        if (type.options[k].frequency != clock) break;
        measured.option.push_back(static_cast<std::uint16_t>(k));
        measured.net.push_back(net_joules(type.options[k], problem.charged_blocking(type)));
        measured.seconds.push_back(type.options[k].time.value());
      }
      if (!first) {
        measured.option.push_back(0);
        measured.net.push_back(kNever);
        measured.seconds.push_back(kNever);
      }
      measured.begin.push_back(static_cast<std::uint32_t>(measured.option.size()));
    }
  }
  for (int s = 0; s < dag.stages(); ++s) {
    Stage stage;
    stage.clocks = worth[at(s)].size();
    for (const std::int32_t i : dag.stage_order(s)) {
      if (dag.type_of(i).options.size() > 1) stage.operations.push_back(i);
    }
    stages_.push_back(std::move(stage));
  }
}

std::size_t PricedClocks::AtClocks::cheapest(std::size_t clock, double price) const {
  std::size_t best = begin[clock];
  for (std::size_t k = best + 1; k < begin[clock + 1]; ++k) {
    if (net[k] + price * seconds[k] < net[best] + price * seconds[best]) best = k;
  }
  return best;
}

std::int64_t PricedClocks::cells() const {
  std::size_t cells = 0;
  for (const Stage& stage : stages_) cells += 2 * stage.operations.size() * stage.clocks;
  return static_cast<std::int64_t>(cells);
}

ClockPlan PricedClocks::plan(std::span<const double> prices, Joules per_change) {
  ClockPlan plan(at(problem_.dag->size()), 0);
  for (const Stage& stage : stages_) {
    if (!stage.operations.empty()) plan_stage(stage, prices, per_change.value(), plan);
  }
  return plan;
}

void PricedClocks::plan_stage(const Stage& stage, std::span<const double> prices, double per_change, ClockPlan& plan) {
  const std::size_t clocks = stage.clocks;
  const std::size_t count = stage.operations.size();
  from_.resize(count * clocks);
  cost_.assign(clocks, 0.0);
  next_cost_.resize(clocks);
  const auto type_of = [&](std::size_t k) { return at((*problem_.dag)[stage.operations[k]].type); };
  const auto cheapest = [&] {
    return static_cast<std::size_t>(std::min_element(cost_.begin(), cost_.end()) - cost_.begin());
  };
  for (int pass = 0; pass < 2; ++pass) {
    for (std::size_t k = 0; k < count; ++k) {
      const AtClocks& measured = at_clocks_[type_of(k)];
      const double price = prices[at(stage.operations[k])];
      const std::size_t best = cheapest();
      // The clock before is `best`. If the operation was not measured at it, nothing is known of a delay.
      const double slow = measured.seconds[measured.begin[best]];
      for (std::size_t c = 0; c < clocks; ++c) {
        const std::size_t chosen = measured.cheapest(c, price);
        const double seconds = measured.seconds[chosen];
        const double delay = slow < kNever ? std::max(0.0, latency_ * (1.0 - seconds / slow)) : 0.0;
        const double changed = cost_[best] + per_change + price * delay;
        const bool stays = cost_[c] <= changed;
        from_[k * clocks + c] = static_cast<std::uint16_t>(stays ? c : best);
        const double here = seconds < kNever ? measured.net[chosen] + price * seconds : kNever;
        next_cost_[c] = (stays ? cost_[c] : changed) + here;
      }
      cost_.swap(next_cost_);
    }
    if (pass == 1) break;
    const std::size_t last = cheapest();
    for (std::size_t c = 0; c < clocks; ++c) cost_[c] = c == last ? 0.0 : per_change;
  }
  std::size_t c = cheapest();
  for (std::size_t k = count; k-- > 0;) {
    const AtClocks& measured = at_clocks_[type_of(k)];
    plan[at(stage.operations[k])] = measured.option[measured.cheapest(c, prices[at(stage.operations[k])])];
    c = from_[k * clocks + c];
  }
}

}  // namespace flyball
