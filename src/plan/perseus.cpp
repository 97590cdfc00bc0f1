// The crawl along the frontier: the relaxation calls visit() for each stretch, from T* to T_min, and visit() has a plan
// rounded for every unit of time within it (point_rounding.h), while the relaxation goes on.
#include "plan/perseus.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/processors.h"
#include "plan/parametric_flow.h"
#include "plan/point_rounding.h"
#include "plan/relaxation.h"
#include "plan/replan.h"
#include "plan/stage_clock.h"

namespace flyball {
namespace {

// More points than this are asked for by mistake, and would not fit into memory.
constexpr Nanoseconds kMostPoints = 2'000'000;
// A plan that was asked for is near enough if it is no further above the bound than this part of its energy. For times
// whose plans are further away, others are made: so many that they have this many options together, within limits.
constexpr double kNearEnough = 1e-3;
constexpr std::int64_t kFurtherWork = 100'000;
constexpr std::int64_t kFewestFurther = 2;
constexpr std::int64_t kMostFurther = 8;
constexpr int kDisturbances = 10;
// Small frontiers are rounded anew at every point. If that takes more operations than kRoundingBudget (0.06 s), only
// every n-th point is rounded anew and those between follow. n is at most kMostFollowing: beyond that, drift costs more
// than the time is worth.
constexpr std::int64_t kRoundingBudget = 100'000;
constexpr std::int64_t kMostFollowing = 16;
constexpr std::int64_t kPointsPerReport = 64;
// Where energy hardly changes with time, points are this part of the frontier apart at most.
constexpr Nanoseconds kFewestPoints = 500;
constexpr std::int64_t kMostFlows = 128;        // that are kept, and
constexpr std::int64_t kMostKept = 4'000'000;   // numbers of them
constexpr std::int64_t kWorthThreads = 50'000;  // operations looked at by all points together

// The curves that steer the crawl, of the options that the noise rule keeps.
std::vector<CostCurve> steering_curves(const PlanProblem& problem) {
  std::vector<CostCurve> curves;
  for (std::size_t type = 0; type < problem.choices.size(); ++type) {
    const OperationType& operation = problem.dag->types()[type];
    const Watts charged = problem.charged_blocking(operation);
    std::vector<ClockOption> kept;
    for (const std::uint16_t option : problem.choices[type].pareto) kept.push_back(operation.options[option]);
    curves.push_back(problem.cost_model == CostModel::kHull ? hull_curve(kept, charged)
                                                            : exponential_curve(kept, charged, problem.unit_time));
  }
  return curves;
}

Nanoseconds makespan_at(const ComputationDag& dag, const std::vector<CostCurve>& curves, bool fastest) {
  std::vector<Nanoseconds> durations;
  for (const Computation& computation : dag.computations()) {
    const CostCurve& curve = curves[static_cast<std::size_t>(computation.type)];
    durations.push_back(fastest ? curve.front().time : curve.back().time);
  }
  std::vector<Nanoseconds> finish(durations.size());
  return makespan(dag, durations, finish);
}

class Crawl {
 public:
  Crawl(const PlanProblem& problem, const Progress& progress, Searches searches)
      : problem_(problem), progress_(progress), searches_(searches), frontier_(problem.total_blocking()) {}

  PlannerResult run() {
    const ComputationDag& dag = *problem_.dag;
    std::vector<CostCurve> curves = problem_.hulls();
    const auto ignore = [](const FrontierStretch&) { return true; };
    // The hull of all measured options gives the bound, whichever curves steer.
    std::optional<RelaxationResult> hull_run;
    if (problem_.cost_model == CostModel::kExponential || problem_.noise > 0.0) {
      hull_run = solve_relaxation(dag, curves, ignore);
      curves = steering_curves(problem_);
    }
    t_star_ = makespan_at(dag, curves, false);
    t_min_ = makespan_at(dag, curves, true);
    next_ = t_star_;
    for (const Computation& computation : dag.computations()) {
      const CostCurve& curve = curves[static_cast<std::size_t>(computation.type)];
      joules_ += curve.front().net_joules - curve.back().net_joules;
    }
    points_ = count_points();
    check_point_count();
    const std::int64_t anew_every = points_between_beginnings();
    rounding_.emplace(problem_, searches_, anew_every, threads(), frontier_);
    const RelaxationResult run = solve_relaxation(dag, curves, [&](const FrontierStretch& s) { return visit(s); });
    rounding_->finish_points();
    const BoundCurve& bound = hull_run ? hull_run->bound : run.bound;
    if (run.status == RelaxationStatus::kOptimal) {
      // If no second is worth a price unit, nothing was visited; otherwise the crawl has ended at a plan as good or
      // better.
      rounding_->add(fastest_plan(problem_));
      frontier_.finish();
      if (has_choice()) polish();
    }
    rounding_->finish();
    frontier_.finish();
    if (run.status == RelaxationStatus::kOptimal && searches_.further) search_further(bound);
    for (std::size_t i = 0; i < frontier_.size(); ++i) {
      FrontierPoint& point = frontier_.point(i);
      point.net_lower_bound = bound.at(point.time);
    }
    PlannerResult result;
    result.frontier = with_waiting(dag, problem_.blocking, std::move(frontier_));
    if (problem_.keep_flows && run.status == RelaxationStatus::kOptimal) result.flows = flows_;
    result.stats.nodes = dag.size();
    result.stats.edges = static_cast<std::int64_t>(dag.edge_count());
    result.stats.steps = run.rounds;
    return result;
  }

