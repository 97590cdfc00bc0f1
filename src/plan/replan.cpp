// Old plans become times of gates, which ClockRounder fits to the new options; old flows become lines below the new
// energy, of which the highest bound it.
#include "plan/replan.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "plan/clock_rounding.h"
#include "plan/parametric_flow.h"
#include "plan/stage_clock.h"

namespace flyball {
namespace {

constexpr std::size_t kPointsPerKept = 6;
constexpr std::size_t kFewestKept = 48;
constexpr int kLookups = 256;  // by which the mean is judged
// A turn of a polish costs as much as some points. Where planning from new makes few points, 20 turns would cost a
// tenth of it; 5 of them cost 0.005 % of energy in the mean of 54 changes of the shipped profiles.
constexpr std::size_t kPointsPerTurn = 200;
constexpr int kFewestTurns = 5;
constexpr int kMostTurns = 20;
constexpr double kNothingToGain = 1e-4;  // a plan that is so little above the bound is not polished
constexpr int kDisturbances = 10;        // of a plan that is too far above it
// The step of prices, as price_step_of_share() has it, by which kept flows are helped out: a twelfth of the rounds of
// the finest one, for a bound that is 0.003 % lower (Bloom 176B).
constexpr double kCoarseShare = 0.05;

bool same_operations(const ComputationDag& a, const ComputationDag& b) {
  if (a.size() != b.size() || a.edge_count() != b.edge_count() || a.types().size() != b.types().size()) return false;
  for (int i = 0; i < a.size(); ++i) {
    if (a[i].type != b[i].type || !std::ranges::equal(a.successors(i), b.successors(i))) return false;
  }
  return true;
}

// The makespan with an option of each type, which `duration` gives.
template <class Duration>
Nanoseconds makespan_with(const ComputationDag& dag, Duration duration) {
  std::vector<Nanoseconds> durations;
  for (const Computation& computation : dag.computations()) durations.push_back(duration(at(computation.type)));
  std::vector<Nanoseconds> finish(durations.size());
  return makespan(dag, durations, finish);
}

// The two ends of a frontier.
struct Ends {
  explicit Ends(const PlanProblem& problem) {
    const auto time_of = [&](std::size_t type, std::uint16_t option) {
      return to_nanoseconds(problem.dag->types()[type].options[option].time);
    };
    t_min = makespan_with(*problem.dag, [&](std::size_t t) { return time_of(t, problem.choices[t].pareto.front()); });
    t_star = makespan_with(*problem.dag, [&](std::size_t t) { return time_of(t, problem.choices[t].pareto.back()); });
  }
  // The time that is as far between these ends as `time` is between the others.
  [[nodiscard]] Nanoseconds place_of(Nanoseconds time, const Ends& others) const {
    const double share = static_cast<double>(time - others.t_min) / static_cast<double>(others.t_star - others.t_min);
    return std::clamp(t_min + static_cast<Nanoseconds>(share * static_cast<double>(t_star - t_min)), t_min, t_star);
  }

  Nanoseconds t_min = 0;
  Nanoseconds t_star = 0;
};

// The bound of the net energy: the highest of lines, of which each flow makes one.
class Bound {
 public:
  Bound(const PlanProblem& problem, Nanoseconds t_min, const KeptFlows& kept)
      : problem_(problem),
        t_min_(t_min),
        t_star_(makespan_with(*problem.dag, [&](std::size_t type) { return problem.choices[type].hull.back().time; })) {
    const ComputationDag& dag = *problem_.dag;
    std::vector<PricedCurve> curves;
    for (const PlanProblem::TypeChoices& type : problem_.choices) curves.emplace_back(type.hull, kFinestPrice.value());
    const auto add_flow = [&](double price, const auto& on) {
      double sum = 0.0;
      double magnitude = 0.0;
      for (int i = 0; i < dag.size(); ++i) {
        const double least = curves[at(dag[i].type)].least(on(at(i)));
        sum += least;
        magnitude += std::abs(least);
      }
      lines_.push_back({t_min_, sum - 1e-12 * magnitude, price});
    };
    add_flow(0.0, [](std::size_t) { return 0.0; });
    for (const KeptFlows::Flow& flow : kept.flows) add_flow(flow.price, [&](std::size_t i) { return flow.on[i]; });
    curve_ = {highest_lines(lines_, t_star_), t_star_};
  }

