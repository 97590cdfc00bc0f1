// The search for an order is a hill climb: a move shifts a range of steps of one stage's staircase (stage_orders.h) by
// one forward, and the neighbouring stages follow where they must, or it shifts a range of one stage's weight gradients
// (order_moves.h). A move is kept when it lowers the bound, until no move does. At the end the search gives back
// memory: it takes microbatches out of flight where that costs almost nothing.
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
#include "plan/order_moves.h"
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

std::vector<Nanoseconds> fastest_durations(const ComputationDag& dag, const std::vector<CostCurve>& curves) {
  std::vector<Nanoseconds> durations;
  for (const Computation& computation : dag.computations())
    durations.push_back(curves[at(computation.type)].front().time);
  return durations;
}

// What operations may take where reorder() places transfers, by their numbers in `dag`: of several, the one is taken
// that makes the fastest iteration.
using ExpectedTimes = std::vector<std::vector<Nanoseconds>>;

// The durations as they are, which lets transfers delay only their receivers, and with each transfer as a part of the
// computation before it, which makes the stages as slow as transfers that occupy both do.
ExpectedTimes expected_of(const ComputationDag& dag, std::vector<Nanoseconds> durations) {
  if (!dag.transfers_occupy_both()) return {std::move(durations)};
  std::vector<Nanoseconds> sending = durations;
  for (int i = 0; i < dag.size(); ++i) {
    if (dag.type_of(i).occupies_stage) continue;
    for (const std::int32_t p : dag.predecessors(i)) {
      if (dag.type_of(p).occupies_stage && dag.type_of(p).stage == dag.type_of(i).stage) {
        sending[at(p)] += durations[at(i)];
      }
    }
    sending[at(i)] = 1;
  }
  return {std::move(sending), std::move(durations)};
}

struct Placed {
  ComputationDag dag;
  std::vector<Nanoseconds> expected;  // with which reorder() makes this
};

Placed placed(const ComputationDag& dag, const Orders& orders, const std::vector<CostCurve>& curves,
              const ExpectedTimes& expected) {
  std::optional<Placed> best;
  Nanoseconds least = 0;
  for (const std::vector<Nanoseconds>& durations : expected) {
    Placed one{reorder(dag, orders, durations), durations};
    if (expected.size() == 1) return one;
    const std::vector<Nanoseconds> fastest = fastest_durations(one.dag, curves);
    std::vector<Nanoseconds> finish(fastest.size());
    const Nanoseconds time = makespan(one.dag, fastest, finish);
    if (best && time >= least) continue;
    least = time;
    best = std::move(one);
  }
  return *std::move(best);
}

// Returns infinite joules if `go_on` returns false. `taken`, unless it is null, is given what the operations take in
// the relaxed plan that ends by the deadline, by their numbers in the DAG that `dag` was made of.
Bound bound_of(const PlanProblem& problem, const ComputationDag& dag, const std::vector<CostCurve>& curves,
               Nanoseconds deadline, const std::function<bool()>& go_on, std::vector<Nanoseconds>* taken = nullptr) {
  const std::vector<Nanoseconds> durations = fastest_durations(dag, curves);
  std::vector<Nanoseconds> finish(durations.size());
  if (const Nanoseconds fastest = makespan(dag, durations, finish); fastest > deadline)
    return {fastest - deadline, 0.0};
  const auto visit = [&](const FrontierStretch& stretch) {
    if (taken != nullptr && stretch.t_low <= deadline && (taken->empty() || stretch.t_high >= deadline)) {
      const Nanoseconds sooner = std::max<Nanoseconds>(0, stretch.t_high - deadline);
      taken->resize(durations.size());
      for (std::size_t i = 0; i < durations.size(); ++i) {
        const Nanoseconds took = stretch.finish[i] - std::min(stretch.finish_shift[i], sooner) - stretch.start[i] +
                                 std::min(stretch.start_shift[i], sooner);
        (*taken)[at(dag.original_index(static_cast<int>(i)))] =
            std::min(took, curves[at(dag[static_cast<int>(i)].type)].back().time);
      }
    }
    return go_on();
  };
  const RelaxationResult relaxed = solve_relaxation(dag, curves, visit);
  if (relaxed.status == RelaxationStatus::kCancelled) return {0, std::numeric_limits<double>::infinity()};
  const BoundCurve& bound = relaxed.bound;
  const Watts blocking = problem.total_blocking();
  const Nanoseconds time = std::min(deadline, bound.least_total(blocking));
  return {0, bound.at(time) + (blocking * to_seconds(time)).value()};
}

