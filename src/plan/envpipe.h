// EnvPipe's planner (Choi et al., EnvPipe, ATC'23): slow down what lies inside the pipeline's envelope, then undo step
// by step what turned out critical. One plan, no frontier; it aims at no slowdown and has no bound.
//
//   1. valley (4.2): per stage, the clock of least gross energy of forward and backward together.
//   2. rescheduling (4.3): plan/reschedule.h, where the schedule is 1F1B.
//   3. envelope initialisation (4.4): maximum clock on the outermost path, the valley everywhere else.
//   4. reconfiguration (4.4, algorithms 1 and 2): execute one step, find the critical path, raise clocks on it; until
//      the critical path is the envelope or nothing on it can be raised.
//
// The planner learns only from executed steps, so that real ones can take the emulator's place: the planning server's
// Reconfiguration is fed by what the ranks report.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/names.h"
#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "plan/executed_step.h"
#include "plan/planner.h"

namespace flyball {

enum class EnvPipePolicy {
  kBalanced,       // raise all units of the lowest clock on the critical path by one step
  kGreedy,         // raise the last unit on the critical path that is below the maximum, to the maximum
  kNoReconfigure,  // keep the initialisation; slows the iteration where bubbles are too small
};
template <>
inline constexpr auto kNamesOf<EnvPipePolicy> = name_list("envpipe", "envpipe-greedy", "envpipe-no-reconfigure");

struct EnvPipeOptions {
  EnvPipePolicy policy = EnvPipePolicy::kBalanced;
  bool reschedule = true;
  // Microbatches whose activations fit into a stage's memory, one per stage; empty for the problem's limit.
  std::vector<int> memory_limit;
};

// Which operations make up the envelope: in 1F1B the first microbatch's forwards, all of the last stage, the last
// microbatch's backwards. In any other order, a stage's first and last computation take their place.
[[nodiscard]] std::vector<bool> envelope(const ComputationDag& dag);

// Algorithm 2, from the operation that finishes last back to one that waits for nothing; returned first operation
// first. An operation with less slack after its stage's previous operation than after its dependency waited for the
// stage, otherwise for the dependency.
[[nodiscard]] std::vector<int> find_critical_path(const ComputationDag& dag, const ExecutedStep& step);

enum class ReconfigureStatus {
  kRunning,        // another step is to be executed
  kEnvelope,       // the critical path is the envelope: as fast as without EnvPipe
  kMaximumClocks,  // everything on the critical path is at its maximum clock: no plan is faster
  kCancelled,      // the caller asked to stop; the plan may be slow
};

// Algorithm 1 on `problem.dag`, one executed iteration after the other, whoever executes them. Every iteration but the
// last raises a clock, so it ends after at most nodes * clocks of them; commonly after some dozens.
class Reconfiguration {
 public:
  // `problem` must outlive it and its copies.
  Reconfiguration(const PlanProblem& problem, EnvPipePolicy policy, ClockPlan plan);

  // What to execute next; the result, once the status is another than kRunning.
  [[nodiscard]] const ClockPlan& plan() const { return plan_; }
  [[nodiscard]] ReconfigureStatus status() const { return status_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }  // learnt from
  // Of all clock steps up that there can be, the share taken, in [0, 1].
  [[nodiscard]] double progress() const;

  // Takes in an iteration that was executed under plan(), of whose critical path it raises clocks. Cost O(nodes +
  // edges).
  ReconfigureStatus learn(const ExecutedStep& step);

 private:
  const PlanProblem* problem_;
  EnvPipePolicy policy_;
  std::vector<bool> envelope_;
  ClockPlan plan_;
  ReconfigureStatus status_ = ReconfigureStatus::kRunning;
  std::int64_t steps_ = 0;
  std::int64_t raised_ = 0;
  std::int64_t possible_ = 0;
};

struct Reconfigured {
  ClockPlan plan;
  std::int64_t steps = 0;  // iterations executed
  ReconfigureStatus status = ReconfigureStatus::kEnvelope;
};

// Reconfiguration with an executor, to its end or until `progress` says so.
[[nodiscard]] Reconfigured reconfigure(const PlanProblem& problem, EnvPipePolicy policy, ClockPlan plan,
                                       const StepExecutor& execute, const Progress& progress);

// The planner: names envpipe, envpipe-greedy, envpipe-no-reconfigure by policy. Where it reschedules, the result's
// plans are for PlannerResult::dag. Schedules other than 1F1B keep their order.
[[nodiscard]] std::unique_ptr<Planner> make_envpipe(EnvPipeOptions options, StepExecutor execute = emulate_step);
[[nodiscard]] std::unique_ptr<Planner> make_envpipe(EnvPipePolicy policy);

}  // namespace flyball
