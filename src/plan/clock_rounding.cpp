// Every operation has a level, and a plan is made by assigning times to gates and taking the slowest level that fits
// between them. All passes below run over the operations in topological order, forwards for earliest times and
// backwards for latest.
#include "plan/clock_rounding.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace flyball {
namespace {

// Where a time was asked for, two paths a turn cost 0.012 points of energy, and ten save 0.006.
constexpr int kPathsPerTurn = 5;
// A search ends after so many turns that brought nothing: at T_min after 7 to 20 turns, where slack is plenty after 5.
constexpr int kTurnsInVain = 5;
// Small pipelines, where paths are short, have up to twice as many where slots are many: so many as have this many
// options, if a path had those of all operations. 384 operations of 27 options gain 0.04 points from it.
constexpr std::int64_t kPathWork = 80'000;
constexpr std::int64_t kMostPathsPerTurn = 10;
// Of the points that follow one another, every second one is searched. Searching all of them saves 0.001 to 0.007
// points along the frontiers of four workloads, two of them measured, and takes up to two fifths more time.
constexpr int kPointsPerSearch = 2;

std::vector<ClockLadder> ladders(const RoundingTables& tables) {
  std::vector<ClockLadder> ladders;
  for (const Computation& computation : tables.dag.computations()) {
    ladders.push_back(tables.choices[at(computation.type)].ladder());
  }
  return ladders;
}

}  // namespace

RoundingTables::RoundingTables(const PlanProblem& problem)
    : dag(*problem.dag), choices(clock_choices(problem)), graph(dag), tail(graph.size(), 0) {
  for (int i = dag.size() - 1; i >= 0; --i) {
    const Nanoseconds least = choices[at(dag[i].type)].time.front() + tail[at(graph.end_of(i))];
    for (const Gate gate : graph.before(i)) tail[at(gate)] = std::max(tail[at(gate)], least);
  }
  for (int i = 0; i < dag.size(); ++i) {
    if (dag.predecessors(i).empty()) sources.push_back(i);
  }
}

GateTimes relaxed_times(const RoundingTables& tables, const FrontierStretch& stretch, Nanoseconds deadline) {
  GateTimes times(tables.graph.size(), 0);
  const Nanoseconds delta = stretch.t_high - deadline;
  for (int i = 0; i < tables.dag.size(); ++i) {
    Nanoseconds& gate = times[at(tables.graph.end_of(i))];
    gate = std::max(gate, stretch.finish[at(i)] - std::min(stretch.finish_shift[at(i)], delta));
  }
  return times;
}

ClockRounder::ClockRounder(const PlanProblem& problem, Searches searches)
    : ClockRounder(std::make_shared<const RoundingTables>(problem), searches) {}

ClockRounder::ClockRounder(std::shared_ptr<const RoundingTables> tables, Searches searches)
    : tables_(std::move(tables)),
      searches_(searches),
      dag_(tables_->dag),
      graph_(tables_->graph),
      ladder_(ladders(*tables_)),
      paths_(dag_, graph_, tables_->choices) {
  for (int i = 0; i < dag_.size(); ++i) level_.push_back(choices(i).slowest());
  schedule_.level = level_;
  for (auto* times : {&schedule_.passes, &last_relaxed_, &early_, &late_}) times->assign(graph_.size(), 0);
  plan_.assign(at(dag_.size()), 0);
}

void ClockRounder::round(const GateTimes& relaxed, Nanoseconds deadline) {
  schedule_relaxed(relaxed, deadline);
  if (searches_.stage_paths) {
    for (int stage = dag_.stages() - 1; stage >= 0; --stage) paths_.improve(dag_.stage_order(stage), schedule_);
  }
  followed_ = 0;
  publish();
}

void ClockRounder::floor(const GateTimes& relaxed, Nanoseconds deadline) {
  schedule_relaxed(relaxed, deadline);
  level_ = schedule_.level;
  is_early_ = false;
  if (!searches_.fill) return;
  place_early();
  fill_backwards(deadline);
  is_early_ = false;
}