 private:
  bool visit(const FrontierStretch& stretch) {
    if (problem_.keep_flows) keep(stretch);
    for (const Nanoseconds time : problem_.focus) {
      const bool is_here = time > stretch.t_low && time <= stretch.t_high && time < t_star_;
      if (is_here) rounding_->add_polished(stretch, time, true);
    }
    for (; next_ > stretch.t_low || (next_ == t_min_ && stretch.t_low == t_min_);
         next_ = std::max(t_min_, next_ - spacing(stretch.price))) {
      if (next_ == t_min_) {
        rounding_->add_polished(stretch, t_min_, asks_for_fastest());
        next_ = -1;
        break;
      }
      rounding_->add(stretch, next_);
      if (++visited_ % kPointsPerReport == 0 && !report(next_)) return false;
    }
    return report(stretch.t_low);
  }

  // Keeps the flow where energy has changed by a part since the last one that was kept, and at T_min and the times that
  // are asked for, where the price of time changes most and the bound matters most.
  void keep(const FrontierStretch& stretch) {
    const auto within = [&](Nanoseconds time) { return time >= stretch.t_low && time <= stretch.t_high; };
    if (joules_since_ >= joules_ / static_cast<double>(most_flows()) || stretch.t_low == t_min_ ||
        std::ranges::any_of(problem_.focus, within)) {
      KeptFlows::Flow& flow = flows_->flows.emplace_back(KeptFlows::Flow{stretch.price, {}});
      for (int i = 0; i < problem_.dag->size(); ++i) flow.on.push_back(stretch.flow->price(i) * 1e-9);
      joules_since_ = 0.0;
    }
    joules_since_ += stretch.price * static_cast<double>(stretch.t_high - stretch.t_low);
  }

  [[nodiscard]] std::int64_t most_flows() const {
    return std::clamp<std::int64_t>(kMostKept / std::max(1, problem_.dag->size()), 1, kMostFlows);
  }

  // From one point to the next where a nanosecond has this price, in J.
  [[nodiscard]] Nanoseconds spacing(double price) const {
    const Nanoseconds part = (t_star_ - t_min_) / kFewestPoints;
    const auto longest = static_cast<double>(part);
    const double step = problem_.energy_step.value();
    if (step <= 0.0) return problem_.unit_time;
    return std::max(problem_.unit_time, static_cast<Nanoseconds>(step < longest * price ? step / price : longest));
  }

  // At most so many points are visited.
  [[nodiscard]] std::int64_t count_points() const {
    const std::int64_t in_time = (t_star_ - t_min_) / problem_.unit_time + 1;
    if (problem_.energy_step <= Joules(0)) return in_time;
    const double in_energy = joules_ / problem_.energy_step.value() + 1.0 + static_cast<double>(kFewestPoints);
    return std::min(in_time, static_cast<std::int64_t>(std::min(in_energy, static_cast<double>(kMostPoints))));
  }

  // One stretch can hold many points, so that progress is reported, and planning can be cancelled, within it.
  [[nodiscard]] bool report(Nanoseconds reached) const {
    const Nanoseconds whole = std::max<Nanoseconds>(1, t_star_ - t_min_);
    return !progress_ ||
           progress_(reached == t_min_ ? 1.0 : static_cast<double>(t_star_ - reached) / static_cast<double>(whole));
  }

  [[nodiscard]] bool asks_for_fastest() const {
    return std::ranges::any_of(problem_.focus, [&](Nanoseconds time) { return time <= t_min_; });
  }

  // How many threads are worth starting: one where all points together take a few milliseconds.
  [[nodiscard]] unsigned threads() const {
    if (operations_looked_at() < kWorthThreads) return 1;
    return problem_.threads > 0 ? problem_.threads : usable_processors();
  }

