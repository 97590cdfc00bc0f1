// EnvPipe's planner (Choi et al., EnvPipe, ATC'23): slow down the operations inside the pipeline's envelope, then raise
// again, step by step, the clocks of those that turn out to be critical. The result is one plan, which aims at no
// slowdown and has no lower bound.
//
//   1. Valley (section 4.2): each stage's clock at which forward and backward together take the least gross energy.
//   2. Rescheduling (section 4.3): plan/reschedule.h, where the schedule is 1F1B.
//   3. Envelope initialisation (section 4.4): the maximum clock on the outermost path, the valley everywhere else.
//   4. Reconfiguration (section 4.4, algorithms 1 and 2): execute one step, find the critical path and raise clocks on
//      it, until the critical path is the envelope or no clock on it can be raised.
//
// The planner learns only from executed steps, so that real steps can replace emulated ones: the planning server feeds
// a Reconfiguration with what the ranks report.
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
  kBalanced,       // raise all operations of the lowest clock on the critical path by one step
  kGreedy,         // raise the last operation on the critical path that is below the maximum clock, to the maximum
  kNoReconfigure,  // keep the initialisation; makes the iteration longer where bubbles are too small
};
template <>
inline constexpr auto kNamesOf<EnvPipePolicy> = name_list("envpipe", "envpipe-greedy", "envpipe-no-reconfigure");

struct EnvPipeOptions {
  EnvPipePolicy policy = EnvPipePolicy::kBalanced;
  bool reschedule = true;
  // The number of microbatches whose activations fit into each stage's memory; empty for the problem's limit.
  std::vector<int> memory_limit;
};

// Which operations make up the envelope. In 1F1B: the first microbatch's forwards, all operations of the last stage,
// and the last microbatch's backwards. In other schedules: each stage's first and last computation, and all of the last
// stage.
[[nodiscard]] std::vector<bool> envelope(const ComputationDag& dag);

// Algorithm 2: the critical path of an executed step, first operation first. It is followed from the operation that
// finishes last back to one that waits for nothing. An operation is taken to have waited for its stage if it started
// sooner after its stage's previous operation than after its last dependency, otherwise for the dependency.
[[nodiscard]] std::vector<int> find_critical_path(const ComputationDag& dag, const ExecutedStep& step);

enum class ReconfigureStatus {
  kRunning,        // another step is to be executed
  kEnvelope,       // the critical path is the envelope: the iteration is as fast as without EnvPipe
  kMaximumClocks,  // everything on the critical path is at its maximum clock: no plan is faster
  kCancelled,      // the caller stopped it; the plan may be slow
};

// Algorithm 1 on `problem.dag`, one executed iteration at a time, whoever executes them. Every iteration but the last
// raises a clock, so that at most nodes * clocks of them are needed; usually some dozens are.
class Reconfiguration {
 public:
  // `problem` must outlive it and its copies.
  Reconfiguration(const PlanProblem& problem, EnvPipePolicy policy, ClockPlan plan);

  // The plan to execute next; the result, once status() is no longer kRunning.
  [[nodiscard]] const ClockPlan& plan() const { return plan_; }
  [[nodiscard]] ReconfigureStatus status() const { return status_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }  // iterations learnt from
  // The share of all possible clock raises that were made, in [0, 1].
  [[nodiscard]] double progress() const;

  // Takes in an iteration that was executed under plan(), and raises clocks on its critical path. Cost:
  // O(nodes + edges).
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

// Runs a Reconfiguration with an executor to its end, or until `progress` returns false.
[[nodiscard]] Reconfigured reconfigure(const PlanProblem& problem, EnvPipePolicy policy, ClockPlan plan,
                                       const StepExecutor& execute, const Progress& progress);

// The planner that the policy names: envpipe, envpipe-greedy or envpipe-no-reconfigure. Where it reschedules, the
// frontier's plans are for PlannerResult::dag. Schedules other than 1F1B keep their order.
[[nodiscard]] std::unique_ptr<Planner> make_envpipe(EnvPipeOptions options, StepExecutor execute = emulate_step);
[[nodiscard]] std::unique_ptr<Planner> make_envpipe(EnvPipePolicy policy);

}  // namespace flyball
