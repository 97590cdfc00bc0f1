// The DAG is built once, by build_dag() for a stand-in profile in which everything takes one second. Each of its nodes
// is matched with its place in the records, so that every replay only fills in durations.
#include "replay/iteration_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "pipeline/instruction.h"
#include "profile/profile.h"

namespace flyball {
namespace {

Profile stand_in_profile(const RecordedRuns& runs) {
  std::vector<ProfileRow> rows;
  for (int stage = 0; stage < runs.stages; ++stage) {
    for (const std::string& instruction : runs.instructions) {
      rows.push_back({stage, instruction, 0, {runs.top, Seconds(1), Joules(1)}});
    }
  }
  return profile_of_rows((std::filesystem::path(runs.source) / "operations.csv").string(), rows);
}

// Marks with 1 s the stages that load, at any microbatch of any point.
std::vector<Seconds> loading_stages(const RecordedRuns& runs) {
  std::vector<Seconds> loads(at(runs.stages));
  for (const RecordedPoint& point : runs.points) {
    for (int stage = 0; stage < runs.stages; ++stage) {
      for (int m = 0; m < runs.microbatches; ++m) {
        if (point.load[runs.load_index(stage, m)] > Seconds(0)) loads[at(stage)] = Seconds(1);
      }
    }
  }
  return loads;
}

ComputationDag dag_of(const RecordedRuns& runs, ScheduleKind schedule) {
  if (schedule == ScheduleKind::kInterleaved1f1b) {
    throw UsageError("recorded runs have no chunks, which interleaved-1f1b needs; name another --schedule");
  }
  PipelineSpec spec;
  spec.schedule = schedule;
  spec.stages = runs.stages;
  spec.microbatches = runs.microbatches;
  spec.p2p = ConstantOperation(Seconds(1));
  spec.transfers_occupy_both = true;
  const std::vector<Seconds> loads = loading_stages(runs);
  if (std::count(loads.begin(), loads.end(), Seconds(0)) < runs.stages) {
    spec.data_load = runs.stages == 1 ? ConstantOperation(Seconds(1)) : ConstantOperation(loads, {});
  }
  spec.optimizer_step = ConstantOperation(Seconds(1));
  return build_dag(spec, stand_in_profile(runs));
}

}  // namespace

Seconds IterationModel::time(int stage, int instruction, Megahertz clock, Microbatches of) const {
  if (of != Microbatches::kAll && !own.empty()) {
    return own[place(stage, instruction)].of(of).value * time(stage, instruction, clock);
  }
  const std::vector<ClockCost>& known = costs[place(stage, instruction)];
  if (known.size() == 1) return known[0].time;
  // Above the highest that is known nothing is gained: where that is not the board's highest, its power limit is near.
  if (clock >= known.front().clock) return known.front().time;
  // The two around it; below the lowest that is known, the lowest two.
  auto below =
      std::find_if(known.begin() + 1, known.end() - 1, [&](const ClockCost& one) { return one.clock <= clock; });
  const ClockCost& low = *below;
  const ClockCost& high = *(below - 1);
  const auto slowness = [](Megahertz f) { return 1.0 / f.value(); };
  const double part = (slowness(clock) - slowness(high.clock)) / (slowness(low.clock) - slowness(high.clock));
  const Seconds time = high.time + part * (low.time - high.time);
  return std::max(time, 0.1 * std::min(low.time, high.time));
}

Watts IterationModel::power_of(int stage, int instruction, Megahertz clock) const {
  return Watts(computing_power(power.scale[place(stage, instruction)].value, power.share[at(instruction)].value,
                               power.exponent[at(instruction)].value, power.limit.value, clock / top));
}

Watts IterationModel::waiting_power(Megahertz clock) const {
  return Watts(power_while_waiting(power.waiting_base.value, power.waiting_rise.value, power.waiting_exponent.value,
                                   clock / top));
}

RecordedIteration::RecordedIteration(const RecordedRuns& runs, ScheduleKind schedule)
    : runs_(&runs), schedule_(schedule), dag_(dag_of(runs, schedule)), nodes_(at(dag_.size())) {
  for (int stage = 0; stage < runs.stages; ++stage) {
    int before = -1;
    int first = -1;
    std::vector<std::size_t> ran(runs.instructions.size());
    for (const std::int32_t i : dag_.stage_order(stage)) {
      const std::string& name = dag_.type_of(i).instruction;
      const int microbatch = dag_[i].microbatch;
      if (name == kDataLoadName) {
        nodes_[at(i)] = {Part::kLoading, stage, 0, runs.load_index(stage, microbatch), -1};
      } else if (name == kOptimizerStepName) {
        nodes_[at(i)] = {Part::kOnce, stage, 0, 0, -1};
      } else {
        const auto place = static_cast<int>(std::find(runs.instructions.begin(), runs.instructions.end(), name) -
                                            runs.instructions.begin());
        nodes_[at(i)] = {Part::kComputation,
                         stage,
                         place,
                         runs.index(stage, place, microbatch),
                         before,
                         at(runs.microbatches) < kLeastForOwn ? Microbatches::kAll
                                                              : microbatches_at(ran[at(place)], at(runs.microbatches))};
        ++ran[at(place)];
        if (first < 0) first = i;
        before = i;
      }
    }
    if (first >= 0) nodes_[at(first)].before = before;
  }
  for (int i = 0; i < dag_.size(); ++i) {
    if (dag_.type_of(i).occupies_stage) continue;
    const int from = dag_.type_of(i).stage;
    int to = from;
    for (const std::int32_t next : dag_.successors(i)) {
      if (dag_.type_of(next).stage != from) to = dag_.type_of(next).stage;
    }
    nodes_[at(i)] = {Part::kTransfer, from, std::min(from, to), 0, -1};
  }
}

std::vector<Nanoseconds> RecordedIteration::durations(const IterationModel& model, const RecordedPoint& point,
                                                      ReplayParts parts) const {
  std::vector<Nanoseconds> all(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    Seconds time;
    switch (node.part) {
      case Part::kComputation: {
        if (parts.measured_operations) {
          time = point.taken[node.index];
          break;
        }
        time = model.time(node.stage, node.place, point.clock[node.index], node.of);
        if (!parts.switching) break;
        // The operation runs for so long at the clock of the one before.
        const Seconds before = model.time(node.stage, node.place, point.clock[nodes_[at(node.before)].index], node.of);
        const Seconds late = std::min(Seconds(model.latency.value), before);
        time += late * (1.0 - time / before);
        break;
      }
      case Part::kLoading:
        if (!parts.loading) break;
        time = parts.measured_operations ? point.load[node.index] : Seconds(model.loading[at(node.stage)].value);
        break;
      case Part::kTransfer:
        if (parts.transfers) time = Seconds(model.transfer[at(node.place)].value);
        break;
      case Part::kOnce:
        if (parts.once) time = Seconds(model.once.value);
        break;
    }
    all[i] = to_nanoseconds(time);
  }
  return all;
}

std::vector<ClockUse> clock_use(const RecordedIteration& iteration, const RecordedPoint& point,
                                const std::vector<Nanoseconds>& durations) {
  const ComputationDag& dag = iteration.dag();
  const std::size_t instructions = iteration.runs().instructions.size();
  std::vector<Nanoseconds> finish(durations.size());
  const Nanoseconds end = makespan(dag, durations, finish);
  std::vector<ClockUse> uses;
  for (int stage = 0; stage < dag.stages(); ++stage) {
    // Per clock what ran at it; waiting comes last.
    std::map<Megahertz, std::vector<double>, std::greater<>> sums;
    const auto seconds_at = [&](Megahertz clock) -> std::vector<double>& {
      return sums.try_emplace(clock, instructions + 1).first->second;
    };
    std::optional<Megahertz> held;
    Nanoseconds idle_since = 0;
    Nanoseconds waited_at_first = 0;
    for (const std::int32_t i : dag.stage_order(stage)) {
      const RecordedIteration::Node& node = iteration.node(i);
      if (node.part != RecordedIteration::Part::kComputation) continue;
      const Nanoseconds wait = finish[at(i)] - durations[at(i)] - idle_since;
      if (held) {
        seconds_at(*held).back() += to_seconds(wait).value();
      } else {
        waited_at_first = wait;
      }
      held = point.clock[node.index];
      seconds_at(*held)[at(node.place)] += to_seconds(durations[at(i)]).value();
      idle_since = finish[at(i)];
    }
    // Before the first computation of an iteration the clock of the last one holds.
    if (held) seconds_at(*held).back() += to_seconds(end - idle_since + waited_at_first).value();
    ClockUse use;
    use.seconds.resize(instructions + 1);
    for (const auto& [clock, seconds] : sums) {
      use.clocks.push_back(clock);
      for (std::size_t k = 0; k <= instructions; ++k) use.seconds[k].push_back(seconds[k]);
    }
    uses.push_back(std::move(use));
  }
  return uses;
}

std::vector<StageEnergy> stage_energies(const IterationModel& model, const std::vector<ClockUse>& use) {
  std::vector<StageEnergy> energies(use.size());
  for (std::size_t stage = 0; stage < use.size(); ++stage) {
    const ClockUse& own = use[stage];
    for (std::size_t c = 0; c < own.clocks.size(); ++c) {
      for (std::size_t k = 0; k + 1 < own.seconds.size(); ++k) {
        if (own.seconds[k][c] <= 0.0) continue;
        energies[stage].computing +=
            model.power_of(static_cast<int>(stage), static_cast<int>(k), own.clocks[c]) * Seconds(own.seconds[k][c]);
      }
      energies[stage].waiting += model.waiting_power(own.clocks[c]) * Seconds(own.seconds.back()[c]);
    }
  }
  return energies;
}

}  // namespace flyball
