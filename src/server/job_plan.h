// What a job's measurements lead to: its profile, the DAG of an iteration, the frontier, and the schedules on it.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pipeline/computation_dag.h"
#include "pipeline/pipeline_spec.h"
#include "plan/envpipe.h"
#include "plan/expected_saving.h"
#include "plan/planner.h"
#include "server/adjusted_plan.h"
#include "server/measurements.h"
#include "wire/job_messages.h"

namespace flyball {

// Largest iteration of one pipeline that the server plans; docs/performance.md says how long that takes.
inline constexpr std::int64_t kMostServerOperations = 500'000;

// Of one iteration of one pipeline, at most.
[[nodiscard]] std::int64_t operations_of(const JobRequest& request);

// How long planning a job takes, roughly: for whoever has to choose whose turn it is.
[[nodiscard]] Seconds expected_planning_time(const JobRequest& request);

// The pipeline that a job asks for. Throws UsageError where planner, schedule and numbers do not go together.
[[nodiscard]] PipelineSpec pipeline_of(const JobRequest& request);

// Instructions that the job's ranks may report: those of pipelines, chunks' own, and constant-time operations.
[[nodiscard]] bool is_known_instruction(const JobRequest& request, std::string_view instruction);

// Immutable once made; shared between threads.
class JobPlan {
 public:
  // Plans. Takes milliseconds to minutes. Throws what the engines throw; nothing where `progress` cancelled, or where
  // `out_of_time`, which is asked as often, ends a planner that has nothing by then. Perseus then has an incomplete
  // frontier: its slow end, and plans for T_min and the job's pace that are less thoroughly worked out. Where
  // executed steps adjust the plan, it goes on from `adjusted` if that was reached from the same measurements. The
  // stages that `fixed` lists are those of none of the ranks.
  [[nodiscard]] static std::shared_ptr<const JobPlan> make(const std::string& job, const JobRequest& request,
                                                           const std::vector<RankMeasurements>& ranks,
                                                           const Progress& progress,
                                                           const std::optional<AdjustedPlan>& adjusted = std::nullopt,
                                                           const std::vector<FixedStage>& fixed = {},
                                                           const std::function<bool()>& out_of_time = {});
  JobPlan& operator=(const JobPlan&) = delete;

  [[nodiscard]] const Frontier& frontier() const { return result_.frontier; }
  // The point to run without stragglers: of those as fast as all-maximum clocks, or as the job's target, the one of
  // least energy.
  [[nodiscard]] std::size_t base_point() const { return base_point_; }
  // The point to run where an iteration may take so long, T_opt = min(T*, T') (Perseus eq. 2), never faster than the
  // base. Microseconds.
  [[nodiscard]] std::size_t point_for(Seconds allowed) const;

  // A point of the frontier as it is run where an iteration may take `allowed`.
  struct Run {
    std::size_t point = 0;
    Seconds allowed;

    auto operator<=>(const Run&) const = default;
  };
  struct Schedule {
    std::vector<std::vector<ScheduledComputation>> stages;  // in the order in which each stage runs them
    Seconds time;                                           // of an iteration, late clock changes charged
    Joules energy;                                          // likewise
  };
  // Where clock changes are not free (JobRequest's switch_latency and min_dwell), a run has to be prepared before its
  // schedule can be had: reduce_switches() may take seconds. make() has prepared the base point's. Any thread.
  [[nodiscard]] bool is_prepared(const Run& run) const;
  void prepare(const Run& run) const;
  // Forgets all runs but these, which are in order, and those of the base point.
  void keep_only(const std::vector<Run>& runs) const;
  // Cost: linear in the iteration's operations. Requires is_prepared(run).
  [[nodiscard]] Schedule schedule(const Run& run) const;

  // How many computations schedule() has for a stage.
  [[nodiscard]] std::size_t computations_of_stage(int stage) const {
    return measured_operations(*basis_->realised.dag, stage).size();
  }

  // Where the job asked for JobRequest::executed_steps and its planner adjusts plans step by step: whether it wants to
  // learn of another iteration that its only plan is run in.
  [[nodiscard]] bool wants_steps() const {
    return reconfiguration_ && reconfiguration_->status() == ReconfigureStatus::kRunning;
  }
  // The plan after such an iteration, by stage the times of its computations in the order of schedule(). Milliseconds.
  [[nodiscard]] std::shared_ptr<const JobPlan> reconfigured(std::span<const std::vector<MeasuredTimes>> stages) const;
  // What is to be stored for make(), where executed steps adjust this plan.
  [[nodiscard]] std::optional<AdjustedPlan> adjusted() const;

  [[nodiscard]] PlanStatus status() const { return status_; }

  // What is odd about what was measured or asked for, and that the plan is incomplete, in sentences.
  [[nodiscard]] std::vector<std::string> warnings() const;

  // Job and version are the caller's to fill in.
  [[nodiscard]] FrontierReport report() const;

 private:
  struct PreparedRun {
    ClockPlan plan;
    Seconds time;
    Joules energy;
  };

  // What all plans from the same measurements share.
  struct Basis {
    Basis(const std::string& job, const JobRequest& request, const std::vector<RankMeasurements>& ranks,
          const std::vector<FixedStage>& fixed);
    Basis(const Basis&) = delete;
    Basis& operator=(const Basis&) = delete;

    Profile profile;
    PipelineSpec spec;
    ComputationDag dag;
    PlanProblem problem;
    std::shared_ptr<const ComputationDag> reordered;  // the planner's own order of the stages, where it has one
    PlanProblem realised;                             // the problem in that order
  };

  JobPlan() = default;
  // What is prepared stays with the other.
  JobPlan(const JobPlan& other);
  void take_up(const AdjustedPlan& adjusted, EnvPipePolicy policy);
  void set_only_plan(const ClockPlan& plan);

  std::shared_ptr<const Basis> basis_;
  PlannerResult result_;
  std::optional<Reconfiguration> reconfiguration_;  // none also where an earlier server has finished it
  std::uint64_t measurements_ = 0;                  // fingerprint of them, where there is a reconfiguration
  std::size_t base_point_ = 0;
  std::string planner_;
  std::string limited_by_;
  PlanStatus status_ = PlanStatus::kComplete;
  std::optional<Seconds> reached_;  // of an incomplete plan: the fastest point that the planner came to
  std::optional<Expected> expected_saving_pct_;
  Seconds t_min_;
  Seconds max_clock_time_;
  Joules max_clock_energy_;
  Nanoseconds switch_latency_ = 0;
  Nanoseconds min_dwell_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<Run, PreparedRun> prepared_;  // guarded by mutex_
};

}  // namespace flyball