void ClockRounder::follow(const GateTimes& relaxed, Nanoseconds deadline) {
  for (std::size_t gate = 0; gate < graph_.size(); ++gate) {
    schedule_.passes[gate] += relaxed[gate] - last_relaxed_[gate];
  }
  last_relaxed_ = relaxed;
  settle(deadline);
  if (searches_.stage_paths && followed_ % kPointsPerSearch == 0) {
    paths_.improve(dag_.stage_order(followed_ / kPointsPerSearch % dag_.stages()), schedule_);
  }
  ++followed_;
  publish();
}

void ClockRounder::schedule_relaxed(const GateTimes& relaxed, Nanoseconds deadline) {
  last_relaxed_ = relaxed;
  schedule_.passes = relaxed;
  settle(deadline);
}

// Sets the gates from the plan, each at the earliest or at the latest time that the plan allows.
void ClockRounder::schedule_plan(Nanoseconds deadline, bool late) {
  late ? place_late(deadline) : place_early();
  schedule_.passes = late ? late_ : early_;
  schedule_.level = level_;
  settle(deadline);
}

// Moves gates that are too late for the deadline or too early for the operations before them, and fits the options. A
// gate is brought forward to where the operations behind it, at their fastest, just meet the deadline. That leaves room
// for all operations before it, provided that the deadline can be met at all.
void ClockRounder::settle(Nanoseconds deadline) {
  std::vector<Nanoseconds>& passes = schedule_.passes;
  for (std::size_t gate = 0; gate < graph_.size(); ++gate)
    passes[gate] = std::min(passes[gate], deadline - tables_->tail[gate]);
  passes[GateGraph::kEnd] = deadline;
  for (int i = 0; i < dag_.size(); ++i) {
    const Nanoseconds start = graph_.start(passes.data(), i);
    const Gate gate = graph_.end_of(i);
    const Nanoseconds earliest = start + ladder_[at(i)].time[0];
    if (passes[at(gate)] < earliest) {
      passes[at(gate)] = earliest;
      for (const std::int32_t other : graph_.ending(gate)) {
        if (other < i) fit(other);
      }
    }
    Level& level = schedule_.level[at(i)];
    level = ladder_[at(i)].slowest_within(passes[at(gate)] - start, level);
  }
}

void ClockRounder::fit(int i) {
  Level& level = schedule_.level[at(i)];
  level = ladder_[at(i)].slowest_within(schedule_.end(graph_, i) - schedule_.start(graph_, i), level);
}

// Takes the schedule's levels as the plan, and fills the slack that they leave.
void ClockRounder::publish() {
  level_ = schedule_.level;
  is_early_ = searches_.fill;
  if (!searches_.fill) return;
  place_late(schedule_.passes[GateGraph::kEnd]);
  fill_forwards([] { return true; });
}

void ClockRounder::load(const ClockPlan& plan) {
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const auto& options = choices(static_cast<int>(i)).option;
    const auto found = std::find(options.begin(), options.end(), plan[i]);
    assert(found != options.end());
    level_[i] = static_cast<Level>(found - options.begin());
  }
  is_early_ = false;
}

int ClockRounder::paths_per_turn(PathSearch::Slots slots) const {
  if (slots == PathSearch::Slots::kFew) return kPathsPerTurn;
  std::int64_t options = 1;
  for (int i = 0; i < dag_.size(); ++i) options += choices(i).slowest() + 1;
  return static_cast<int>(std::clamp<std::int64_t>(kPathWork / options, kPathsPerTurn, kMostPathsPerTurn));
}

void ClockRounder::improve_random_path(RoundingRandom& random, PathSearch::Slots slots) {
  path_.assign(1, tables_->sources[random.draw() % tables_->sources.size()]);
  while (!dag_.successors(path_.back()).empty()) {
    const auto next = dag_.successors(path_.back());
    path_.push_back(next[random.draw() % next.size()]);
  }
  paths_.improve(path_, schedule_, slots);
}

void ClockRounder::place_early() {
  std::fill(early_.begin(), early_.end(), 0);
  for (int i = 0; i < dag_.size(); ++i) {
    const Nanoseconds ready = graph_.start(early_.data(), i) + duration(i);
    Nanoseconds& end = early_[at(graph_.end_of(i))];
    end = std::max(end, ready);
  }
  is_early_ = true;
}

