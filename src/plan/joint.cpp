// The search for an order is a hill climb: a move shifts a range of steps of one stage's staircase (stage_orders.h) by
// one forward, and the neighbouring stages follow where they must. A move is kept when it lowers the bound, until no
// move does. At the end the search gives back memory: it takes microbatches out of flight where that costs almost
// nothing.
#include "plan/joint.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/index.h"
#include "pipeline/timeline.h"
#include "plan/perseus.h"
#include "plan/relaxation.h"
#include "plan/reschedule.h"
#include "plan/stage_clock.h"

namespace flyball {
namespace {

// How many operations the bounded orders may have in all, first to find an order, then to give memory back. They last
// some seconds.
constexpr std::int64_t kSearchOperations = 200'000;
constexpr std::int64_t kTrimOperations = 50'000;
// Larger pipelines keep their order: too few others could be looked at.
constexpr int kMostSearched = 20'000;
// Less is no improvement: prices are rounded to 2^-24 J/s.
constexpr double kImprovement = 1e-6;
// The share of the energy that a microbatch's memory must save to be taken.
constexpr double kWorthMemory = 1e-4;
// The search compares orders by coarser curves than those that bound plans, since the solver's rounds are as many as
// there are prices (docs/decisions/0047).
constexpr std::size_t kVertices = 6;

using Orders = std::vector<StageOrder>;

// Some of the vertices, the first and the last among them.
std::vector<CostCurve> coarse(const std::vector<CostCurve>& hulls) {
  std::vector<CostCurve> curves;
  for (const CostCurve& hull : hulls) {
    const std::size_t kept = std::min(hull.size(), kVertices);
    CostCurve curve;
    for (std::size_t k = 0; k < kept; ++k) {
      curve.push_back(hull[kept == 1 ? 0 : k * (hull.size() - 1) / (kept - 1)]);
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

// What can be reached in an order by a deadline.
struct Bound {
  Nanoseconds late = 0;  // how much longer than the deadline the iteration takes even at the fastest clocks
  double joules = 0.0;   // no plan that ends by the deadline takes less, blocking included; 0 if none ends by then

  [[nodiscard]] double worth() const { return late > 0 ? std::numeric_limits<double>::infinity() : joules; }
};

// Returns infinite joules if `go_on` returns false.
Bound bound_of(const PlanProblem& problem, const ComputationDag& dag, const std::vector<CostCurve>& curves,
               Nanoseconds deadline, const std::function<bool()>& go_on) {
  std::vector<Nanoseconds> durations;
  for (const Computation& computation : dag.computations())
    durations.push_back(curves[at(computation.type)].front().time);
  std::vector<Nanoseconds> finish(durations.size());
  if (const Nanoseconds fastest = makespan(dag, durations, finish); fastest > deadline)
    return {fastest - deadline, 0.0};
  const RelaxationResult relaxed = solve_relaxation(dag, curves, [&](const FrontierStretch&) { return go_on(); });
  if (relaxed.status == RelaxationStatus::kCancelled) return {0, std::numeric_limits<double>::infinity()};
  const BoundCurve& bound = relaxed.bound;
  const Watts blocking = problem.total_blocking();
  const Nanoseconds time = std::min(deadline, bound.least_total(blocking));
  return {0, bound.at(time) + (blocking * to_seconds(time)).value()};
}

// An empty `memory_limit` is no limit.
bool fits(const Orders& orders, std::span<const int> memory_limit) {
  for (std::size_t s = 0; s < memory_limit.size(); ++s) {
    if (most_in_flight(orders[s]) > memory_limit[s]) return false;
  }
  return true;
}

// Whether some stage may hold more than it does in these orders. Otherwise a job keeps the order that it has: that is
// how one says that its framework runs no other.
bool has_room(const Orders& orders, std::span<const int> memory_limit) {
  for (std::size_t s = 0; s < memory_limit.size(); ++s) {
    if (memory_limit[s] > most_in_flight(orders[s])) return true;
  }
  return memory_limit.empty();
}

class OrderSearch {
 public:
  OrderSearch(const PlanProblem& problem, Nanoseconds deadline, std::span<const int> memory_limit,
              const Progress& progress)
      : problem_(problem),
        curves_(coarse(problem.hulls())),
        deadline_(deadline),
        progress_(progress),
        best_(*stage_orders(*problem.dag)),
        stages_(static_cast<int>(best_.size())),
        microbatches_(static_cast<int>(best_.front().size())),
        limit_(memory_limit.begin(), memory_limit.end()) {
    if (limit_.empty()) limit_.assign(best_.size(), microbatches_);
    if (!fits(best_, limit_)) {
      // Begin with as little as keeps all stages busy.
      for (int s = 0; s < stages_; ++s) {
        const int above = s == 0 ? microbatches_ : most_in_flight(best_[at(s - 1)]);
        best_[at(s)] = in_turn(microbatches_, std::min({above, limit_[at(s)], stages_ - s}));
      }
    }
    best_bound_ = bound(best_);
  }

  OrderChoice run() {
    if (problem_.dag->size() <= kMostSearched) {
      budget_ = kSearchOperations;
      try_deeper();
      climb();
      budget_ = kTrimOperations;
      give_back();
    }
    return {best_, bound_of(problem_, reorder(*problem_.dag, best_), problem_.hulls(), deadline_, asked()).worth(),
            looked_at_};
  }

 private:
  // Which steps of a staircase change: [first, last).
  struct Steps {
    int first;
    int last;
  };

  [[nodiscard]] bool more() const { return budget_ > 0 && !stopped_; }

  Bound bound(const Orders& orders) {
    const auto [known, is_new] = bounds_.try_emplace(orders);
    if (!is_new) return known->second;
    const ComputationDag dag = reorder(*problem_.dag, orders);
    ++looked_at_;
    budget_ -= dag.size();
    return known->second = bound_of(problem_, dag, curves_, deadline_, asked());
  }

  // Returns a function that asks the caller whether to go on.
  [[nodiscard]] std::function<bool()> asked() {
    return [this] {
      const double left = static_cast<double>(std::max<std::int64_t>(0, budget_)) / kSearchOperations;
      if (progress_ && !progress_(1.0 - left)) stopped_ = true;
      return !stopped_;
    };
  }

  bool take_if_better(Orders orders) {
    if (!asked()()) return false;
    const Bound found = bound(orders);
    const double best = best_bound_.joules;
    const double needed = std::isfinite(best) ? best - kImprovement * std::abs(best) : best;
    if (found.late != best_bound_.late ? found.late > best_bound_.late : !(found.joules < needed)) return false;
    best_ = std::move(orders);
    best_bound_ = found;
    return true;
  }

  // Tries orders in which every stage holds more, by the same number, and EnvPipe's order.
  void try_deeper() {
    const Orders base = best_;
    for (int extra = 1; more(); extra += std::max(1, extra / 2)) {
      Orders orders;
      bool changed = false;
      for (int s = 0; s < stages_; ++s) {
        const int held = most_in_flight(base[at(s)]);
        int deeper = std::min({held + extra, limit_[at(s)], microbatches_});
        if (s > 0) deeper = std::min(deeper, most_in_flight(orders.back()));
        changed = changed || deeper == held + extra;
        orders.push_back(in_turn(microbatches_, deeper));
      }
      if (!changed) break;
      take_if_better(std::move(orders));
    }
    if (!in_flight_of_1f1b(*problem_.dag)) return;
    Orders envpipe;
    for (const int held : rescheduled_in_flight(problem_, limit_)) envpipe.push_back(in_turn(microbatches_, held));
    take_if_better(std::move(envpipe));
  }

  // Puts one forward more before each backward of [first, last) of a stage. Earlier stages, and the backwards that
  // follow, keep up.
  std::optional<Orders> raised(int stage, Steps steps) const {
    Orders orders = best_;
    bool changed = false;
    for (int b = steps.first; b < steps.last; ++b) {
      int& count = orders[at(stage)][at(b)];
      if (count == microbatches_) break;
      ++count;
      changed = true;
    }
    if (!changed) return std::nullopt;
    for (int b = steps.first + 1; b < microbatches_; ++b) {
      int& count = orders[at(stage)][at(b)];
      count = std::max(count, orders[at(stage)][at(b - 1)]);
    }
    for (int s = stage - 1; s >= 0; --s) {
      for (int b = steps.first; b < microbatches_; ++b) {
        int& count = orders[at(s)][at(b)];
        count = std::max(count, orders[at(s + 1)][at(b)]);
      }
    }
    if (!fits(orders, limit_)) return std::nullopt;
    return orders;
  }

  // Does the reverse, with one forward less.
  std::optional<Orders> lowered(int stage, Steps steps) const {
    Orders orders = best_;
    bool changed = false;
    for (int b = steps.first; b < steps.last; ++b) {
      int& count = orders[at(stage)][at(b)];
      if (count == b + 1) continue;
      --count;
      changed = true;
    }
    if (!changed) return std::nullopt;
    for (int b = steps.last - 1; b > 0; --b) {
      int& count = orders[at(stage)][at(b - 1)];
      count = std::min(count, orders[at(stage)][at(b)]);
    }
    for (int s = stage + 1; s < stages_; ++s) {
      for (int b = 0; b < steps.last; ++b) {
        int& count = orders[at(s)][at(b)];
        count = std::min(count, orders[at(s - 1)][at(b)]);
      }
    }
    return orders;
  }

  // Takes one microbatch out of flight on a stage, and on later ones where they would hold more than it.
  std::optional<Orders> shallower(int stage) const {
    Orders orders = best_;
    const int held = most_in_flight(orders[at(stage)]);
    if (held == 1) return std::nullopt;
    for (int b = 0; b < microbatches_; ++b) {
      int& count = orders[at(stage)][at(b)];
      count = std::min(count, b + held - 1);
    }
    for (int s = stage + 1; s < stages_; ++s) {
      for (int b = 0; b < microbatches_; ++b) {
        int& count = orders[at(s)][at(b)];
        count = std::min(count, orders[at(s - 1)][at(b)]);
      }
    }
    return orders;
  }

  // Tries a change again as long as it helps.
  template <typename Change>
  bool follow(Change change) {
    bool better = false;
    while (more()) {
      std::optional<Orders> orders = change();
      if (!orders || !take_if_better(std::move(*orders))) break;
      better = true;
    }
    return better;
  }

  bool follow_steps(int stage, Steps steps) {
    const bool up = follow([&] { return raised(stage, steps); });
    const bool down = follow([&] { return lowered(stage, steps); });
    return up || down;
  }

  void climb() {
    bool better = true;
    while (better && more()) {
      better = false;
      for (int s = 0; s < stages_; ++s) {
        const bool down = follow([&] { return shallower(s); });
        better = follow_steps(s, {0, microbatches_}) || down || better;
      }
      if (better) continue;  // whole stages come first, since they reach far at little cost
      for (int length = microbatches_ / 2; length >= 1; length /= 2) {
        for (int s = 0; s < stages_; ++s) {
          for (int b = 0; b < microbatches_ && more(); b += length) {
            better = follow_steps(s, {b, std::min(microbatches_, b + length)}) || better;
          }
        }
      }
    }
  }

  // Takes microbatches out of flight where that costs next to nothing, from the first stage on, which holds the most.
  void give_back() {
    for (int s = 0; s < stages_; ++s) {
      while (more()) {
        std::optional<Orders> orders = shallower(s);
        if (!orders) break;
        const Bound found = bound(*orders);
        const double most = best_bound_.joules + kWorthMemory * std::abs(best_bound_.joules);
        if (found.late > best_bound_.late || found.joules > most) break;
        best_ = std::move(*orders);
        best_bound_ = found;
      }
    }
  }

  const PlanProblem& problem_;
  std::vector<CostCurve> curves_;
  Nanoseconds deadline_;
  const Progress& progress_;
  Orders best_;
  int stages_;
  int microbatches_;
  std::vector<int> limit_;
  Bound best_bound_;
  std::int64_t budget_ = kSearchOperations;
  bool stopped_ = false;
  int looked_at_ = 0;
  std::map<Orders, Bound> bounds_;
};

// The energy of the frontier's plan for `deadline`, blocking included.
double joules_by(const Frontier& frontier, Nanoseconds deadline) {
  return frontier.energy(frontier.cheapest_by(deadline)).value();
}

class Joint final : public Planner {
 public:
  [[nodiscard]] std::string_view name() const override { return "joint"; }

  [[nodiscard]] PlannerResult plan(const PlanProblem& problem, const Progress& progress) const override {
    const auto begin = std::chrono::steady_clock::now();
    PlannerResult result = planned(problem, progress);
    result.stats.solve_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
  }

 private:
  [[nodiscard]] static PlannerResult planned(const PlanProblem& problem, const Progress& progress) {
    const auto perseus = make_perseus();
    const auto given = stage_orders(*problem.dag);
    const std::vector<int>& limit = problem.memory_limit;
    if (!given || (fits(*given, limit) && (!has_room(*given, limit) || problem.dag->size() > kMostSearched))) {
      return perseus->plan(problem, progress);
    }
    const Nanoseconds deadline = problem.focus.empty()
                                     ? replay(*problem.dag, problem.blocking, max_clock_plan(problem)).time
                                     : problem.focus.front();
    const auto half = [&](double begin) {
      return progress ? Progress([&progress, begin](double share) { return progress(begin + share / 2.0); }) : progress;
    };
    const OrderChoice choice = search_orders(problem, deadline, limit, half(0.0));
    if (choice.orders == *given) return perseus->plan(problem, half(0.5));
    PlanProblem reordered = problem;
    const auto dag = std::make_shared<const ComputationDag>(reorder(*problem.dag, choice.orders));
    reordered.dag = dag.get();
    PlannerResult result = perseus->plan(reordered, half(0.5));
    result.dag = dag;
    if (!fits(*given, limit) || result.frontier.empty()) return result;
    // Bounds are not plans. If the better bound is better by less than rounding to clocks loses, the plans decide.
    const auto in_time = [&](const PlannerResult& one) { return one.frontier.points().front().time <= deadline; };
    if (in_time(result)) {
      const auto go_on = [&] { return !progress || progress(1.0); };
      const Bound fixed = bound_of(problem, *problem.dag, problem.hulls(), deadline, go_on);
      if (joules_by(result.frontier, deadline) <= fixed.worth()) return result;
    }
    PlannerResult fixed = perseus->plan(problem, half(0.5));
    if (fixed.frontier.empty()) return result;
    const auto value = [&](const PlannerResult& one) {
      const Nanoseconds fastest = one.frontier.points().front().time;
      return std::pair(std::max(fastest, deadline), joules_by(one.frontier, deadline));
    };
    return value(fixed) < value(result) ? std::move(fixed) : std::move(result);
  }
};

}  // namespace

OrderChoice search_orders(const PlanProblem& problem, Nanoseconds deadline, std::span<const int> memory_limit,
                          const Progress& progress) {
  return OrderSearch(problem, deadline, memory_limit, progress).run();
}

std::optional<DeeperOrder> one_deeper(const PlanProblem& problem, Nanoseconds deadline,
                                      const std::function<bool()>& go_on) {
  const auto given = stage_orders(*problem.dag);
  if (!given || problem.dag->size() > kMostSearched) return std::nullopt;
  const int microbatches = static_cast<int>(given->front().size());
  DeeperOrder deeper;
  Orders orders;
  for (const StageOrder& order : *given) {
    // The last stage has nobody to wait for: one more there would only delay its first backward.
    const bool is_last = orders.size() + 1 == given->size();
    deeper.in_flight.push_back(is_last ? most_in_flight(order) : std::min(most_in_flight(order) + 1, microbatches));
    orders.push_back(is_last ? order : in_turn(microbatches, deeper.in_flight.back()));
  }
  const Bound bound = bound_of(problem, reorder(*problem.dag, orders), problem.hulls(), deadline, go_on);
  if (!std::isfinite(bound.worth())) return std::nullopt;
  deeper.least_energy = Joules(bound.joules);
  return deeper;
}

std::unique_ptr<Planner> make_joint() { return std::make_unique<Joint>(); }

}  // namespace flyball
