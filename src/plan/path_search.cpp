// The dynamic programming of path_search.h: find_states() extends the states gate by gate, improve() walks back from
// the cheapest last state, moves the gates and refits their neighbours.
#include "plan/path_search.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/index.h"

namespace flyball {
namespace {

constexpr double kUnreached = std::numeric_limits<double>::infinity();

// How a slot of time is reached: from which state of the gate before, with which option, in one number.
std::uint64_t way_from(std::int32_t state, Level level) {
  return static_cast<std::uint64_t>(state) << 32 | static_cast<std::uint32_t>(level);
}

}  // namespace

PathSearch::PathSearch(const ComputationDag& dag, const GateGraph& graph, const std::vector<ClockChoices>& choices)
    : graph_(graph), refit_mark_(at(dag.size()), 0) {
  for (const Computation& computation : dag.computations()) {
    ladder_.push_back(choices[at(computation.type)].ladder());
    longest_step_.push_back(choices[at(computation.type)].longest_step);
  }
}

void PathSearch::improve(std::span<const std::int32_t> path, GateSchedule& schedule, Slots slots) {
  slots_ = slots;
  if (path.empty() || !find_states(path, schedule)) return;
  const auto last = states_.begin() + static_cast<std::ptrdiff_t>(begin_[path.size()]);
  auto state = static_cast<std::size_t>(
      std::min_element(last, states_.end(), [](const State& a, const State& b) { return a.cost < b.cost; }) -
      states_.begin());
  old_passes_.resize(path.size());
  for (std::size_t k = path.size(); k-- > 0;) {
    Nanoseconds& passes = schedule.passes[at(graph_.end_of(path[k]))];
    old_passes_[k] = passes;
    passes = states_[state].at;
    state = at(states_[state].from);
  }

  ++mark_;
  refitted_.clear();
  change_ = 0.0;
  fits_ = true;
  for (std::size_t k = 0; k < path.size(); ++k) {
    const Gate gate = graph_.end_of(path[k]);
    if (schedule.passes[at(gate)] == old_passes_[k]) continue;
    for (const std::int32_t neighbour : graph_.ending(gate)) refit(neighbour, schedule);
    for (const std::int32_t neighbour : graph_.starting(gate)) refit(neighbour, schedule);
  }
  if (fits_ && change_ <= kSameJoules) return;
  for (const Refitted& r : refitted_) schedule.level[at(r.operation)] = r.old_level;
  for (std::size_t k = 0; k < path.size(); ++k) schedule.passes[at(graph_.end_of(path[k]))] = old_passes_[k];
}

void PathSearch::refit(std::int32_t i, GateSchedule& schedule) {
  if (refit_mark_[at(i)] == mark_) return;
  refit_mark_[at(i)] = mark_;
  Level& level = schedule.level[at(i)];
  const Level fitted = ladder(i).slowest_within(schedule.end(graph_, i) - schedule.start(graph_, i), level);
  if (fitted < 0) fits_ = false;
  if (fitted < 0 || fitted == level) return;
  change_ += ladder(i).net[fitted] - ladder(i).net[level];
  refitted_.push_back({i, level});
  level = fitted;
}

// Returns false if some gate cannot be reached in time.
bool PathSearch::find_states(std::span<const std::int32_t> path, const GateSchedule& schedule) {
  reach_ = 1;
  for (const std::int32_t i : path) reach_ = std::max(reach_, longest_step_[at(i)]);
  states_.assign(1, {0, 0.0, -1});
  begin_.assign(1, 0);
  Gate previous = -1;
  for (std::size_t k = 0; k < path.size(); ++k) {
    const std::int32_t i = path[k];
    const Gate gate = graph_.end_of(i);
    const Nanoseconds not_before = graph_.start_without(previous, schedule.passes.data(), i);
    previous = gate;
    const std::size_t end = states_.size();
    begin_.push_back(end);
    if (gate == GateGraph::kEnd) {
      if (!reach_end(i, not_before, schedule)) return false;
      continue;
    }
    const auto extend = slots_ == Slots::kFew ? &PathSearch::extend_states<static_cast<std::size_t>(Slots::kFew)>
                                              : &PathSearch::extend_states<static_cast<std::size_t>(Slots::kMany)>;
    (this->*extend)(ladder(i), not_before, schedule.passes[at(gate)], schedule.level[at(i)]);
    keep_states(look_around(gate, i, k + 1 < path.size() ? path[k + 1] : -1, schedule));
    if (states_.size() == end) return false;
  }
  return true;
}

bool PathSearch::reach_end(std::int32_t i, Nanoseconds not_before, const GateSchedule& schedule) {
  const Nanoseconds deadline = schedule.passes[at(GateGraph::kEnd)];
  State best{deadline, kUnreached, -1};
  const std::size_t end = begin_.back();
  for (std::size_t s = begin_[begin_.size() - 2]; s < end; ++s) {
    const Nanoseconds start = std::max(states_[s].at, not_before);
    const Level level = ladder(i).slowest_within(deadline - start, schedule.level[at(i)]);
    if (level < 0) continue;
    const double cost = states_[s].cost + ladder(i).net[level];
    if (cost < best.cost) best = {deadline, cost, static_cast<std::int32_t>(s)};
  }
  if (best.from < 0) return false;
  states_.push_back(best);
  return true;
}

// Extends the states of the gate before by every option of the operation between, into the slots of this gate.
template <std::size_t Half>
void PathSearch::extend_states(const ClockLadder& ladder, Nanoseconds not_before, Nanoseconds present, Level hint) {
  // By slot: the least cost so far, and the way that has it.
  std::array<double, 2 * Half> cheapest_of;
  std::array<std::uint64_t, 2 * Half> way_of{};
  cheapest_of.fill(kUnreached);
  const Nanoseconds first = present - reach_;
  const Nanoseconds last = present + reach_;
  // A slot must end at the present time, so that no later state pushes out the present one. The factor rounds the slots
  // per nanosecond up by a hair, which puts the next nanosecond into the next slot.
  const double slots_per_ns = static_cast<double>(Half) / static_cast<double>(reach_ + 1) * (1.0 + 0x1p-50);
  const auto begin = static_cast<std::int32_t>(begin_[begin_.size() - 2]);
  const auto end = static_cast<std::int32_t>(begin_.back());
  Level highest = hint;
  for (std::int32_t s = begin; s < end; ++s) {
    const State& state = states_[at(s)];
    const Nanoseconds start = std::max(state.at, not_before);
    highest = ladder.slowest_within(last - start, std::max(0, highest));
    Level level = highest;
    const Nanoseconds since_first = start - first;
    for (Nanoseconds after; (after = since_first + ladder.time[level]) >= 0; --level) {
      // A branch would be guessed wrong too often, since whether this way is cheaper is as good as random.
      const auto slot = at(static_cast<std::int32_t>(static_cast<double>(after) * slots_per_ns));
      const double cost = state.cost + ladder.net[level];
      const auto if_cheaper = -static_cast<std::uint64_t>(cost < cheapest_of[slot]);
      way_of[slot] ^= (way_from(s, level) ^ way_of[slot]) & if_cheaper;
      cheapest_of[slot] = std::min(cost, cheapest_of[slot]);
    }
    if (level < 0) continue;
    // This option ends before the first slot, and faster ones would only wait longer.
    const double cost = state.cost + ladder.net[level];
    if (cost <= cheapest_of[0]) {
      cheapest_of[0] = cost;
      way_of[0] = way_from(s, level);
    }
  }
  reached_.clear();
  double cheapest = kUnreached;
  for (std::size_t slot = 0; slot < 2 * Half; ++slot) {
    if (cheapest_of[slot] >= cheapest) continue;
    cheapest = cheapest_of[slot];
    const auto from = static_cast<std::int32_t>(way_of[slot] >> 32);
    const auto level = static_cast<Level>(way_of[slot]);
    const Nanoseconds when = std::max(states_[at(from)].at, not_before) + ladder.time[level];
    reached_.push_back({std::max(first, when), cheapest, from});
  }
}

PathSearch::Surroundings PathSearch::look_around(Gate gate, std::int32_t on_path, std::int32_t next,
                                                 const GateSchedule& schedule) {
  const Nanoseconds first = schedule.passes[at(gate)] - reach_;
  const Nanoseconds last = schedule.passes[at(gate)] + reach_;
  Surroundings around{first, last, 0.0};
  gains_.clear();
  bool sorted = true;
  for (const std::int32_t i : graph_.ending(gate)) {
    if (i == on_path) continue;
    const ClockLadder& ladder = this->ladder(i);
    const Nanoseconds start = schedule.start(graph_, i);
    const Level highest = std::max(0, ladder.slowest_within(last - start, schedule.level[at(i)]));
    Level level = highest;
    while (level > 0 && start + ladder.time[level] > first) --level;
    around.earliest = std::max(around.earliest, start + ladder.time[level]);
    around.cost += ladder.net[level];
    if (!gains_.empty()) sorted = false;
    for (; level < highest; ++level) {
      gains_.push_back({start + ladder.time[level + 1], ladder.net[level + 1] - ladder.net[level]});
    }
  }
  if (!sorted) std::sort(gains_.begin(), gains_.end(), [](const Gain& a, const Gain& b) { return a.at < b.at; });
  followers_.clear();
  for (const std::int32_t i : graph_.starting(gate)) {
    if (i == next) continue;
    const ClockLadder& ladder = this->ladder(i);
    Follower follower{ladder, schedule.end(graph_, i), graph_.start_without(gate, schedule.passes.data(), i), 0};
    follower.level =
        std::max(0, ladder.slowest_within(follower.end - std::max(first, follower.other_start), schedule.level[at(i)]));
    around.latest = std::min(around.latest, follower.end - ladder.time[0]);
    followers_.push_back(follower);
  }
  return around;
}

// Goes through the times at which the path reaches the gate or a neighbour gains from it, in rising order, and keeps
// the states that are cheaper than all earlier ones.
void PathSearch::keep_states(const Surroundings& around) {
  double on_path = kUnreached;
  double neighbours = around.cost;
  double cheapest = kUnreached;
  std::int32_t from = -1;
  std::size_t slot = 0;
  std::size_t gain = 0;
  while (true) {
    const bool slots_left = slot < reached_.size();
    if (!slots_left && gain == gains_.size()) return;
    Nanoseconds when = slots_left ? reached_[slot].at : gains_[gain].at;
    if (gain < gains_.size() && gains_[gain].at < when) when = gains_[gain].at;
    if (when > around.latest) return;
    if (slots_left && reached_[slot].at == when) {
      on_path = reached_[slot].cost;
      from = reached_[slot++].from;
    }
    for (; gain < gains_.size() && gains_[gain].at <= when; ++gain) neighbours += gains_[gain].joules;
    if (from < 0) continue;
    when = std::max(when, around.earliest);
    if (when > around.latest) continue;
    double cost = on_path + neighbours;
    for (Follower& f : followers_) {
      const Nanoseconds window = f.end - std::max(when, f.other_start);
      while (f.level > 0 && f.ladder.time[f.level] > window) --f.level;
      cost += f.ladder.net[f.level];
    }
    if (cost >= cheapest - 1e-12) continue;
    cheapest = cost;
    states_.push_back({when, cost, from});
  }
}

}  // namespace flyball
