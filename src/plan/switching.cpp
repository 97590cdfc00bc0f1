// The search edits the given plan, then makes plans from a grid of prices of time and of clock changes, and last tries
// longer dwell times on the plans of the front.
#include "plan/switching.h"

#include <algorithm>
#include <cassert>
#include <set>
#include <tuple>
#include <utility>

#include "base/index.h"
#include "plan/clock_runs.h"
#include "plan/priced_clocks.h"
#include "plan/relaxation.h"
#include "plan/stage_clock.h"
#include "plan/straggler.h"

namespace flyball {
namespace {

constexpr Nanoseconds kDwellSteps[] = {10'000'000, 20'000'000, 50'000'000, 100'000'000, 200'000'000, 500'000'000};
constexpr std::int64_t kSearchedNodes = 60'000'000;
constexpr std::int64_t kCellsPerNode = 8;  // so many cells of dynamic programming take as long as replaying a node
constexpr double kWorthOfChanges = 0.003;  // of the energy at maximum clocks
constexpr std::size_t kTimes = 14;         // iteration times whose prices are tried, ever closer to T_min
constexpr int kChangePrices = 12;          // the highest is worth all that clocks can save, each next one a third
constexpr double kChangePriceStep = 1.0 / 3.0;
constexpr double kSearchShare = 0.6;                    // of the work, for the first deadline
constexpr double kTimePrices[] = {1.0, 1.5, 2.5, 5.0};  // multiples of the prices of time, where slack is short

class SwitchingSearch {
 public:
  // `limits` are the deadlines, rising.
  SwitchingSearch(const PlanProblem& problem, const SwitchingTerms& terms, std::vector<Nanoseconds> limits,
                  const Progress& progress)
      : problem_(problem),
        progress_(progress),
        terms_(terms),
        limits_(std::move(limits)),
        runs_(problem, terms.latency, terms.waits_until, terms.asked),
        soonest_(*problem.dag, problem.blocking, terms.latency - terms.spread, terms.asked),
        fronts_(limits_.size()) {
    runs_.kept = [this] { offer(); };
  }

  // Edits the plan of a planner: late requests come earlier, then runs get fewer and slower. Runs are merged before
  // they are lowered, since lowering uses up slack with which a merge could also have removed a change.
  void edit(const ClockPlan& plan) {
    runs_.load(plan);
    offer();
    runs_.ask_earlier(limit());
    do {
      do {
        runs_.keep_dwell(terms_.min_dwell, limit());
      } while (runs_.merge_runs(limit()));
    } while (runs_.lower_runs(limit()));
  }

  void search() {
    const std::vector<CostCurve> curves = problem_.hulls();
    const Nanoseconds t_min = replay(*problem_.dag, problem_.blocking, fastest_plan(problem_)).time;
    double range = 0.0;  // J that clocks can save at most
    std::vector<Nanoseconds> slowest;
    for (int i = 0; i < problem_.dag->size(); ++i) {
      const CostCurve& curve = curves[at((*problem_.dag)[i].type)];
      range += curve.front().net_joules - curve.back().net_joules;
      slowest.push_back(curve.back().time);
    }
    if (range <= 0.0) return;
    std::vector<Nanoseconds> finish(slowest.size());
    const Nanoseconds t_star = makespan(*problem_.dag, slowest, finish);
    std::vector<Nanoseconds> times;
    for (Nanoseconds more = (t_star - t_min) / 2; times.size() + 1 < kTimes; more = more * 5 / 8) {
      times.push_back(t_min + more);
    }
    times.push_back(t_min);
    runs_.set_budget(kSearchedNodes);
    const std::vector<std::vector<double>> all_prices = prices_at(*problem_.dag, curves, times);
    PricedClocks priced(problem_, terms_.latency);
    double per_change = range;
    for (int c = 0; c < kChangePrices; ++c, per_change *= kChangePriceStep) {
      for (const std::vector<double>& prices : all_prices) {
        for (const double multiple : kTimePrices) {
          std::vector<double> raised = prices;
          for (double& price : raised) price *= multiple;
          runs_.spend(priced.cells() / kCellsPerNode);
          try_plan(priced.plan(raised, Joules(per_change)));
          if (runs_.spent()) return;
        }
        if (!go_on(kSearchShare * (c + static_cast<double>(&prices - all_prices.data()) / kTimes) / kChangePrices))
          return;
      }
    }
  }