  // Adds the lines of the relaxation with coarse prices. Where planning from new takes such prices, too (from 50,000
  // operations), they would be no cheaper and are left out.
  void add_coarse() {
    const std::vector<CostCurve> hulls = problem_.hulls();
    const Watts step = price_step_of_share(hulls, kCoarseShare);
    if (price_step_of(*problem_.dag, hulls) >= step) return;
    const auto go_on = [](const FrontierStretch&) { return true; };
    const BoundCurve coarse = solve_relaxation(*problem_.dag, hulls, go_on, step).bound;
    for (const BoundCurve::Piece& piece : coarse.pieces()) lines_.push_back({t_min_, piece.intercept, piece.price});
    std::ranges::stable_sort(lines_, {}, &BoundCurve::Piece::price);
    curve_ = {highest_lines(lines_, t_star_), t_star_};
  }

  [[nodiscard]] const BoundCurve& curve() const { return curve_; }
  // By how much a plan's energy is above the bound, as a share of it, if the plan is for `time`.
  [[nodiscard]] double share_above(double net_joules, Nanoseconds time) const {
    return (net_joules - curve_.at(time)) / joules(time);
  }
  // The net energy of a plan that is just so much above.
  [[nodiscard]] double net_joules(Nanoseconds time, double share_above) const {
    return curve_.at(time) + share_above * joules(time);
  }

 private:
  [[nodiscard]] double joules(Nanoseconds time) const {
    return curve_.at(time) + (problem_.total_blocking() * to_seconds(time)).value();
  }

  const PlanProblem& problem_;
  Nanoseconds t_min_, t_star_;
  std::vector<BoundCurve::Piece> lines_;  // in rising order of price
  BoundCurve curve_;
};

class Replanning {
 public:
  Replanning(const PlanProblem& before, const Frontier& planned, const PlanProblem& now)
      : planned_(planned),
        now_(now),
        old_ends_(before),
        ends_(now),
        tables_(std::make_shared<const RoundingTables>(now)),
        rounder_(tables_),
        frontier_(now.total_blocking()) {
    old_times_.resize(before.dag->types().size());
    for (std::size_t type = 0; type < old_times_.size(); ++type) {
      for (const ClockOption& option : before.dag->types()[type].options) {
        old_times_[type].push_back(to_nanoseconds(option.time));
      }
    }
  }

  [[nodiscard]] Nanoseconds t_min() const { return ends_.t_min; }

  // Plans that were asked for are searched until they are near enough to the bound.
  Frontier run(const Bound& bound) {
    const std::size_t points = planned_.size();
    const std::size_t step = std::max<std::size_t>(1, std::min(kPointsPerKept, points / kFewestKept));
    for (std::size_t k = points - 1; k > 0; k -= std::min(step, k)) {
      const Nanoseconds time = ends_.place_of(planned_.points()[k].time, old_ends_);
      rounder_.floor(gates_of(k, time), time);
      add();
    }
    const int turns = std::clamp(static_cast<int>(points / kPointsPerTurn), kFewestTurns, kMostTurns);
    for (const Nanoseconds time : asked()) {
      rounder_.round(gates_of(planned_.lookup(old_ends_.place_of(time, ends_)), time), time);
      ClockRounder::Polish how;
      how.most_turns = turns;
      how.enough = bound.net_joules(time, kNothingToGain);
      how.slots = PathSearch::Slots::kFew;
      rounder_.polish(time, how);
      if (bound.share_above(rounder_.net_joules(), time) > kMostLostAsked) {
        how = {};
        how.slots = PathSearch::Slots::kFew;
        how.disturbances = kDisturbances;
        how.enough = bound.net_joules(time, kMostLostAsked);
        rounder_.polish(time, how);
      }
      add();
    }
    if (asked().front() != ends_.t_min) {
      rounder_.round(gates_of(0, ends_.t_min), ends_.t_min);
      add();
    }
    frontier_.finish();
    return std::move(frontier_);
  }

