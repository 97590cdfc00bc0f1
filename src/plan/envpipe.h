// EnvPipe's planner (Choi et al., EnvPipe, ATC'23): slow down what lies inside the pipeline's envelope, then undo step by
// step what turned out critical. One plan, no frontier; it aims at no slowdown and has no bound.
//
//   1. valley (4.2): per stage, the clock of least gross energy of forward and backward together.
//   2. rescheduling (4.3): plan/reschedule.h, where the schedule is 1F1B.
//   3. envelope initialisation (4.4): maximum clock on the outermost path, the valley everywhere else.
//   4. reconfiguration (4.4, algorithms 1 and 2): execute one step, find the critical path, raise clocks on it; until the
//      critical path is the envelope or nothing on it can be raised.
//
// The planner learns only from executed steps, so that real ones can take the emulator's place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "pipeline/timeline.h"
#include "plan/planner.h"

namespace flyball {

enum class EnvPipePolicy {
  kBalanced,       // raise all units of the lowest clock on the critical path by one step
  kGreedy,         // raise the last unit on the critical path that is below the maximum, to the maximum
  kNoReconfigure,  // keep the initialisation; slows the iteration where bubbles are too small
};

struct EnvPipeOptions {
  EnvPipePolicy policy = EnvPipePolicy::kBalanced;
  bool reschedule = true;
  // Microbatches whose activations fit into a stage's memory, one per stage; empty for the problem's limit.
  std::vector<int> memory_limit;
};

// When each operation of one executed iteration started and finished.
struct ExecutedStep {
  std::vector<Nanoseconds> start;
  std::vector<Nanoseconds> finish;
};

// Runs one iteration of the DAG under the plan. An executor used by a planner in several threads must allow that.
using StepExecutor = std::function<ExecutedStep(const ComputationDag&, const ClockPlan&)>;

// The executor of the planner: as-soon-as-possible emulation of the measured options.
[[nodiscard]] ExecutedStep emulate_step(const ComputationDag& dag, const ClockPlan& plan);

// Which operations make up the envelope: in 1F1B the first microbatch's forwards, all of the last stage, the last
// microbatch's backwards. In any other order, a stage's first and last computation take their place.
[[nodiscard]] std::vector<bool> envelope(const ComputationDag& dag);

// Algorithm 2, from the operation that finishes last back to one that waits for nothing; returned first operation first.
// An operation with less slack after its stage's previous operation than after its dependency waited for the stage,
// otherwise for the dependency.
[[nodiscard]] std::vector<int> find_critical_path(const ComputationDag& dag, const ExecutedStep& step);

enum class ReconfigureStatus {
  kEnvelope,       // the critical path is the envelope: as fast as without EnvPipe
  kMaximumClocks,  // everything on the critical path is at its maximum clock: no plan is faster
  kCancelled,      // the caller asked to stop; the plan may be slow
};

struct Reconfigured {
  ClockPlan plan;
  std::int64_t steps = 0;  // iterations executed
  ReconfigureStatus status = ReconfigureStatus::kEnvelope;
};

// Algorithm 1 from a given plan on `problem.dag`. Every iteration but the last raises a clock, so it ends after at most
// nodes * clocks executions; commonly after a few hundred.
[[nodiscard]] Reconfigured reconfigure(const PlanProblem& problem, EnvPipePolicy policy, ClockPlan plan,
                                       const StepExecutor& execute, const Progress& progress);

// The planner: names envpipe, envpipe-greedy, envpipe-no-reconfigure by policy. Where it reschedules, the result's
// plans are for PlannerResult::dag. Schedules other than 1F1B keep their order.
[[nodiscard]] std::unique_ptr<Planner> make_envpipe(EnvPipeOptions options, StepExecutor execute = emulate_step);
[[nodiscard]] std::unique_ptr<Planner> make_envpipe(EnvPipePolicy policy);

}  // namespace flyball
