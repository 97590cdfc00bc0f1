// Edits of a plan's runs. Most edits are refused by a cheap test of the operations' slack (may_pay); only the others
// are replayed.
#include "plan/clock_runs.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/index.h"
#include "plan/stage_clock.h"
#include "profile/cost_curve.h"

namespace flyball {
namespace {

// A run that grows shortens others, which may have to grow in turn.
constexpr int kMostGrowths = 32;

}  // namespace

ClockRuns::ClockRuns(const PlanProblem& problem, Nanoseconds latency, Nanoseconds waits_until, ClocksAsked asked)
    : problem_(problem),
      dag_(*problem.dag),
      latency_(latency),
      waits_until_(waits_until),
      asked_(asked),
      order_(at(dag_.stages())),
      beside_(at(dag_.size())),
      late_(dag_, problem.blocking, latency, asked) {
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
}

void ClockRuns::load(ClockPlan plan) {
  plan_ = std::move(plan);
  adopt();
}

Nanoseconds ClockRuns::shortest_dwell() const {
  Nanoseconds least = timeline_.makespan;
  for (std::size_t stage = 0; stage < order_.size(); ++stage) {
    const std::vector<Run> all = runs(stage);
    for (std::size_t r = 0; r < all.size(); ++r) least = std::min(least, dwell_of(stage, all, r));
  }
  return least;
}

void ClockRuns::ask_earlier(Nanoseconds deadline) {
  while (timeline_.makespan > deadline && !spent()) {
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

bool ClockRuns::raise_runs(Nanoseconds deadline) {
  while (timeline_.makespan > deadline) {
    if (spent()) return false;
    std::vector<char> on_path(at(dag_.size()), 0);
    for (const int i : critical_path(dag_, timeline_)) on_path[at(i)] = 1;
    std::optional<Edit> best;
    double best_price = 0.0;  // J per second of the critical path
    for (std::size_t stage = 0; stage < order_.size(); ++stage) {
      for (const Run& run : runs(stage)) {
        const auto edit = raised(stage, run);
        if (!edit) continue;
        double joules = 0.0;
        Nanoseconds gained = 0;
        for (const auto& [i, option] : *edit) {
          joules += net(i, option) - net(i, plan_[at(i)]);
          if (on_path[at(i)] != 0) gained += duration(i, plan_[at(i)]) - duration(i, option);
        }
        if (gained <= 0) continue;
        const double price = joules / to_seconds(gained).value();
        if (best && price >= best_price) continue;
        best = edit;
        best_price = price;
      }
    }
    if (!best) return false;
    accept(std::move(*best));
  }
  return true;
}

void ClockRuns::keep_dwell(Nanoseconds min_dwell, Nanoseconds deadline) {
  std::set<std::pair<std::size_t, std::size_t>> stuck;  // stage and begin of runs that share no clock with a neighbour
  int growths = kMostGrowths;
  while (!spent()) {
    std::optional<std::pair<std::size_t, std::size_t>> shortest;  // stage, run
    Nanoseconds least = min_dwell;
    for (std::size_t stage = 0; stage < order_.size(); ++stage) {
      const std::vector<Run> all = runs(stage);
      for (std::size_t r = 0; r < all.size() && all.size() > 1; ++r) {
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
    for (auto& edit : growths > 0 ? grown(stage, all, shortest->second, min_dwell) : std::vector<Edit>{}) {
      const Effect effect = try_edit(edit);
      if (effect.makespan > deadline || (best && !better(effect, best_effect, deadline))) continue;
      best = std::move(edit);
      best_effect = effect;
    }
    if (best) {
      const std::size_t before = all.size();
      accept(*best);
      if (runs(stage).size() == before) --growths;
      stuck.clear();
    } else {
      stuck.insert({stage, run.begin});
    }
  }
}

bool ClockRuns::merge_runs(Nanoseconds deadline) {
  return improve_runs(deadline, 0.0, [&](std::size_t stage, const std::vector<Run>& all, std::size_t r) {
    std::vector<Edit> edits;
    if (all.size() < 2) return edits;
    for (const std::size_t other : {(r + all.size() - 1) % all.size(), (r + 1) % all.size()}) {
      if (auto edit = at_clock(stage, all[r], clock(operation(stage, all[other].begin)))) edits.push_back(*edit);
    }
    return edits;
  });
}

bool ClockRuns::lower_runs(Nanoseconds deadline) {
  return improve_runs(deadline, rounding(), [&](std::size_t stage, const std::vector<Run>& all, std::size_t r) {
    std::vector<Edit> edits;
    const int first = operation(stage, all[r].begin);
    const OperationType& type = dag_.type_of(first);
    const auto lower = one_clock_down(type, plan_[at(first)]);
    if (!lower) return edits;
    if (auto edit = at_clock(stage, all[r], type.options[*lower].frequency)) edits.push_back(*edit);
    return edits;
  });
}

bool ClockRuns::shift_bounds(Nanoseconds deadline) {
  return improve_runs(deadline, rounding(), [&](std::size_t stage, const std::vector<Run>& all, std::size_t r) {
    std::vector<Edit> edits;
    if (all.size() < 2) return edits;
    const Run& run = all[r];
    for (const std::size_t moved : {1U, 2U, 4U}) {
      if (moved >= run.length) break;
      const Megahertz before = clock(operation(stage, run.begin + order_[stage].size() - 1));
      const Megahertz after = clock(operation(stage, run.begin + run.length));
      if (auto edit = at_clock(stage, {run.begin, moved}, before)) edits.push_back(*edit);
      if (auto edit = at_clock(stage, {run.begin + run.length - moved, moved}, after)) edits.push_back(*edit);
    }
    return edits;
  });
}

Megahertz ClockRuns::clock(int i) const { return dag_.type_of(i).options[plan_[at(i)]].frequency; }

Nanoseconds ClockRuns::duration(int i, std::uint16_t option) const {
  return to_nanoseconds(dag_.type_of(i).options[option].time);
}

double ClockRuns::net(int i, std::uint16_t option) const {
  return net_joules(dag_.type_of(i).options[option], problem_.charged_blocking(dag_.type_of(i)));
}

// Finds, for an operation whose clock is requested too late, the nearest operation before it on its stage that has a
// lower clock, and that one's option at the operation's clock. Returns none if it was not measured at that clock.
std::optional<std::pair<int, std::uint16_t>> ClockRuns::slower_before(int i) const {
  for (int before = beside_[at(i)].first; before != i; before = beside_[at(before)].first) {
    const auto raised = option_at(dag_.type_of(before), clock(i));
    if (!raised) return std::nullopt;
    if (clock(before) < clock(i)) return std::pair(before, *raised);
  }
  return std::nullopt;
}

// The runs of a stage: one of all its operations when it never changes its clock, none when it has no choice.
std::vector<ClockRuns::Run> ClockRuns::runs(std::size_t stage) const {
  const auto& operations = order_[stage];
  std::vector<Run> found;
  for (std::size_t k = 0; k < operations.size(); ++k) {
    if (clock(operations[k]) != clock(beside_[at(operations[k])].first)) found.push_back({k, 0});
  }
  if (found.empty() && !operations.empty()) return {{0, operations.size()}};
  for (std::size_t r = 0; r < found.size(); ++r) {
    const std::size_t next = r + 1 < found.size() ? found[r + 1].begin : found[0].begin + operations.size();
    found[r].length = next - found[r].begin;
  }
  return found;
}

// The time from a run's start until the stage's next change.
// When the stage's operation at `position` asks for its clock.
Nanoseconds ClockRuns::asked_at(std::size_t stage, std::size_t position) const {
  const std::size_t place = position % order_[stage].size();
  if (asked_ == ClocksAsked::kAtBegin) return timeline_.start[at(order_[stage][place])];
  return place == 0 ? 0 : timeline_.finish[at(order_[stage][place - 1])];
}

Nanoseconds ClockRuns::dwell_of(std::size_t stage, const std::vector<Run>& all, std::size_t r) const {
  const auto start = [&](std::size_t k) { return asked_at(stage, all[k].begin); };
  return r + 1 < all.size() ? start(r + 1) - start(r) : timeline_.makespan + start(0) - start(r);
}

// Puts the whole run at a clock; none if one of its operations was not measured at it.
std::optional<ClockRuns::Edit> ClockRuns::at_clock(std::size_t stage, const Run& run, Megahertz target) const {
  Edit edit;
  for (std::size_t k = 0; k < run.length; ++k) {
    const int i = operation(stage, run.begin + k);
    const auto option = option_at(dag_.type_of(i), target);
    if (!option) return std::nullopt;
    edit.emplace_back(i, *option);
  }
  return edit;
}

// Lets a run take operations of its neighbours, on the left, on the right or on both sides, until it lasts `least` as
// the operations are now. Neighbours keep an operation at least, and may then be too short themselves.
std::vector<ClockRuns::Edit> ClockRuns::grown(std::size_t stage, const std::vector<Run>& all, std::size_t r,
                                              Nanoseconds least) const {
  std::vector<Edit> edits;
  const std::size_t n = order_[stage].size();
  const Run& run = all[r];
  // How many operations may be taken from either side; of two runs, the other one is both neighbours.
  const std::size_t from_left = all[(r + all.size() - 1) % all.size()].length - 1;
  const std::size_t from_right = all[(r + 1) % all.size()].length - 1;
  const std::size_t most = all.size() == 2 ? from_left : from_left + from_right;
  // The time from the start of one operation to that of a later one, which may be in the next iteration.
  const auto span = [&](std::size_t from, std::size_t to) {
    const Nanoseconds start = timeline_.start[at(operation(stage, from))];
    const Nanoseconds end = timeline_.start[at(operation(stage, to))];
    return end > start ? end - start : end + timeline_.makespan - start;
  };
  for (const auto& [to_left, to_right] : {std::pair(1, 0), {0, 1}, {1, 1}}) {
    Run longer = run;
    std::size_t taken_left = 0;
    std::size_t taken_right = 0;
    while (span(longer.begin, longer.begin + longer.length) < least) {
      if (to_left > 0) {
        if (taken_left == from_left || taken_left + taken_right == most) break;
        longer = {(longer.begin + n - 1) % n, longer.length + 1};
        ++taken_left;
      }
      if (to_right > 0) {
        if (taken_right == from_right || taken_left + taken_right == most) break;
        ++longer.length;
        ++taken_right;
      }
    }
    if (longer.length == run.length || span(longer.begin, longer.begin + longer.length) < least) continue;
    if (auto edit = at_clock(stage, longer, clock(operation(stage, run.begin)))) edits.push_back(std::move(*edit));
  }
  return edits;
}

// Puts the whole run at the next higher clock that all its operations were measured at; none above the highest.
std::optional<ClockRuns::Edit> ClockRuns::raised(std::size_t stage, const Run& run) const {
  const int first = operation(stage, run.begin);
  const OperationType& type = dag_.type_of(first);
  for (auto higher = one_clock_up(type, plan_[at(first)]); higher; higher = one_clock_up(type, *higher)) {
    if (auto edit = at_clock(stage, run, type.options[*higher].frequency)) return edit;
  }
  return std::nullopt;
}

// A cheap test that spares most edits the replay: a slower clock must fit into an operation's slack, and a dearer one
// can hardly pay unless it shortens the critical path.
bool ClockRuns::may_pay(const Edit& edit, Nanoseconds deadline) const {
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

bool ClockRuns::better(const Effect& a, const Effect& b, Nanoseconds deadline) const {
  const Nanoseconds late_a = std::max<Nanoseconds>(0, a.makespan - deadline);
  const Nanoseconds late_b = std::max<Nanoseconds>(0, b.makespan - deadline);
  return late_a != late_b ? late_a < late_b : a.energy_change < b.energy_change - rounding();
}

// Energies that differ by less are equal but for the rounding of their sums.
double ClockRuns::rounding() const { return 1e-12 * energy_.value(); }

const SwitchedRun& ClockRuns::run_present() {
  const SwitchedRun& run = late_.run(plan_);
  spend(static_cast<std::int64_t>(run.iterations) * dag_.size());
  return run;
}

// Applies an edit, and leaves the old options in it.
void ClockRuns::swap(Edit& edit) {
  for (auto& [i, option] : edit) std::swap(plan_[at(i)], option);
}

ClockRuns::Effect ClockRuns::try_edit(Edit edit) {
  swap(edit);
  const SwitchedRun& run = run_present();
  const Effect effect{run.longest, (run.total_until(waits_until_) - energy_).value()};
  swap(edit);
  return effect;
}

void ClockRuns::accept(Edit edit) {
  swap(edit);
  adopt();
  if (kept) kept();
}

void ClockRuns::adopt() {
  const SwitchedRun& run = run_present();
  durations_ = run.durations;
  energy_ = run.total_until(waits_until_);
  timeline_ = emulate(dag_, durations_);
}

// Gives each run the best of the edits that `edits_for` names, as long as the iteration ends by the deadline (or by its
// present end, if that is later) and the charged energy falls by at least `least_saving` (0: does not rise).
template <class EditsFor>
bool ClockRuns::improve_runs(Nanoseconds deadline, double least_saving, EditsFor edits_for) {
  bool changed = false;
  for (std::size_t stage = 0; stage < order_.size(); ++stage) {
    std::vector<Run> all = runs(stage);
    for (std::size_t r = 0; r < all.size() && !spent();) {
      const Nanoseconds limit = std::max(deadline, timeline_.makespan);
      std::optional<Edit> best;
      double best_change = least_saving > 0.0 ? -least_saving : rounding();
      for (Edit& edit : edits_for(stage, all, r)) {
        if (!may_pay(edit, limit)) continue;
        const Effect effect = try_edit(edit);
        if (effect.makespan > limit || effect.energy_change > best_change) continue;
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
      r = r > 0 ? std::min(r, all.size()) - 1 : 0;
    }
  }
  return changed;
}

}  // namespace flyball