  // The times that plans are searched further for.
  [[nodiscard]] std::vector<Nanoseconds> asked() const {
    std::vector<Nanoseconds> times;
    for (const Nanoseconds time : now_.focus) {
      if (time < ends_.t_star) times.push_back(std::max(time, ends_.t_min));
    }
    if (times.empty()) times.push_back(ends_.t_min);
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    return times;
  }

 private:
  void add() { frontier_.add({rounder_.makespan(), rounder_.net_joules()}, rounder_.plan()); }

  // When the gates pass at the latest in the old plan, spread over `time`.
  [[nodiscard]] GateTimes gates_of(std::size_t point, Nanoseconds time) const {
    const ComputationDag& dag = *now_.dag;
    const Nanoseconds until = planned_.points()[point].time;
    const ClockPlan plan = planned_.plan(point);
    const GateGraph& graph = tables_->graph;
    GateTimes gates(graph.size(), until);
    for (int i = dag.size() - 1; i >= 0; --i) {
      const Nanoseconds duration = old_times_[at(dag[i].type)][plan[at(i)]];
      graph.no_later_before(gates.data(), i, gates[at(graph.end_of(i))] - duration);
    }
    const double stretch = static_cast<double>(time) / static_cast<double>(until);
    for (Nanoseconds& gate : gates) gate = static_cast<Nanoseconds>(static_cast<double>(gate) * stretch);
    return gates;
  }

  const Frontier& planned_;
  const PlanProblem& now_;
  Ends old_ends_, ends_;
  std::vector<std::vector<Nanoseconds>> old_times_;  // of each type's options, in the old profile
  std::shared_ptr<const RoundingTables> tables_;     // whose gates are those of the old pipeline, too
  ClockRounder rounder_;
  Frontier frontier_;
};

}  // namespace

std::optional<PlannerResult> replan(const PlanProblem& before, const PlannerResult& planned, const PlanProblem& now) {
  const auto begin = std::chrono::steady_clock::now();
  const Frontier& old = planned.frontier;
  if (!planned.flows || planned.dag || old.size() < 2 || !same_operations(*before.dag, *now.dag)) return std::nullopt;
  Replanning replanning(before, old, now);
  const Nanoseconds t_min = replanning.t_min();
  Bound bound(now, t_min, *planned.flows);
  PlannerResult result;
  result.frontier = with_waiting(*now.dag, now.blocking, replanning.run(bound));
  const auto share_above = [&](Nanoseconds time) {
    return bound.share_above(result.frontier.points()[result.frontier.lookup(time)].net_joules, time);
  };
  double mean = 0.0;
  const Nanoseconds range = bound.curve().t_star() - t_min;
  for (int k = 0; k < kLookups; ++k) mean += share_above(t_min + range / kLookups * k) / kLookups;
  if (mean > kMostLostInTheMean) return std::nullopt;
  const auto too_far = [&](Nanoseconds time) { return share_above(time) > kMostLostAsked; };
  if (std::ranges::any_of(replanning.asked(), too_far)) {
    bound.add_coarse();
    if (std::ranges::any_of(replanning.asked(), too_far)) return std::nullopt;
  }
  for (std::size_t k = 0; k < result.frontier.size(); ++k) {
    FrontierPoint& point = result.frontier.point(k);
    point.net_lower_bound = bound.curve().at(point.time);
  }
  result.stats.nodes = now.dag->size();
  result.stats.edges = static_cast<std::int64_t>(now.dag->edge_count());
  result.stats.solve_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace flyball