void ClockRounder::place_late(Nanoseconds deadline) {
  std::fill(late_.begin(), late_.end(), deadline);
  for (int i = dag_.size() - 1; i >= 0; --i) {
    graph_.no_later_before(late_.data(), i, late_[at(graph_.end_of(i))] - duration(i));
  }
}

inline void ClockRounder::raise(int i, Nanoseconds room) {
  Level& level = level_[at(i)];
  if (ladder_[at(i)].time[level + 1] <= room) level = ladder_[at(i)].slowest_within(room, level);
}

template <class MayBeRaised>
void ClockRounder::fill_forwards(MayBeRaised may_be_raised) {
  std::fill(early_.begin(), early_.end(), 0);
  for (int i = 0; i < dag_.size(); ++i) {
    const Nanoseconds start = graph_.start(early_.data(), i);
    if (may_be_raised()) raise(i, late_[at(graph_.end_of(i))] - start);
    Nanoseconds& end = early_[at(graph_.end_of(i))];
    end = std::max(end, start + duration(i));
  }
}

void ClockRounder::fill_backwards(Nanoseconds deadline) {
  std::fill(late_.begin(), late_.end(), deadline);
  for (int i = dag_.size() - 1; i >= 0; --i) {
    const Nanoseconds end = late_[at(graph_.end_of(i))];
    raise(i, end - graph_.start(early_.data(), i));
    graph_.no_later_before(late_.data(), i, end - duration(i));
  }
}

void ClockRounder::search_random_paths(Nanoseconds deadline, int turn, const Polish& how, RoundingRandom& random) {
  const int paths = paths_per_turn(how.slots);
  schedule_plan(deadline, turn % 2 == 1);
  for (int k = 0; k < paths; ++k) improve_random_path(random, how.slots);
  publish();
}

void ClockRounder::polish(Nanoseconds deadline, const Polish& how) {
  if (!searches_.random_paths) return;
  RoundingRandom random(how.seed);
  const auto search = [&](int most_in_vain) {
    double joules = net_joules();
    int in_vain = 0;
    for (int turn = 0; turn < how.most_turns && in_vain < most_in_vain && joules > how.enough; ++turn) {
      search_random_paths(deadline, turn, how, random);
      const double now = net_joules();
      in_vain = now < joules - kSameJoules ? 0 : in_vain + 1;
      joules = now;
    }
    return joules;
  };
  double least = search(kTurnsInVain);
  std::vector<Level> cheapest = level_;
  for (int k = 0; k < how.disturbances && least > how.enough; ++k) {
    disturb(deadline, random);
    const double joules = search(1);
    if (joules < least) {
      least = joules;
      cheapest = level_;
    } else {
      level_ = cheapest;
      is_early_ = false;
    }
  }
}

// Speeds up half of the operations that lie in one half of the order, and passes over three quarters of all in a first
// filling of the slack that this makes, which leaves it to others.
void ClockRounder::disturb(Nanoseconds deadline, RoundingRandom& random) {
  const std::size_t operations = level_.size();
  const std::size_t begin = random.draw() % operations;
  for (std::size_t k = 0; k < operations / 2; ++k) {
    Level& level = level_[(begin + k) % operations];
    if (random.draw() % 2 == 0) level = std::max(0, level - static_cast<Level>(1 + random.draw() % 2));
  }
  place_late(deadline);
  fill_forwards([&] { return random.draw() % 4 == 0; });
  fill_backwards(deadline);
  is_early_ = false;
}

Nanoseconds ClockRounder::makespan() {
  if (!is_early_) place_early();
  return early_[GateGraph::kEnd];
}

double ClockRounder::net_joules() const {
  double sum = 0.0;
  for (std::size_t i = 0; i < level_.size(); ++i) sum += ladder_[i].net[level_[i]];
  return sum;
}

const ClockPlan& ClockRounder::plan() {
  for (std::size_t i = 0; i < level_.size(); ++i) plan_[i] = choices(static_cast<int>(i)).option[at(level_[i])];
  return plan_;
}

}  // namespace flyball
