// Tries edits of the plan one by one: an edit is applied, the iteration is replayed with late clock changes, and the
// edit is kept or taken back.
#include "plan/switching.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/index.h"
#include "pipeline/late_clocks.h"
#include "plan/stage_clock.h"
#include "profile/cost_curve.h"

namespace flyball {
namespace {

// Consecutive operations of equal clock on a stage. `begin` counts the stage's operations that have a choice of clocks;
// a run may continue past the end of the iteration at its beginning.
struct Run {
  std::size_t begin = 0;
  std::size_t length = 0;
};

// New options for some operations.
using Edit = std::vector<std::pair<int, std::uint16_t>>;

// What an edit does to the charged iteration.
struct Effect {
  Nanoseconds makespan = 0;    // of the longest iteration
  double energy_change = 0.0;  // J, blocking included
};

class SwitchReducer {
 public:
  SwitchReducer(const PlanProblem& problem, ClockPlan plan, Nanoseconds latency)
      : problem_(problem),
        dag_(*problem.dag),
        latency_(latency),
        plan_(std::move(plan)),
        order_(at(dag_.stages())),
        beside_(at(dag_.size())),
        late_(dag_, problem.blocking, latency) {
    for (std::size_t stage = 0; stage < order_.size(); ++stage) {
      auto& operations = order_[stage];
      for (const int i : dag_.stage_order(static_cast<int>(stage))) {
        if (dag_.type_of(i).options.size() > 1) operations.push_back(i);
      }
      const std::size_t n = operations.size();
      for (std::size_t k = 0; k < n; ++k) {
        beside_[at(operations[k])] = {operations[(k + n - 1) % n], operations[(k + 1) % n]};
      }
    }
    adopt(late_.run(plan_));
  }

  // Step 1 of the header. Every accepted edit raises a clock.
  void meet(Nanoseconds deadline) {
    while (timeline_.makespan > deadline) {
      std::optional<std::pair<int, std::uint16_t>> best;
      double best_price = 0.0;  // J per second of delay removed
      for (const int i : critical_path(dag_, timeline_)) {
        const Nanoseconds delay = durations_[at(i)] - duration(i, plan_[at(i)]);
        if (delay <= 0) continue;
        const auto raise = slower_before(i);
        if (!raise) continue;
        const auto [before, raised] = *raise;
        const double price = (net(before, raised) - net(before, plan_[at(before)])) / to_seconds(delay).value();
        if (best && price >= best_price) continue;
        best = raise;
        best_price = price;
      }
      if (!best) return;
      accept({*best});
    }
  }

  // Step 2. Every accepted edit removes a switch.
  void keep_dwell(Nanoseconds min_dwell, Nanoseconds deadline) {
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
      if (!shortest) return;
      const std::size_t stage = shortest->first;
      const std::vector<Run> all = runs(stage);
      const Run run = all[shortest->second];
      const Run left = all[(shortest->second + all.size() - 1) % all.size()];
      const Run right = all[(shortest->second + 1) % all.size()];
      std::optional<Edit> best;
      Effect best_effect;
      for (const auto& [moved, other] : {std::pair(run, left), {run, right}, {left, run}, {right, run}}) {
        auto edit = at_clock(stage, moved, clock(operation(stage, other.begin)));
        if (!edit) continue;
        const Effect effect = try_edit(*edit);
        if (best && !better(effect, best_effect, deadline)) continue;
        best = std::move(edit);
        best_effect = effect;
      }
      if (best) {
        accept(*best);
        stuck.clear();
      } else {
        stuck.insert({stage, run.begin});
      }
    }
  }

  // Step 3: a whole run takes a neighbour's clock. Every accepted edit removes a switch.
  bool merge_runs(Nanoseconds deadline) {
    return improve_runs(deadline, [&](std::size_t stage, const std::vector<Run>& all, std::size_t r) {
      return std::vector<Megahertz>{clock(operation(stage, all[(r + all.size() - 1) % all.size()].begin)),
                                    clock(operation(stage, all[(r + 1) % all.size()].begin))};
    });
  }

