// One iteration as it was executed: by the emulator, or by the stages of a real pipeline, each with a clock of its own.
// EnvPipe's reconfiguration (plan/envpipe.h) learns from either.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "plan/frontier.h"

namespace flyball {

// When each operation of one executed iteration started and finished.
struct ExecutedStep {
  std::vector<Nanoseconds> start;
  std::vector<Nanoseconds> finish;
};

// Runs one iteration of the DAG under the plan. An executor used by a planner in several threads must allow that.
using StepExecutor = std::function<ExecutedStep(const ComputationDag&, const ClockPlan&)>;

// As-soon-as-possible emulation of the measured options.
[[nodiscard]] ExecutedStep emulate_step(const ComputationDag& dag, const ClockPlan& plan);

// When a stage's computation had its input and the GPU, and when it was done, on the stage's clock.
struct MeasuredTimes {
  Nanoseconds start = 0;
  Nanoseconds finish = 0;
};

// The computations that a stage measures, in its order: all but constant-time operations.
[[nodiscard]] std::vector<int> measured_operations(const ComputationDag& dag, int stage);

// One iteration as the stages have measured it, brought to one clock. `stages[s]` has the times of
// measured_operations(dag, s), which rise.
//
// Clocks of different machines differ by more than the waits that matter. The pipeline's own messages tell by how much:
// what is computed after a message cannot start before what was computed before it has finished, and the shortest such
// delay between two stages is that of a message that was waited for. Taking that delay to be as long in both directions
// gives the difference of their clocks (Cristian, Distributed Computing 3, 1989); stages without messages in both
// directions are joined by those that they have. Constant-time operations, which nobody measures, follow what they wait
// for at once. Cost O(nodes + edges).
[[nodiscard]] ExecutedStep join_stages(const ComputationDag& dag, std::span<const std::vector<MeasuredTimes>> stages);

}  // namespace flyball
