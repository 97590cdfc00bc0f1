// EnvPipe's planner (Choi et al., EnvPipe, ATC'23). It slows down the operations inside the pipeline's envelope, then
// raises again, step by step, the clocks of those that turn out to be critical. The result is one plan, which aims at
// no slowdown and has no lower bound.
//
//   1. Valley (section 4.2): find each stage's clock at which forward and backward together take the least energy,
//      blocking power not taken off.
//   2. Rescheduling (section 4.3): where the schedule is 1F1B, move forwards ahead (plan/reschedule.h).
//   3. Envelope initialisation (section 4.4): set the maximum clock on the outermost path, the valley everywhere else.
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

// Tells for each operation whether it is part of the envelope: each stage's first and last computation, and all
// operations of the last stage. In 1F1B, the first computations are the first microbatch's forwards, and the last ones
// the last microbatch's backwards.
[[nodiscard]] std::vector<bool> envelope(const ComputationDag& dag);

// Algorithm 2: returns the critical path of an executed step, first operation first. The path is followed from the
// operation that finishes last back to one that waits for nothing. An operation is taken to have waited for its stage
// if it started sooner after its stage's previous operation than after its last dependency, otherwise for the latter.
[[nodiscard]] std::vector<int> find_critical_path(const ComputationDag& dag, const ExecutedStep& step);

enum class ReconfigureStatus {
  kRunning,        // the caller is to execute another step
  kEnvelope,       // the critical path is the envelope: the iteration is as fast as without EnvPipe
  kMaximumClocks,  // everything on the critical path is at its maximum clock: no plan is faster
  kCancelled,      // the caller stopped the reconfiguration; the plan may be slow
};

// Algorithm 1 on `problem.dag`, one executed iteration at a time. The caller executes the iterations, in an emulator or
// by training. Every iteration but the last raises a clock, so that at most nodes * clocks iterations are needed;
// usually it takes some dozens. Not thread-safe.
class Reconfiguration {
 public:
  // Starts from `plan`. `problem` must outlive this object and its copies.
  Reconfiguration(const PlanProblem& problem, EnvPipePolicy policy, ClockPlan plan);

  // The plan to execute next, and the result once status() is no longer kRunning.
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

// Runs a Reconfiguration to its end, with `execute` for the iterations, or until `progress` returns false.
[[nodiscard]] Reconfigured reconfigure(const PlanProblem& problem, EnvPipePolicy policy, ClockPlan plan,
                                       const StepExecutor& execute, const Progress& progress);

// Returns the planner that the policy names: envpipe, envpipe-greedy or envpipe-no-reconfigure. Where it reschedules,
// the frontier's plans are for PlannerResult::dag. Schedules other than 1F1B keep their order.
[[nodiscard]] std::unique_ptr<Planner> make_envpipe(EnvPipeOptions options, StepExecutor execute = emulate_step);
[[nodiscard]] std::unique_ptr<Planner> make_envpipe(EnvPipePolicy policy);

}  // namespace flyball
