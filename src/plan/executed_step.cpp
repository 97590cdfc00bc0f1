// The wall clocks of the stages are aligned in two steps: shortest_delays() finds the quickest message between each
// pair of stages, clock_offsets() turns these delays into one offset per stage.
#include "plan/executed_step.h"

#include <algorithm>
#include <cassert>
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

// What has to be subtracted from each stage's times to get times by the wall clock of the first stage.
std::vector<Nanoseconds> clock_offsets(int stages, const Delays& delays) {
  std::vector<std::optional<Nanoseconds>> offset(at(stages));
  const auto visit = [&](int first) {
    offset[at(first)] = 0;
    std::vector<int> reached{first};
    for (std::size_t k = 0; k < reached.size(); ++k) {
      const int from = reached[k];
      for (int to = 0; to < stages; ++to) {
        if (offset[at(to)]) continue;
        const auto there = delays.find({from, to});
        const auto back = delays.find({to, from});
        if (there == delays.end() && back == delays.end()) continue;
        // The delay there is latency + difference, the delay back is latency - difference.
        Nanoseconds difference = 0;
        if (there == delays.end()) {
          difference = -back->second;
        } else if (back == delays.end()) {
          difference = there->second;
        } else {
          difference = (there->second - back->second) / 2;
        }
        offset[at(to)] = *offset[at(from)] + difference;
        reached.push_back(to);
      }
    }
  };
  for (int stage = 0; stage < stages; ++stage) {
    if (!offset[at(stage)]) visit(stage);
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