  [[nodiscard]] bool has_choice() const {
    return std::any_of(problem_.choices.begin(), problem_.choices.end(),
                       [](const auto& choices) { return choices.pareto.size() > 1; });
  }

  void check_point_count() const {
    if (points_ <= kMostPoints) return;
    throw UsageError(
        fmt::format("a unit time of {} us makes {} points between T_min and T*, more than {}; choose {} us or "
                    "more (--unit-time)",
                    static_cast<double>(problem_.unit_time) * 1e-3, points_, kMostPoints,
                    (t_star_ - t_min_) / kMostPoints / 1000 + 1));
  }

  [[nodiscard]] std::int64_t points_between_beginnings() const {
    return searches_.carry ? std::min(kMostFollowing, operations_looked_at() / kRoundingBudget + 1) : 1;
  }

  // By all points together.
  [[nodiscard]] std::int64_t operations_looked_at() const { return points_ * problem_.dag->size(); }

  // The plan of least total energy is polished while those that were asked for still are.
  void polish() {
    if (!report(t_min_)) return;
    const std::size_t index = frontier_.least_total_energy();
    rounding_->polish(frontier_.plan(index), frontier_.points()[index].time);
  }

  // Makes more plans for the times that were asked for, where those are further above the bound than they should be.
  void search_further(const BoundCurve& bound) {
    std::int64_t options = 0;
    for (const Computation& computation : problem_.dag->computations()) {
      options += static_cast<std::int64_t>(problem_.choices[static_cast<std::size_t>(computation.type)].pareto.size());
    }
    const auto plans = static_cast<int>(std::clamp<std::int64_t>(kFurtherWork / options, kFewestFurther, kMostFurther));
    std::vector<Nanoseconds> far = rounding_->asked();
    std::erase_if(far, [&](Nanoseconds time) {
      const double net = frontier_.points()[frontier_.lookup(time)].net_joules;
      const double joules = net + (problem_.total_blocking() * to_seconds(time)).value();
      return !(net - bound.at(time) > kNearEnough * joules);
    });
    if (far.empty()) return;
    for (const Nanoseconds time : far) rounding_->search_further(time, plans, kDisturbances);
    rounding_->finish();
    frontier_.finish();
  }

  const PlanProblem& problem_;
  const Progress& progress_;
  Searches searches_;
  Frontier frontier_;
  std::optional<PointRounding> rounding_;
  Nanoseconds t_star_ = 0;
  Nanoseconds t_min_ = 0;
  Nanoseconds next_ = 0;     // iteration time of the next point
  std::int64_t points_ = 0;  // to visit, at most
  double joules_ = 0.0;      // that the operations differ by from one end to the other
  double joules_since_ = std::numeric_limits<double>::infinity();  // the last flow that was kept
  std::shared_ptr<KeptFlows> flows_ = std::make_shared<KeptFlows>();
  std::int64_t visited_ = 0;
};

class Perseus final : public Planner {
 public:
  explicit Perseus(Searches searches) : searches_(searches) {}
  [[nodiscard]] std::string_view name() const override { return "perseus"; }
  [[nodiscard]] PlannerResult plan(const PlanProblem& problem, const Progress& progress) const override {
    const auto begin = std::chrono::steady_clock::now();
    PlannerResult result = Crawl(problem, progress, searches_).run();
    result.stats.solve_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
  }

 private:
  Searches searches_;
};

}  // namespace

void close_cancelled_frontier(const PlanProblem& problem, Frontier& frontier) {
  // The bound of a slower point holds here too, since less time never takes less energy.
  const double bound =
      frontier.empty() ? std::numeric_limits<double>::quiet_NaN() : frontier.points().front().net_lower_bound;
  ClockRounder rounder(problem);
  const auto add = [&] {
    FrontierPoint point = replay(*problem.dag, problem.blocking, rounder.plan());
    point.net_lower_bound = bound;
    frontier.add(point, rounder.plan());
  };
  const ClockPlan fastest = fastest_plan(problem);
  rounder.load(fastest);
  add();
  const Nanoseconds t_min = rounder.makespan();
  std::vector<Nanoseconds> deadlines = problem.focus;
  deadlines.push_back(t_min);
  for (const Nanoseconds deadline : deadlines) {
    rounder.load(fastest);
    rounder.polish(std::max(deadline, t_min));
    add();
  }
  frontier.finish();
}

std::unique_ptr<Planner> make_perseus() { return make_perseus(Searches{}); }

std::unique_ptr<Planner> make_perseus(Searches searches) { return std::make_unique<Perseus>(searches); }

}  // namespace flyball
