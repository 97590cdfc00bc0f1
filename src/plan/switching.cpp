#include "plan/switching.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "plan/stage_clock.h"
#include "profile/cost_curve.h"

namespace flyball {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Operations of equal clock, one after the other on a stage; `begin` counts the stage's operations with a choice and
// the run may pass the end of the iteration.
struct Run {
  std::size_t begin = 0;
  std::size_t length = 0;
};

class SwitchReducer {
 public:
  SwitchReducer(const PlanProblem& problem, ClockPlan plan, Nanoseconds latency)
      : problem_(problem), dag_(*problem.dag), latency_(latency), plan_(std::move(plan)), order_(at(dag_.stages())) {
    for (int stage = 0; stage < dag_.stages(); ++stage) {
      for (const int i : dag_.stage_order(stage)) {
        if (dag_.type_of(i).options.size() > 1) order_[at(stage)].push_back(i);
      }
    }
    settle(charge());
  }

  // Step 1 of the header. Every change raises a clock.
  void meet(Nanoseconds deadline) {
    while (now_.makespan > deadline) {
      std::optional<std::pair<int, std::uint16_t>> best;
      double best_price = 0.0;  // J per second of delay removed
      for (const int i : critical_path(dag_, timeline_)) {
        const Nanoseconds delay = now_.durations[at(i)] - duration(i, plan_[at(i)]);
        if (delay <= 0) continue;
        const int before = previous_[at(i)];
        const auto raised = option_at(dag_.type_of(before), clock(i));
        if (!raised || *raised >= plan_[at(before)]) continue;
        const double price = (net(before, *raised) - net(before, plan_[at(before)])) / to_seconds(delay).value();
        if (best && price >= best_price) continue;
        best = {before, *raised};
        best_price = price;
      }
      if (!best) return;
      plan_[at(best->first)] = best->second;
      settle(charge());
    }
  }

  // Step 2. Every change removes a switch.
  bool keep_dwell(Nanoseconds min_dwell, Nanoseconds deadline) {
    bool changed = false;
    std::set<std::pair<std::size_t, std::size_t>>
        stuck;  // stage and begin of runs that share no clock with a neighbour
    while (true) {
      std::optional<std::pair<std::size_t, std::size_t>> shortest;  // stage, run
      Nanoseconds least = min_dwell;
      for (std::size_t stage = 0; stage < order_.size(); ++stage) {
        const std::vector<Run> all = runs(stage);
        for (std::size_t r = 0; r < all.size(); ++r) {
          const Nanoseconds dwell = dwell_of(stage, all, r);
          if (dwell >= least || stuck.contains({stage, all[r].begin})) continue;
          least = dwell;
          shortest = {stage, r};
        }
      }
      if (!shortest) return changed;
      const std::size_t stage = shortest->first;
      const std::vector<Run> all = runs(stage);
      const Run run = all[shortest->second];
      const Run left = all[(shortest->second + all.size() - 1) % all.size()];
      const Run right = all[(shortest->second + 1) % all.size()];
      std::optional<Trial> best;
      for (const auto& [moved, beside] : {std::pair(run, left), {run, right}, {left, run}, {right, run}}) {
        auto trial = try_merge(stage, moved, beside);
        if (trial && (!best || better(trial->run, best->run, deadline))) best = std::move(trial);
      }
      if (!best) {
        stuck.insert({stage, run.begin});
        continue;
      }
      accept(std::move(*best));
      changed = true;
      stuck.clear();
    }
  }

  // Step 3. Every change removes a switch.
  bool drop_useless(Nanoseconds deadline) {
    bool changed = false;
    for (std::size_t stage = 0; stage < order_.size(); ++stage) {
      std::vector<Run> all = runs(stage);
      for (std::size_t r = 0; r < all.size();) {
        const Run left = all[(r + all.size() - 1) % all.size()];
        const Run right = all[(r + 1) % all.size()];
        const Nanoseconds limit = std::max(deadline, now_.makespan);
        std::optional<Trial> best;
        for (const bool to_left : {true, false}) {
          const Run& beside = to_left ? left : right;
          if (!may_pay(stage, all[r], beside, to_left, limit)) continue;
          auto trial = try_merge(stage, all[r], beside);
          if (!trial || trial->run.makespan > limit || trial->run.energy.total() > now_.energy.total()) continue;
          if (!best || trial->run.energy.total() < best->run.energy.total()) best = std::move(trial);
        }
        if (!best) {
          ++r;
          continue;
        }
        accept(std::move(*best));
        changed = true;
        all = runs(stage);
        r = r > 0 ? r - 1 : 0;
      }
    }
    return changed;
  }

  [[nodiscard]] Nanoseconds shortest_dwell() const {
    Nanoseconds least = now_.makespan;
    for (std::size_t stage = 0; stage < order_.size(); ++stage) {
      const std::vector<Run> all = runs(stage);
      for (std::size_t r = 0; r < all.size(); ++r) least = std::min(least, dwell_of(stage, all, r));
    }
    return least;
  }

  [[nodiscard]] ClockPlan take() && { return std::move(plan_); }

 private:
  struct Trial {
    std::vector<std::pair<int, std::uint16_t>> options;
    SwitchedRun run;
  };

  [[nodiscard]] SwitchedRun charge() const { return emulate_switching(dag_, plan_, problem_.blocking, latency_); }

  void settle(SwitchedRun run) {
    now_ = std::move(run);
    timeline_ = emulate(dag_, now_.durations);
    if (!previous_.empty()) return;
    previous_.assign(at(dag_.size()), -1);
    for (const auto& operations : order_) {
      for (std::size_t k = 0; k < operations.size(); ++k) {
        previous_[at(operations[k])] = operations[(k + operations.size() - 1) % operations.size()];
      }
    }
  }