  // Tries what longer dwell times leave of the plans of the present front.
  void lengthen() {
    runs_.set_budget(kSearchedNodes / 4);
    const std::vector<SwitchingPlan> present = fronts_.front();
    for (const Nanoseconds step : kDwellSteps) {
      for (const SwitchingPlan& plan : present) {
        if (step <= terms_.min_dwell || step <= plan.dwell) continue;
        if (runs_.spent() || !go_on(kSearchShare)) return;
        runs_.load(plan.plan);
        runs_.keep_dwell(step, limit());
        improve();
      }
    }
  }

  // Turns to later deadlines: the planners' plans, and what the search for the first deadline has found for them on the
  // way, lowered until each deadline is reached.
  void relax(const std::vector<std::vector<ClockPlan>>& plans) {
    for (std::size_t k = 1; k < limits_.size(); ++k) {
      if (!go_on(kSearchShare + (1.0 - kSearchShare) * static_cast<double>(k) / static_cast<double>(limits_.size())))
        break;
      level_ = k;
      runs_.set_budget(kSearchedNodes / 4);
      for (const ClockPlan& plan : plans[k]) edit(plan);
      const std::vector<SwitchingPlan> present = fronts_[k];
      for (const SwitchingPlan& plan : present) {
        if (runs_.spent()) break;
        runs_.load(plan.plan);
        improve();
      }
    }
  }

  [[nodiscard]] std::vector<std::vector<SwitchingPlan>> take() && {
    std::vector<std::vector<SwitchingPlan>> fronts = std::move(fronts_);
    if (fronts.front().empty()) fronts.front().push_back(std::move(nearest_));
    return fronts;
  }

 private:
  // Tells the caller how far the search has come, and whether the caller wants more.
  bool go_on(double share) {
    stopped_ = stopped_ || (progress_ && !progress_(share));
    return !stopped_;
  }

  void try_plan(ClockPlan plan) {
    if (!seen_.insert(plan).second) return;
    runs_.load(std::move(plan));
    offer();
    if (runs_.longest() > limit()) {
      if (!promising()) return;
      runs_.ask_earlier(limit());
      if (!runs_.raise_runs(limit())) return;
    }
    if (runs_.shortest_dwell() < terms_.min_dwell) runs_.keep_dwell(terms_.min_dwell, limit());
    improve();
  }

  void improve() {
    if (!promising()) return;
    while (runs_.shift_bounds(limit()) || runs_.lower_runs(limit()) || runs_.merge_runs(limit())) {
    }
  }

  // Whether the present plan, late or not, takes at most a little more energy than the front's with as many changes.
  [[nodiscard]] bool promising() const {
    const int switches = count_switches(*problem_.dag, runs_.plan());
    const std::vector<SwitchingPlan>& front = fronts_[level_];
    return std::none_of(front.begin(), front.end(), [&](const SwitchingPlan& other) {
      return other.switches <= switches && 1.002 * other.energy < runs_.energy();
    });
  }

  static bool beats(const SwitchingPlan& a, const SwitchingPlan& b) {
    return a.switches <= b.switches && a.energy <= b.energy;
  }

  [[nodiscard]] Nanoseconds late(const SwitchingPlan& plan) const {
    return std::max<Nanoseconds>(0, plan.longest - limits_.front());
  }

  // Which of two plans that miss the deadline or the dwell time is the lesser evil.
  [[nodiscard]] bool nearer(const SwitchingPlan& a, const SwitchingPlan& b) const {
    return std::tuple(late(a), a.switches, a.energy) < std::tuple(late(b), b.switches, b.energy);
  }

  void offer() {
    SwitchingPlan offered{
        {}, count_switches(*problem_.dag, runs_.plan()), runs_.longest(), runs_.energy(), runs_.shortest_dwell()};
    const auto wanted = [&](std::size_t k) {
      return offered.longest <= limits_[k] &&
             std::ranges::none_of(fronts_[k], [&](const SwitchingPlan& other) { return beats(other, offered); });
    };
    const auto any_wants = [&] {
      for (std::size_t k = 0; k < fronts_.size(); ++k) {
        if (wanted(k)) return true;
      }
      return fronts_.front().empty();
    };
    if (!any_wants()) return;
    if (terms_.spread > 0) {
      runs_.spend(problem_.dag->size());
      offered.longest = std::max(offered.longest, soonest_.run(runs_.plan()).longest);
    }
    const bool dwells = offered.dwell >= std::min(terms_.min_dwell, offered.longest);
    if (fronts_.front().empty() && (late(offered) > 0 || !dwells) &&
        (nearest_.plan.empty() || nearer(offered, nearest_))) {
      nearest_ = offered;
      nearest_.plan = runs_.plan();
    }
    for (std::size_t k = 0; dwells && k < fronts_.size(); ++k) {
      if (wanted(k)) insert(fronts_[k], offered);
    }
  }

