// The wall clocks of the stages are aligned in two steps: shortest_delays() finds the quickest message between each
// pair of stages, clock_offsets() turns these delays into one offset per stage.
#include "plan/executed_step.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/index.h"
#include "pipeline/instruction.h"
#include "pipeline/timeline.h"

namespace flyball {
namespace {

bool is_measured(const OperationType& type) { return type.occupies_stage && !is_constant_operation(type.instruction); }

// The shortest delay from a computation's finish on one stage to the start, on another, of one that waits for it. Each
// time is by its stage's wall clock.
using Delays = std::map<std::pair<int, int>, Nanoseconds>;

Delays shortest_delays(const ComputationDag& dag, const ExecutedStep& step) {
  Delays delays;
  // For each operation that is not measured: the measured operations of other stages that it waits for.
  std::vector<std::vector<int>> origins(at(dag.size()));
  for (int i = 0; i < dag.size(); ++i) {
    const bool measured = is_measured(dag.type_of(i));
    std::vector<int>& mine = origins[at(i)];
    for (const int p : dag.predecessors(i)) {
      if (is_measured(dag.type_of(p))) {
        mine.push_back(p);
      } else {
        mine.insert(mine.end(), origins[at(p)].begin(), origins[at(p)].end());
      }
    }
    std::sort(mine.begin(), mine.end());
    mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
    if (!measured) continue;
    for (const int p : mine) {
      const int from = dag.type_of(p).stage;
      const int to = dag.type_of(i).stage;
      if (from == to) continue;
      const Nanoseconds delay = step.start[at(i)] - step.finish[at(p)];
      const auto [found, is_new] = delays.try_emplace({from, to}, delay);
      if (!is_new) found->second = std::min(found->second, delay);
    }
    mine.clear();
  }
  return delays;
}

// How far the clock of `to` is ahead of that of `from`, and how unsure that is, of stages with a link.
struct Difference {
  Nanoseconds ahead = 0;
  Nanoseconds unsure = 0;
};

Difference difference(const Delays& delays, int from, int to) {
  const auto there = delays.find({from, to});
  const auto back = delays.find({to, from});
  constexpr Nanoseconds kUnsure = std::numeric_limits<Nanoseconds>::max();
  if (there == delays.end()) return {-back->second, kUnsure};
  if (back == delays.end()) return {there->second, kUnsure};
  // The delay there is latency + difference, the delay back is latency - difference.
  return {(there->second - back->second) / 2, there->second + back->second};
}

// What has to be subtracted from each stage's times to get times by the wall clock of the first stage. Stages are
// reached by the surest links: between the last and the first stage of an interleaved schedule hardly anything is
// waited for, so that its shortest delays are no transfers.
std::vector<Nanoseconds> clock_offsets(int stages, const Delays& delays) {
  std::vector<std::optional<Nanoseconds>> offset(at(stages));
  for (int reached = 0; reached < stages; ++reached) {
    std::optional<Difference> surest;
    int next = -1;
    const auto look = [&](int from, int to) {
      if (!offset[at(from)] || offset[at(to)]) return;
      const Difference found = difference(delays, from, to);
      if (surest && surest->unsure <= found.unsure) return;
      surest = Difference{*offset[at(from)] + found.ahead, found.unsure};
      next = to;
    };
    for (const auto& [link, delay] : delays) {
      look(link.first, link.second);
      look(link.second, link.first);
    }
    // A stage that no link reaches keeps its own clock, as the first one does.
    if (!surest) next = static_cast<int>(std::find(offset.begin(), offset.end(), std::nullopt) - offset.begin());
    offset[at(next)] = surest ? surest->ahead : 0;
  }
  std::vector<Nanoseconds> all;
  for (const auto& one : offset) all.push_back(*one);
  return all;
}

}  // namespace

ExecutedStep emulate_step(const ComputationDag& dag, const ClockPlan& plan) {
  const std::vector<Nanoseconds> durations = plan_durations(dag, plan);
  ExecutedStep step{std::vector<Nanoseconds>(durations.size()), std::vector<Nanoseconds>(durations.size())};
  static_cast<void>(makespan(dag, durations, step.finish));
  for (std::size_t i = 0; i < durations.size(); ++i) step.start[i] = step.finish[i] - durations[i];
  return step;
}

std::vector<int> measured_operations(const ComputationDag& dag, int stage) {
  std::vector<int> operations;
  for (const int i : dag.stage_order(stage)) {
    if (is_measured(dag.type_of(i))) operations.push_back(i);
  }
  return operations;
}

ExecutedStep join_stages(const ComputationDag& dag, std::span<const std::vector<MeasuredTimes>> stages) {
  const std::size_t n = at(dag.size());
  ExecutedStep step{std::vector<Nanoseconds>(n), std::vector<Nanoseconds>(n)};
  for (int stage = 0; stage < dag.stages(); ++stage) {
    const std::vector<int> operations = measured_operations(dag, stage);
    assert(operations.size() == stages[at(stage)].size());
    for (std::size_t k = 0; k < operations.size(); ++k) {
      step.start[at(operations[k])] = stages[at(stage)][k].start;
      step.finish[at(operations[k])] = stages[at(stage)][k].finish;
    }
  }
  const std::vector<Nanoseconds> offsets = clock_offsets(dag.stages(), shortest_delays(dag, step));
  for (int i = 0; i < dag.size(); ++i) {
    if (is_measured(dag.type_of(i))) {
      step.start[at(i)] -= offsets[at(dag.type_of(i).stage)];
      step.finish[at(i)] -= offsets[at(dag.type_of(i).stage)];
      continue;
    }
    std::optional<Nanoseconds> ready;
    for (const int p : dag.predecessors(i)) ready = std::max(ready.value_or(step.finish[at(p)]), step.finish[at(p)]);
    step.start[at(i)] = step.finish[at(i)] = ready.value_or(0);
  }
  return step;
}

}  // namespace flyball
