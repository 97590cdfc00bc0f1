// One iteration as it was executed, by the emulator or by the stages of a real pipeline, each of which reads a wall
// clock of its own. EnvPipe's reconfiguration (plan/envpipe.h) learns from both.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "plan/frontier.h"

namespace flyball {

// When each operation of one executed iteration started and finished, by operation.
struct ExecutedStep {
  std::vector<Nanoseconds> start;
  std::vector<Nanoseconds> finish;
};

// A function that runs one iteration of the DAG under the plan. It must be thread-safe if several threads use the
// planner that it was given to.
using StepExecutor = std::function<ExecutedStep(const ComputationDag&, const ClockPlan&)>;

// Emulates an iteration: every operation takes its measured time and starts as soon as it can.
[[nodiscard]] ExecutedStep emulate_step(const ComputationDag& dag, const ClockPlan& plan);

// When a stage's computation had both its input and the GPU, and when it finished, by the stage's wall clock.
struct MeasuredTimes {
  Nanoseconds start = 0;
  Nanoseconds finish = 0;
};

// The computations that a stage measures, in its order: all operations but those of constant time.
[[nodiscard]] std::vector<int> measured_operations(const ComputationDag& dag, int stage);

// Joins what the stages measured in one iteration into one timeline, by the wall clock of the first stage. `stages[s]`
// holds the times of measured_operations(dag, s), which must rise.
//
// The wall clocks of different machines differ by more than the waits that matter, but the pipeline's own transfers
// show by how much. A computation that needs a transfer starts after the computation that sent it has finished, and the
// shortest such delay between two stages is that of a transfer that was waited for. If a transfer takes as long in both
// directions, half the difference of the two delays is the difference of the wall clocks (Cristian, Distributed
// Computing 3, 1989). Of several ways from stage to stage the links with the shortest delays count. Stages with
// transfers in only one direction are aligned as if the shortest took no time. Operations of constant time, which
// nobody measures, take no time and follow what they wait for. Cost:
// O(nodes + edges + stages * links).
[[nodiscard]] ExecutedStep join_stages(const ComputationDag& dag, std::span<const std::vector<MeasuredTimes>> stages);

}  // namespace flyball