  void insert(std::vector<SwitchingPlan>& front, SwitchingPlan plan) {
    std::erase_if(front, [&](const SwitchingPlan& other) { return beats(plan, other); });
    plan.plan = runs_.plan();
    const auto place =
        std::ranges::find_if(front, [&](const SwitchingPlan& other) { return other.switches > plan.switches; });
    front.insert(place, std::move(plan));
  }

  [[nodiscard]] Nanoseconds limit() const { return limits_[level_]; }

  const PlanProblem& problem_;
  const Progress& progress_;
  bool stopped_ = false;
  SwitchingTerms terms_;
  std::vector<Nanoseconds> limits_;
  std::size_t level_ = 0;  // which of the limits is searched for
  ClockRuns runs_;
  LateClocks soonest_;  // with the shortest latency
  std::set<ClockPlan> seen_;
  std::vector<std::vector<SwitchingPlan>> fronts_;  // one for each limit
  SwitchingPlan nearest_;                           // where no plan meets deadline and dwell time
};

}  // namespace

std::vector<std::vector<SwitchingPlan>> switching_fronts(const PlanProblem& problem,
                                                         const std::vector<std::vector<ClockPlan>>& plans,
                                                         const SwitchingTerms& terms, const Progress& progress) {
  assert(terms.spread >= 0 && terms.latency >= terms.spread && terms.min_dwell >= 0);
  assert(plans.size() == 1 + terms.later_deadlines.size() && !plans.front().empty());
  const Nanoseconds first = std::max(terms.deadline, replay(*problem.dag, problem.blocking, plans[0][0]).time);
  std::vector<Nanoseconds> limits{first};
  for (const Nanoseconds later : terms.later_deadlines) limits.push_back(std::max(later, first));
  SwitchingSearch search(problem, terms, std::move(limits), progress);
  for (const ClockPlan& plan : plans.front()) search.edit(plan);
  search.search();
  search.lengthen();
  search.relax(plans);
  return std::move(search).take();
}

std::optional<std::size_t> slowest_in_time(const PlanProblem& problem, const Frontier& frontier, Nanoseconds time,
                                           const SwitchingTerms& terms) {
  LateClocks late(*problem.dag, problem.blocking, terms.latency, terms.asked);
  LateClocks soon(*problem.dag, problem.blocking, terms.latency - terms.spread, terms.asked);
  std::size_t in_time = 0;  // of the points, fastest first, so many
  for (std::size_t end = frontier.size(); in_time < end;) {
    const std::size_t middle = in_time + (end - in_time) / 2;
    const ClockPlan plan = frontier.plan(middle);
    const bool ends = late.run(plan).longest <= time && (terms.spread == 0 || soon.run(plan).longest <= time);
    (ends ? in_time : end) = ends ? middle + 1 : middle;
  }
  return in_time > 0 ? std::optional(in_time - 1) : std::nullopt;
}

std::size_t few_changes(const PlanProblem& problem, const std::vector<SwitchingPlan>& front) {
  const FrontierPoint highest = replay(*problem.dag, problem.blocking, max_clock_plan(problem));
  const Joules baseline = energy_with_straggler(highest, problem.total_blocking(), 0);
  const Joules most = front.back().energy + kWorthOfChanges * baseline;
  const auto few = std::find_if(front.begin(), front.end(), [&](const SwitchingPlan& p) { return p.energy <= most; });
  return static_cast<std::size_t>(few - front.begin());
}

Nanoseconds shortest_dwell(const PlanProblem& problem, const ClockPlan& plan, Nanoseconds latency) {
  ClockRuns runs(problem, latency);
  runs.load(plan);
  return runs.shortest_dwell();
}

}  // namespace flyball