  void accept(Trial trial) {
    for (const auto& [i, option] : trial.options) plan_[at(i)] = option;
    settle(std::move(trial.run));
  }

  [[nodiscard]] Megahertz clock(int i) const { return dag_.type_of(i).options[plan_[at(i)]].frequency; }
  [[nodiscard]] Nanoseconds duration(int i, std::uint16_t option) const {
    return to_nanoseconds(dag_.type_of(i).options[option].time);
  }
  [[nodiscard]] double net(int i, std::uint16_t option) const {
    return net_joules(dag_.type_of(i).options[option], problem_.blocking[at(dag_.type_of(i).stage)]);
  }
  [[nodiscard]] int operation(std::size_t stage, std::size_t position) const {
    return order_[stage][position % order_[stage].size()];
  }

  // Empty when the stage never changes its clock; two or more otherwise.
  [[nodiscard]] std::vector<Run> runs(std::size_t stage) const {
    const auto& operations = order_[stage];
    std::vector<Run> found;
    for (std::size_t k = 0; k < operations.size(); ++k) {
      if (clock(operations[k]) != clock(previous_[at(operations[k])])) found.push_back({k, 0});
    }
    for (std::size_t r = 0; r < found.size(); ++r) {
      const std::size_t next = r + 1 < found.size() ? found[r + 1].begin : found[0].begin + operations.size();
      found[r].length = next - found[r].begin;
    }
    return found;
  }

  // Until the stage's next change.
  [[nodiscard]] Nanoseconds dwell_of(std::size_t stage, const std::vector<Run>& all, std::size_t r) const {
    const auto start = [&](std::size_t k) { return timeline_.start[at(operation(stage, all[k].begin))]; };
    return r + 1 < all.size() ? start(r + 1) - start(r) : now_.makespan + start(0) - start(r);
  }

  // Options that give a run the clock of another; none where an operation was not measured at it.
  [[nodiscard]] std::optional<Trial> merge(std::size_t stage, const Run& moved, const Run& beside) const {
    const Megahertz target = clock(operation(stage, beside.begin));
    Trial trial;
    for (std::size_t k = 0; k < moved.length; ++k) {
      const int i = operation(stage, moved.begin + k);
      const auto option = option_at(dag_.type_of(i), target);
      if (!option) return std::nullopt;
      trial.options.emplace_back(i, *option);
    }
    return trial;
  }

  [[nodiscard]] std::optional<Trial> try_merge(std::size_t stage, const Run& moved, const Run& beside) {
    auto trial = merge(stage, moved, beside);
    if (!trial) return std::nullopt;
    std::vector<std::uint16_t> before;
    for (const auto& [i, option] : trial->options) before.push_back(std::exchange(plan_[at(i)], option));
    trial->run = charge();
    for (std::size_t k = 0; k < before.size(); ++k) plan_[at(trial->options[k].first)] = before[k];
    return trial;
  }

  // A cheap necessary condition for drop_useless(), so that most merges need no emulation: a slower clock must not
  // overrun an operation's slack, a dearer one can only pay by what it takes off the critical path.
  [[nodiscard]] bool may_pay(std::size_t stage, const Run& moved, const Run& beside, bool to_left,
                             Nanoseconds limit) const {
    const auto trial = merge(stage, moved, beside);
    if (!trial) return false;
    double net_change = 0.0;
    bool critical = timeline_.critical(operation(stage, moved.begin + moved.length));
    for (std::size_t k = 0; k < trial->options.size(); ++k) {
      const auto [i, option] = trial->options[k];
      net_change += net(i, option) - net(i, plan_[at(i)]);
      critical = critical || timeline_.critical(i);
      // The first operation still begins at the left neighbour's clock, which may be faster.
      if (!to_left && k == 0) continue;
      const Nanoseconds slack = timeline_.latest_start[at(i)] - timeline_.start[at(i)] + limit - now_.makespan;
      if (duration(i, option) - now_.durations[at(i)] > slack) return false;
    }
    return critical || net_change <= 0.0;
  }

  [[nodiscard]] static bool better(const SwitchedRun& a, const SwitchedRun& b, Nanoseconds deadline) {
    const Nanoseconds late_a = std::max<Nanoseconds>(0, a.makespan - deadline);
    const Nanoseconds late_b = std::max<Nanoseconds>(0, b.makespan - deadline);
    return late_a != late_b ? late_a < late_b : a.energy.total() < b.energy.total();
  }

  const PlanProblem& problem_;
  const ComputationDag& dag_;
  Nanoseconds latency_;
  ClockPlan plan_;
  std::vector<std::vector<int>> order_;  // per stage, the operations with a choice of clocks
  std::vector<int> previous_;            // the one before on its stage, around the iteration's end
  SwitchedRun now_;                      // plan_ as charged
  Timeline timeline_;                    // of now_
};

}  // namespace

ClockPlan reduce_switches(const PlanProblem& problem, const ClockPlan& plan, Nanoseconds deadline, Nanoseconds latency,
                          Nanoseconds min_dwell) {
  assert(latency >= 0 && min_dwell >= 0);
  const Nanoseconds limit = std::max(deadline, replay(*problem.dag, problem.blocking, plan).time);
  SwitchReducer reducer(problem, plan, latency);
  reducer.meet(limit);
  do {
    reducer.keep_dwell(min_dwell, limit);
  } while (reducer.drop_useless(limit));
  return std::move(reducer).take();
}

Nanoseconds shortest_dwell(const PlanProblem& problem, const ClockPlan& plan, Nanoseconds latency) {
  return SwitchReducer(problem, plan, latency).shortest_dwell();
}

}  // namespace flyball