  // Step 4: a whole run takes the next lower clock, which adds no switch.
  bool lower_runs(Nanoseconds deadline) {
    return improve_runs(deadline, [&](std::size_t stage, const std::vector<Run>& all, std::size_t r) {
      const int first = operation(stage, all[r].begin);
      const auto& options = dag_.type_of(first).options;
      const std::size_t lower = plan_[at(first)] + std::size_t{1};
      return lower < options.size() ? std::vector<Megahertz>{options[lower].frequency} : std::vector<Megahertz>{};
    });
  }

  [[nodiscard]] Nanoseconds shortest_dwell() const {
    Nanoseconds least = timeline_.makespan;
    for (std::size_t stage = 0; stage < order_.size(); ++stage) {
      const std::vector<Run> all = runs(stage);
      for (std::size_t r = 0; r < all.size(); ++r) least = std::min(least, dwell_of(stage, all, r));
    }
    return least;
  }

  [[nodiscard]] ClockPlan take() && { return std::move(plan_); }

 private:
  [[nodiscard]] Megahertz clock(int i) const { return dag_.type_of(i).options[plan_[at(i)]].frequency; }
  [[nodiscard]] Nanoseconds duration(int i, std::uint16_t option) const {
    return to_nanoseconds(dag_.type_of(i).options[option].time);
  }
  [[nodiscard]] double net(int i, std::uint16_t option) const {
    return net_joules(dag_.type_of(i).options[option], problem_.charged_blocking(dag_.type_of(i)));
  }
  [[nodiscard]] int operation(std::size_t stage, std::size_t position) const {
    return order_[stage][position % order_[stage].size()];
  }

  // For an operation whose clock is requested too late: the nearest operation before it on its stage that has a lower
  // clock, and that one's option at the operation's clock. None if it was not measured at that clock.
  [[nodiscard]] std::optional<std::pair<int, std::uint16_t>> slower_before(int i) const {
    for (int before = beside_[at(i)].first; before != i; before = beside_[at(before)].first) {
      const auto raised = option_at(dag_.type_of(before), clock(i));
      if (!raised) return std::nullopt;
      if (*raised < plan_[at(before)]) return std::pair(before, *raised);
    }
    return std::nullopt;
  }

  // Applies an edit, and leaves the old options in it.
  void swap(Edit& edit) {
    for (auto& [i, option] : edit) std::swap(plan_[at(i)], option);
  }

  [[nodiscard]] Effect try_edit(Edit edit) {
    swap(edit);
    const SwitchedRun& run = late_.run(plan_);
    const Effect effect{run.longest, (run.energy.total() - energy_).value()};
    swap(edit);
    return effect;
  }

  void accept(Edit edit) {
    swap(edit);
    adopt(late_.run(plan_));
  }

  void adopt(const SwitchedRun& run) {
    durations_ = run.durations;
    energy_ = run.energy.total();
    timeline_ = emulate(dag_, durations_);
  }

  // The runs of a stage: none when it never changes its clock, two or more otherwise.
  [[nodiscard]] std::vector<Run> runs(std::size_t stage) const {
    const auto& operations = order_[stage];
    std::vector<Run> found;
    for (std::size_t k = 0; k < operations.size(); ++k) {
      if (clock(operations[k]) != clock(beside_[at(operations[k])].first)) found.push_back({k, 0});
    }
    for (std::size_t r = 0; r < found.size(); ++r) {
      const std::size_t next = r + 1 < found.size() ? found[r + 1].begin : found[0].begin + operations.size();
      found[r].length = next - found[r].begin;
    }
    return found;
  }

  // The time from a run's start until the stage's next change.
  [[nodiscard]] Nanoseconds dwell_of(std::size_t stage, const std::vector<Run>& all, std::size_t r) const {
    const auto start = [&](std::size_t k) { return timeline_.start[at(operation(stage, all[k].begin))]; };
    return r + 1 < all.size() ? start(r + 1) - start(r) : timeline_.makespan + start(0) - start(r);
  }

  // Puts the whole run at a clock; none if one of its operations was not measured at it.
  [[nodiscard]] std::optional<Edit> at_clock(std::size_t stage, const Run& run, Megahertz target) const {
    Edit edit;
    for (std::size_t k = 0; k < run.length; ++k) {
      const int i = operation(stage, run.begin + k);
      const auto option = option_at(dag_.type_of(i), target);
      if (!option) return std::nullopt;
      edit.emplace_back(i, *option);
    }
    return edit;
  }