// Whether some stage may hold more than it does in these orders. Otherwise a job keeps the order that it has: that is
// how one says that its framework runs no other. One that runs backwards in two parts puts them where it likes.
bool has_room(const Orders& orders, std::span<const int> memory_limit) {
  if (orders.front().splits_backward()) return true;
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
        given_(*stage_orders(*problem.dag)),
        best_(given_),
        expected_(expected_of(*problem.dag, fastest_durations(*problem.dag, curves_))),
        stages_(static_cast<int>(best_.size())),
        microbatches_(best_.front().microbatches()),
        splits_(best_.front().splits_backward()),
        limit_(memory_limit.begin(), memory_limit.end()) {
    if (limit_.empty()) limit_.assign(best_.size(), microbatches_);
    if (!fits(best_, limit_)) {
      // Begin with as little as keeps all stages busy.
      for (int s = 0; s < stages_; ++s) {
        const int above = s == 0 ? microbatches_ : most_in_flight(best_[at(s - 1)]);
        best_[at(s)] = in_turn(microbatches_, std::min({above, limit_[at(s)], stages_ - s}));
      }
      if (splits_) best_ = split(best_, std::vector<int>(best_.size(), 0));
    }
    best_bound_ = bound(best_);
  }

  OrderChoice run() {
    if (problem_.dag->size() <= kMostSearched) {
      budget_ = kSearchOperations;
      if (splits_) {
        try_split();
      } else {
        try_deeper();
      }
      climb();
      while (place_anew() && more()) climb();
      if (problem_.dag->transfers_occupy_both() && !splits_) climb_from_deep();
      budget_ = kTrimOperations;
      give_back();
    }
    const Placed chosen = placed_as_best(best_);
    const double joules = bound_of(problem_, chosen.dag, problem_.hulls(), deadline_, asked()).worth();
    return {best_, chosen.expected, joules, looked_at_};
  }

 private:
  [[nodiscard]] bool more() const { return budget_ > 0 && !stopped_; }

  Bound bound(const Orders& orders) {
    const auto [known, is_new] = bounds_.try_emplace(orders);
    if (!is_new) return known->second;
    const ComputationDag dag = placed_as_best(orders).dag;
    ++looked_at_;
    budget_ -= dag.size();
    return known->second = bound_of(problem_, dag, curves_, deadline_, asked());
  }

  [[nodiscard]] Placed placed_as_best(const Orders& orders) const {
    if (orders == given_) return {*problem_.dag, {}};
    return placed(*problem_.dag, orders, curves_, expected_);
  }

  // Gives the transfers of the best orders other places, by what operations take in the relaxed plan, and keeps them if
  // that is better. All other orders are then looked at anew.
  bool place_anew() {
    if (!problem_.dag->transfers_occupy_both() || best_ == given_ || best_bound_.late > 0) return false;
    std::vector<Nanoseconds> taken;
    static_cast<void>(bound_of(problem_, placed_as_best(best_).dag, curves_, deadline_, asked(), &taken));
    if (taken.empty()) return false;
    std::map<Orders, Bound> bounds = std::exchange(bounds_, {});
    ExpectedTimes expected = std::exchange(expected_, expected_of(*problem_.dag, std::move(taken)));
    if (take_if_better(best_)) return true;
    expected_ = std::move(expected);
    bounds_ = std::move(bounds);
    return false;
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

  // Climbs once more, from orders that hold what memory allows, and keeps what is better. Where transfers occupy both
  // stages such orders may be slow as long as their transfers do not fit, and are not reached by steps that each help.
  void climb_from_deep() {
    const Orders first = best_;
    const Bound first_bound = best_bound_;
    const ExpectedTimes first_expected = expected_;
    const std::map<Orders, Bound> first_bounds = bounds_;
    best_ = given_;
    for (int s = 0; s + 1 < stages_; ++s) {
      const int most =
          std::min({limit_[at(s)], microbatches_, s > 0 ? best_[at(s - 1)].forwards.front() : limit_[at(s)]});
      best_[at(s)] = in_turn(microbatches_, std::max(most, best_[at(s + 1)].forwards.front()));
    }
    if (!can_run(best_) || !fits(best_, limit_)) {
      best_ = first;
      return;
    }
    best_bound_ = bound(best_);
    budget_ = kSearchOperations;
    climb();
    while (place_anew() && more()) climb();
    if (std::pair(best_bound_.late, best_bound_.joules) < std::pair(first_bound.late, first_bound.joules)) return;
    best_ = first;
    best_bound_ = first_bound;
    expected_ = first_expected;
    bounds_ = first_bounds;
  }

  // The orders with weight gradients late by so many microbatches on each stage, or as many as fit into its memory.
  Orders split(const Orders& orders, const std::vector<int>& late) const {
    Orders result;
    for (std::size_t s = 0; s < orders.size(); ++s) {
      const int ahead = orders[s].forwards.front();
      result.push_back(in_turn_split(microbatches_, ahead, std::min(late[s], std::max(0, limit_[s] - ahead))));
    }
    return result;
  }

  // Tries the orders of 1F1B and ZB-H1, and those like them in which every stage runs more forwards ahead, with weight
  // gradients that come at once, as late as in ZB-H1, and as late as memory allows.
  void try_split() {
    for (int extra = 0; more(); extra += std::max(1, extra / 2)) {
      Orders orders;
      bool changed = extra == 0;
      for (int s = 0; s < stages_; ++s) {
        const int wanted = stages_ - s + extra;
        int ahead = std::min({wanted, limit_[at(s)], microbatches_});
        if (s > 0) ahead = std::min(ahead, orders.back().forwards.front());
        changed = changed || ahead == wanted;
        orders.push_back(in_turn(microbatches_, ahead));
      }
      if (!changed) break;
      for (const int per_stage : {0, 1, 2, microbatches_}) {
        std::vector<int> late(at(stages_), per_stage);
        for (int s = 0; s < stages_ && per_stage < microbatches_; ++s) late[at(s)] = per_stage * s;
        if (Orders one = split(orders, late); fits(one, limit_)) take_if_better(std::move(one));
      }
    }
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
    const bool up = follow([&] { return raised(best_, stage, steps, limit_); });
    const bool down = follow([&] { return lowered(best_, stage, steps); });
    return follow_weights(stage, steps) || up || down;
  }

  bool follow_weights(int stage, Steps steps) {
    bool better = false;
    for (const Reach reach : {Reach::kMicrobatch, Reach::kOperation}) {
      if (!splits_) break;
      const bool back = follow([&] { return later(best_, stage, steps, reach, limit_); });
      // What has moved back has just come from there.
      better = back || follow([&] { return earlier(best_, stage, steps, reach); }) || better;
    }
    return better;
  }

  // Runs one forward less ahead on a stage, and the weight gradients later by what that leaves of its memory.
  std::optional<Orders> traded(int stage) const {
    const auto orders = shallower(best_, stage);
    if (!orders) return std::nullopt;
    return later(*orders, stage, {0, microbatches_}, Reach::kMicrobatch, limit_);
  }

  void climb() {
    bool better = true;
    while (better && more()) {
      better = false;
      for (int s = 0; s < stages_; ++s) {
        const bool down = follow([&] { return shallower(best_, s); });
        const bool trade = splits_ && follow([&] { return traded(s); });
        better = follow_steps(s, {0, microbatches_}) || down || trade || better;
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
      while (more() && (give_back(freed_sooner(best_, s)) || give_back(shallower(best_, s)))) {
      }
    }
  }

  bool give_back(std::optional<Orders> orders) {
    if (!orders) return false;
    const Bound found = bound(*orders);
    const double most = best_bound_.joules + kWorthMemory * std::abs(best_bound_.joules);
    if (found.late > best_bound_.late || found.joules > most) return false;
    best_ = std::move(*orders);
    best_bound_ = found;
    return true;
  }

  const PlanProblem& problem_;
  std::vector<CostCurve> curves_;
  Nanoseconds deadline_;
  const Progress& progress_;
  Orders given_;
  Orders best_;
  ExpectedTimes expected_;
  int stages_;
  int microbatches_;
  bool splits_;  // backwards, in two parts
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
    const auto given = stage_orders(*problem.dag);
    const std::vector<int>& limit = problem.memory_limit;
    if (!given || (fits(*given, limit) && (!has_room(*given, limit) || problem.dag->size() > kMostSearched))) {
      return make_perseus()->plan(problem, progress);
    }
    const Nanoseconds deadline = problem.focus.empty()
                                     ? replay(*problem.dag, problem.blocking, max_clock_plan(problem)).time
                                     : problem.focus.front();
    const auto half = [&](double begin) {
      return progress ? Progress([&progress, begin](double share) { return progress(begin + share / 2.0); }) : progress;
    };
    const OrderChoice choice = search_orders(problem, deadline, limit, half(0.0));
    PlannerResult result = planned_in(problem, choice.orders, choice.expected, half(0.5));
    if (result.frontier.empty()) return result;
    for (const Orders& known : known_orders(*given)) {
      if (known == choice.orders || !fits(known, limit)) continue;
      result = better_of(std::move(result), problem, deadline, known, *given, half(0.5));
    }
    return result;
  }

  // Perseus' plans for these orders.
  [[nodiscard]] static PlannerResult planned_in(const PlanProblem& problem, const Orders& orders,
                                                std::span<const Nanoseconds> expected, const Progress& progress) {
    if (orders == stage_orders(*problem.dag)) return make_perseus()->plan(problem, progress);
    PlanProblem reordered = problem;
    const auto dag = std::make_shared<const ComputationDag>(reorder(*problem.dag, orders, expected));
    reordered.dag = dag.get();
    PlannerResult result = make_perseus()->plan(reordered, progress);
    result.dag = dag;
    return result;
  }

  // Orders that no choice may be worse than: the framework's, and of those with backwards in two parts 1F1B's and
  // ZB-H1's.
  [[nodiscard]] static std::vector<Orders> known_orders(const Orders& given) {
    std::vector<Orders> known{given};
    const auto stages = static_cast<int>(given.size());
    for (int per_stage = 0; per_stage < 2 && given.front().splits_backward(); ++per_stage) {
      Orders& orders = known.emplace_back();
      for (int s = 0; s < stages; ++s) {
        orders.push_back(in_turn_split(given.front().microbatches(), stages - s, per_stage * s));
      }
    }
    return known;
  }

  // Bounds are not plans. If the better bound is better by less than rounding to clocks loses, the plans decide.
  [[nodiscard]] static PlannerResult better_of(PlannerResult result, const PlanProblem& problem, Nanoseconds deadline,
                                               const Orders& orders, const Orders& given, const Progress& progress) {
    const std::vector<CostCurve> curves = problem.hulls();
    const ExpectedTimes expected = expected_of(*problem.dag, fastest_durations(*problem.dag, curves));
    const Placed other = orders == given ? Placed{*problem.dag, {}} : placed(*problem.dag, orders, curves, expected);
    if (result.frontier.points().front().time <= deadline) {
      const auto go_on = [&] { return !progress || progress(1.0); };
      if (joules_by(result.frontier, deadline) <= bound_of(problem, other.dag, curves, deadline, go_on).worth()) {
        return result;
      }
    }
    PlannerResult planned = planned_in(problem, orders, other.expected, progress);
    if (planned.frontier.empty()) return result;
    const auto value = [&](const PlannerResult& one) {
      const Nanoseconds fastest = one.frontier.points().front().time;
      return std::pair(std::max(fastest, deadline), joules_by(one.frontier, deadline));
    };
    return value(planned) < value(result) ? std::move(planned) : std::move(result);
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
  const int microbatches = given->front().microbatches();
  DeeperOrder deeper;
  Orders orders;
  for (const StageOrder& order : *given) {
    // The last stage has nobody to wait for: one more there would only delay its first backward.
    const bool is_last = orders.size() + 1 == given->size();
    const int held = most_in_flight(order);
    const int ahead = order.forwards.front();
    orders.push_back(is_last                   ? order
                     : order.splits_backward() ? in_turn_split(microbatches, ahead + 1, held - ahead)
                                               : in_turn(microbatches, held + 1));
    deeper.in_flight.push_back(most_in_flight(orders.back()));
  }
  const std::vector<CostCurve> curves = problem.hulls();
  const ExpectedTimes expected = expected_of(*problem.dag, fastest_durations(*problem.dag, curves));
  const ComputationDag dag = placed(*problem.dag, orders, curves, expected).dag;
  const Bound bound = bound_of(problem, dag, curves, deadline, go_on);
  if (!std::isfinite(bound.worth())) return std::nullopt;
  deeper.least_energy = Joules(bound.joules);
  return deeper;
}

std::unique_ptr<Planner> make_joint() { return std::make_unique<Joint>(); }

}  // namespace flyball
