// A stage's clock is a small state machine (held, wanted, under way); iterations are run one after another and their
// starting states compared with all earlier ones, so that a repetition is found as soon as there is one.
#include "pipeline/late_clocks.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "base/index.h"
#include "pipeline/instruction.h"

namespace flyball {
namespace {

bool sets_clock(const OperationType& type) { return type.occupies_stage && type.options.size() > 1; }

}  // namespace

LateClocks::LateClocks(const ComputationDag& dag, std::span<const Watts> blocking, Nanoseconds latency,
                       ClocksAsked asked)
    : dag_(dag),
      blocking_(blocking.begin(), blocking.end()),
      latency_(latency),
      asked_(asked),
      clocks_(at(dag.stages())),
      last_(at(dag.stages())),
      free_(at(dag.stages())),
      finish_(at(dag.size())),
      remembered_(dag.types().size()) {
  assert(latency >= 0);
  for (const Watts power : blocking) total_blocking_ += power;
  if (asked != ClocksAsked::kAhead) return;
  after_.assign(at(dag.size()), -1);
  for (int stage = 0; stage < dag.stages(); ++stage) {
    int before = -1;
    for (const int i : dag.stage_order(stage)) {
      if (!sets_clock(dag.type_of(i))) continue;
      if (before >= 0) after_[at(before)] = i;
      before = i;
    }
  }
}

std::optional<LatencyRange> measured_latency(const Profile& profile) {
  std::optional<LatencyRange> range;
  for (const OperationProfile& operation : profile.operations) {
    if (operation.instruction != kClockChangeName) continue;
    for (const ClockOption& row : operation.options) {
      if (!range) range = {row.time, row.time};
      range->shortest = std::min(range->shortest, row.time);
      range->longest = std::max(range->longest, row.time);
    }
  }
  return range;
}

std::uint16_t LateClocks::option_held(const OperationType& type, Megahertz clock, std::uint16_t option) const {
  if (!type.labels.empty()) return nearest_option(type, clock, option);
  const auto t = static_cast<std::size_t>(&type - dag_.types().data());
  Remembered& known = remembered_[t][static_cast<std::size_t>(clock.value()) % kRemembered];
  if (known.clock != clock) known = {clock, nearest_option(type, clock)};
  return known.option;
}

// Brings what is due by `now` into force, and begins what waited for it.
void LateClocks::settle(StageClock& clock, Nanoseconds now) const {
  while (clock.due >= 0 && clock.due <= now) {
    const Nanoseconds then = std::exchange(clock.due, -1);
    clock.held = clock.underway;
    begin_change(clock, then);
  }
}

void LateClocks::begin_change(StageClock& clock, Nanoseconds now) const {
  if (clock.due >= 0 || clock.wanted == clock.held) return;
  clock.underway = clock.wanted;
  clock.due = now + latency_;
}

void LateClocks::ask(StageClock& clock, Megahertz wanted, Nanoseconds now) const {
  settle(clock, now);
  clock.wanted = wanted;
  begin_change(clock, now);
  settle(clock, now);
}

// The session expects the operation to take as long as it was measured at its clock.
LateClocks::Ahead LateClocks::ahead_of(const ClockPlan& plan, int i, Nanoseconds start) const {
  if (after_.empty() || after_[at(i)] < 0) return {};
  const ClockOption& asked = dag_.type_of(i).options[plan[at(i)]];
  const Megahertz next = dag_.type_of(after_[at(i)]).options[plan[at(after_[at(i)])]].frequency;
  if (next == asked.frequency) return {};
  const Nanoseconds lead = to_nanoseconds(lead_time(to_seconds(latency_), next > asked.frequency));
  return {next, start + std::max<Nanoseconds>(0, to_nanoseconds(asked.time) - lead)};
}

// Each piece of the operation runs at the clock that then holds and does its share of the work.
Nanoseconds LateClocks::run_operation(const OperationType& type, std::uint16_t option, StageClock& clock,
                                      Nanoseconds start, Ahead ahead, Joules& energy) const {
  const ClockOption& asked = type.options[option];
  ask(clock, asked.frequency, start);
  if (clock.due < 0 && ahead.at < 0) {
    energy += asked.energy;
    return to_nanoseconds(asked.time);
  }
  double passed = 0.0;  // ns
  double left = 1.0;    // of the work
  while (left > 0.0) {
    const ClockOption& running =
        clock.held == asked.frequency ? asked : type.options[option_held(type, clock.held, option)];
    const auto whole = static_cast<double>(to_nanoseconds(running.time));
    const bool asks = ahead.at >= 0 && (clock.due < 0 || ahead.at < clock.due);
    const Nanoseconds event = asks ? ahead.at : clock.due;
    const auto room = static_cast<double>(event - start) - passed;
    const double share = event >= 0 ? std::min(left, room / whole) : left;
    energy += share * running.energy;
    passed += share * whole;
    if (share == left) break;
    left -= share;
    if (asks) {
      ask(clock, ahead.clock, event);
      ahead.at = -1;
    } else {
      settle(clock, event);
    }
  }
  return std::llround(passed);
}

// The stage waits until `to`, at the clocks that hold. Returns what it draws above its blocking power, which depends on
// its last operation whose clock it keeps, if there is one.
Joules LateClocks::wait(int stage, Nanoseconds from, Nanoseconds to, Iteration& iteration) {
  const OperationType* last = last_[at(stage)];
  StageClock& clock = clocks_[at(stage)];
  Joules energy;
  const auto draw = [&](Nanoseconds until, Watts above) {
    energy += above * to_seconds(until - from);
    if (records_) iteration.draws.push_back({from, until, blocking_[at(stage)] + above});
    from = until;
  };
  const auto power = [&] { return last->waiting_above[option_held(*last, clock.held, 0)]; };
  while (last != nullptr && clock.due >= 0 && clock.due < to) {
    draw(std::max(from, clock.due), power());
    settle(clock, clock.due);
  }
  draw(to, last != nullptr ? power() : Watts(0));
  return energy;
}

void LateClocks::run_iteration(const ClockPlan& plan, Iteration& iteration) {
  iteration.begun = clocks_;
  iteration.durations.resize(at(dag_.size()));
  iteration.makespan = 0;
  iteration.computation = iteration.busy = iteration.waiting_above = Joules(0);
  iteration.draws.clear();
  std::fill(free_.begin(), free_.end(), 0);
  for (int i = 0; i < dag_.size(); ++i) {
    const OperationType& type = dag_.type_of(i);
    const ClockOption& asked = type.options[plan[at(i)]];
    const Watts blocking = blocking_[at(type.stage)];
    Nanoseconds start = 0;
    for (const int p : dag_.predecessors(i)) start = std::max(start, finish_[at(p)]);
    Nanoseconds& duration = iteration.durations[at(i)];
    const bool works = type.occupies_stage && !type.waits;
    if (sets_clock(type) && asked_ != ClocksAsked::kAtBegin) {
      ask(clocks_[at(type.stage)], asked.frequency, free_[at(type.stage)]);
    }
    if (works) {
      const OperationType*& last = last_[at(type.stage)];
      iteration.waiting_above += wait(type.stage, free_[at(type.stage)], start, iteration);
      if (!type.waiting_above.empty()) last = &type;
    }
    const Joules before = iteration.computation;
    if (sets_clock(type)) {
      duration = run_operation(type, plan[at(i)], clocks_[at(type.stage)], start, ahead_of(plan, i, start),
                               iteration.computation);
    } else {
      duration = to_nanoseconds(asked.time);
      iteration.computation += asked.energy;
    }
    iteration.busy += charged_blocking(type, blocking) * to_seconds(duration);
    finish_[at(i)] = start + duration;
    if (records_) {
      const Watts power = (iteration.computation - before) / to_seconds(std::max<Nanoseconds>(1, duration));
      const Watts above = std::max(Watts(0), power - charged_blocking(type, blocking));
      if (works) iteration.draws.push_back({start, finish_[at(i)], power});
      if (!type.occupies_stage) iteration.draws.push_back({start, finish_[at(i)], above});
    }
    if (works) free_[at(type.stage)] = finish_[at(i)];
    iteration.makespan = std::max(iteration.makespan, finish_[at(i)]);
  }
  for (int stage = 0; stage < dag_.stages(); ++stage) {
    StageClock& clock = clocks_[at(stage)];
    iteration.waiting_above += wait(stage, free_[at(stage)], iteration.makespan, iteration);
    settle(clock, iteration.makespan);
    if (clock.due >= 0) clock.due -= iteration.makespan;
  }
}

const SwitchedRun& LateClocks::run(const ClockPlan& plan) {
  result_.straggler_power = total_blocking_;
  // A stage begins at the clock that its last operation asks for.
  for (int stage = 0; stage < dag_.stages(); ++stage) {
    StageClock& clock = clocks_[at(stage)] = {};
    last_[at(stage)] = nullptr;
    for (const int i : dag_.stage_order(stage)) {
      const OperationType& type = dag_.type_of(i);
      if (sets_clock(type)) clock.held = type.options[plan[at(i)]].frequency;
      if (!type.waiting_above.empty()) last_[at(stage)] = &type;
    }
    clock.wanted = clock.underway = clock.held;
    const OperationType* last = last_[at(stage)];
    if (last != nullptr) {
      result_.straggler_power += last->waiting_above[option_held(*last, clock.held, 0)];
    }
  }
  std::size_t count = 0;
  std::size_t first = 0;  // of the iterations that count
  do {
    if (count == iterations_.size()) iterations_.emplace_back();
    run_iteration(plan, iterations_[count++]);
    first = 0;
    while (first < count && iterations_[first].begun != clocks_) ++first;
  } while (first == count && count < kMostIterations);
  if (first == count) first = count / 2;
  result_.iterations = static_cast<int>(count);
  first_ = first;
  count_ = count;

  Iteration sum;
  const Iteration* longest = &iterations_[first];
  for (std::size_t k = first; k < count; ++k) {
    sum.makespan += iterations_[k].makespan;
    sum.computation += iterations_[k].computation;
    sum.busy += iterations_[k].busy;
    sum.waiting_above += iterations_[k].waiting_above;
    if (iterations_[k].makespan > longest->makespan) longest = &iterations_[k];
  }
  const auto n = static_cast<double>(count - first);
  result_.makespan = std::llround(static_cast<double>(sum.makespan) / n);
  result_.longest = longest->makespan;
  result_.durations = longest->durations;
  result_.energy.computation = sum.computation / n;
  result_.energy.blocking = (total_blocking_ * to_seconds(sum.makespan) - sum.busy + sum.waiting_above) / n;
  return result_;
}

PowerCurve LateClocks::power(const ClockPlan& plan, int copies) {
  records_ = true;
  run(plan);
  records_ = false;
  std::vector<PowerDraw> pieces;
  Nanoseconds begun = 0;
  for (std::size_t k = first_; k < count_; ++k) {
    for (const PowerDraw& one : iterations_[k].draws) {
      pieces.push_back({begun + one.from, begun + one.until, one.power});
    }
    begun += iterations_[k].makespan;
  }
  return sum_of(pieces, begun, copies);
}

SwitchedRun emulate_switching(const ComputationDag& dag, const ClockPlan& plan, std::span<const Watts> blocking,
                              Nanoseconds latency, ClocksAsked asked) {
  return LateClocks(dag, blocking, latency, asked).run(plan);
}

}  // namespace flyball