  // A cheap test that spares most edits the replay: a slower clock must fit into an operation's slack, and a dearer one
  // can hardly pay unless it shortens the critical path.
  [[nodiscard]] bool may_pay(const Edit& edit, Nanoseconds deadline) const {
    double net_change = 0.0;
    bool critical = timeline_.critical(beside_[at(edit.back().first)].second);
    for (std::size_t k = 0; k < edit.size(); ++k) {
      const auto [i, option] = edit[k];
      net_change += net(i, option) - net(i, plan_[at(i)]);
      critical = critical || timeline_.critical(i);
      // This operation may still run at a faster clock from before, since the change has to wait for another one that
      // is under way and then takes as long itself.
      if (k == 0 || timeline_.start[at(i)] - timeline_.start[at(edit[0].first)] < 2 * latency_) continue;
      const Nanoseconds slack = timeline_.latest_start[at(i)] - timeline_.start[at(i)] + deadline - timeline_.makespan;
      if (duration(i, option) - durations_[at(i)] > slack) return false;
    }
    return critical || net_change <= 0.0;
  }

  // Gives each run the best of the clocks that `clocks_for` names, as long as the iteration ends by the deadline (or by
  // its present end, if that is later) and the charged energy does not rise.
  template <class ClocksFor>
  bool improve_runs(Nanoseconds deadline, ClocksFor clocks_for) {
    bool changed = false;
    for (std::size_t stage = 0; stage < order_.size(); ++stage) {
      std::vector<Run> all = runs(stage);
      for (std::size_t r = 0; r < all.size();) {
        const Nanoseconds limit = std::max(deadline, timeline_.makespan);
        std::optional<Edit> best;
        double best_change = 0.0;
        for (const Megahertz target : clocks_for(stage, all, r)) {
          auto edit = at_clock(stage, all[r], target);
          if (!edit || !may_pay(*edit, limit)) continue;
          const Effect effect = try_edit(*edit);
          if (effect.makespan > limit || effect.energy_change > best_change + rounding()) continue;
          best = std::move(edit);
          best_change = effect.energy_change;
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

  // Energies that differ by less are equal but for the rounding of their sums.
  [[nodiscard]] double rounding() const { return 1e-12 * energy_.value(); }

  [[nodiscard]] bool better(const Effect& a, const Effect& b, Nanoseconds deadline) const {
    const Nanoseconds late_a = std::max<Nanoseconds>(0, a.makespan - deadline);
    const Nanoseconds late_b = std::max<Nanoseconds>(0, b.makespan - deadline);
    return late_a != late_b ? late_a < late_b : a.energy_change < b.energy_change - rounding();
  }

  const PlanProblem& problem_;
  const ComputationDag& dag_;
  Nanoseconds latency_;
  ClockPlan plan_;
  std::vector<std::vector<int>> order_;      // by stage: the operations with a choice of clocks
  std::vector<std::pair<int, int>> beside_;  // by operation: those before and after it on the stage, in a circle
  LateClocks late_;
  std::vector<Nanoseconds> durations_;  // charged, of the longest iteration
  Timeline timeline_;                   // of durations_
  Joules energy_;                       // charged, of an iteration
};

}  // namespace

ClockPlan reduce_switches(const PlanProblem& problem, const ClockPlan& plan, Nanoseconds deadline, Nanoseconds latency,
                          Nanoseconds min_dwell) {
  assert(latency >= 0 && min_dwell >= 0);
  const Nanoseconds limit = std::max(deadline, replay(*problem.dag, problem.blocking, plan).time);
  SwitchReducer reducer(problem, plan, latency);
  reducer.meet(limit);
  // Runs are merged before they are lowered: lowering uses up slack with which a merge could also have removed a
  // switch.
  do {
    do {
      reducer.keep_dwell(min_dwell, limit);
    } while (reducer.merge_runs(limit));
  } while (reducer.lower_runs(limit));
  return std::move(reducer).take();
}

Nanoseconds shortest_dwell(const PlanProblem& problem, const ClockPlan& plan, Nanoseconds latency) {
  return SwitchReducer(problem, plan, latency).shortest_dwell();
}

}  // namespace flyball
