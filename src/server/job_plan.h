// A job's plan, made from its measurements: its profile, the DAG of an iteration, the frontier, and the schedules of
// its points.
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
#include "pipeline/late_clocks.h"
#include "pipeline/pipeline_spec.h"
#include "plan/envpipe.h"
#include "plan/expected_saving.h"
#include "plan/planner.h"
#include "plan/scattered_runs.h"
#include "plan/switching.h"
#include "server/adjusted_plan.h"
#include "server/energy_watch.h"
#include "server/limited_plan.h"
#include "server/measurements.h"
#include "server/order_seen.h"
#include "wire/job_messages.h"

namespace flyball {

// The largest iteration of one pipeline that the server plans; docs/performance.md says how long that takes.
inline constexpr std::int64_t kMostServerOperations = 500'000;

// Returns an upper bound of the number of operations in one iteration of one pipeline.
[[nodiscard]] std::int64_t operations_of(const JobRequest& request);

// Returns the name of the job's planner: the one that it asks for, or else joint where its ranks execute an order and
// it has said `free` or what memory they have, or else Perseus.
[[nodiscard]] std::string planner_of(const JobRequest& request);

// Estimates roughly how long planning a job takes, to choose whose turn it is.
// A limited job is planned several times.
[[nodiscard]] Seconds expected_planning_time(const JobRequest& request, bool limited = false);

// Returns the pipeline that a job asks for. Throws UsageError where planner, schedule and numbers do not go together.
[[nodiscard]] PipelineSpec pipeline_of(const JobRequest& request, ClocksAsked asked = ClocksAsked::kWhenFree);

// Tells whether the job's ranks may report the instruction: instructions of pipelines, those of the job's chunks, and
// constant-time operations.
[[nodiscard]] bool is_known_instruction(const JobRequest& request, std::string_view instruction);

// Immutable once made; shared between threads.
class JobPlan {
 public:
  // Makes the plan, which takes milliseconds to minutes. Throws what the planners throw. Returns null where `progress`
  // cancelled the planner, or where `out_of_time`, which is asked as often, ended one that had found nothing yet. When
  // Perseus is ended, its frontier is incomplete: it has the slow end, and rougher plans for T_min and the job's pace.
  // Where executed steps adjust the plan, it goes on from `adjusted` if that belongs to the same measurements. `fixed`
  // lists the stages of which `ranks` has no rank, `asked` says when the ranks ask for clocks, and `seen` which orders
  // they are known not to run. Within `limits` on power the frontier has the plans that keep to them; where there is
  // none, or time runs out, it has one plan of little power. Where planning a job takes long and few of its
  // measurements have changed since `previous`, Perseus's plans are made from those (replan()), in a tenth of the time.
  // Where pipelines are not alike, they get plans of their own besides, of `own_operations` together at most.
  [[nodiscard]] static std::shared_ptr<const JobPlan> make(
      const std::string& job, const JobRequest& request, const std::vector<RankMeasurements>& ranks,
      const Progress& progress, const std::optional<AdjustedPlan>& adjusted = std::nullopt,
      const std::vector<FixedStage>& fixed = {}, const std::function<bool()>& out_of_time = {},
      ClocksAsked asked = ClocksAsked::kWhenFree, OrderSeen seen = OrderSeen::kAsTold,
      const JobPowerLimits& limits = {}, const std::shared_ptr<const JobPlan>& previous = nullptr,
      std::int64_t own_operations = kMostServerOperations);
  JobPlan& operator=(const JobPlan&) = delete;

  [[nodiscard]] const Frontier& frontier() const { return result_.frontier; }
  // Return the profile of the measurements, the pipeline, and the noise for which this was planned.
  [[nodiscard]] const Profile& profile() const { return basis_->profile; }
  [[nodiscard]] const PipelineSpec& pipeline() const { return basis_->spec; }
  [[nodiscard]] double noise() const { return basis_->problem.noise; }
  // Returns the point to run without stragglers: of the points that are as fast as maximum clocks, or as the job's
  // target, the one of least energy. Within limits on power there may be none as fast: then the fastest.
  [[nodiscard]] std::size_t base_point() const { return base_point_; }
  // Returns the point to run where an iteration may take `allowed`, T_opt = min(T*, T') (Perseus eq. 2), which is never
  // faster than the base point. Costs microseconds.
  [[nodiscard]] std::size_t point_for(Seconds allowed) const;

  // --- Pipelines that are not alike (server/pipeline_groups.h) ---
  // Returns the plan that a pipeline runs: this one, unless groups of pipelines have plans of their own.
  [[nodiscard]] const JobPlan& of_pipeline(int pipeline) const {
    return own_.empty() ? *this : *own_[static_cast<std::size_t>(pipeline)];
  }
  // Returns how many plans the pipelines run.
  [[nodiscard]] std::size_t plans() const { return own_.empty() ? 1 : plans_; }
  // Returns the operations of all plans but this one.
  [[nodiscard]] std::int64_t own_operations() const {
    return own_.empty() ? 0 : static_cast<std::int64_t>(plans_) * basis_->dag.size();
  }
  // Returns the time of a pipeline's base point, which nobody but its own plan decides.
  [[nodiscard]] Seconds base_time() const { return frontier().time(base_point_); }
  // Returns the time for which all pipelines wait while there is no straggler: that of the slowest at its base point.
  [[nodiscard]] Seconds common_time() const { return own_.empty() ? base_time() : common_; }
  // Returns max_clock_time_in_order() of the slowest pipeline.
  [[nodiscard]] Seconds max_clock_time_of_all() const;

  // What becomes of a pipeline of which stages compute slower than they were profiled.
  struct Slowed {
    double degree = 1.0;      // its iteration's time over that of the base point, at least 1
    std::vector<int> raised;  // stages that run at their highest clocks
  };
  // `slowdowns` has how many times as long each stage's computations take. Where the iteration would be more than
  // kPromiseTolerance longer than at highest clocks, the slow stages are raised to these, or else all stages; but none
  // within limits on power, or while steps adjust the plan. Cost: linear in the iteration's operations.
  [[nodiscard]] Slowed slowed(std::span<const double> slowdowns) const;

  // A point of the frontier as it is run where an iteration may take `allowed`.
  struct Run {
    std::size_t point = 0;
    Seconds allowed;

    auto operator<=>(const Run&) const = default;
  };
  // Returns the run where an iteration may take `allowed`: that of the base point unless it is longer than its time.
  [[nodiscard]] Run run_for(Seconds allowed) const {
    return allowed > base_time() ? Run{point_for(allowed), allowed} : base_run();
  }
  struct Schedule {
    std::vector<std::vector<ScheduledComputation>> stages;  // in the order in which each stage runs them
    Seconds time;                                           // of an iteration, late clock changes charged
    Joules energy;                                          // likewise
    Watts straggler_power;                                  // what the stages draw while they wait for a straggler
    Seconds lateness;  // the part of `time` that comes of operations that scatter (plan/scattered_runs.h)
  };
  // Where clock changes are not free (JobRequest's switch_latency and min_dwell), a run has to be prepared before its
  // schedule can be made. make() has prepared the base point's with a search for few changes (switching_fronts()), or,
  // of a pipeline that waits for slower ones, the run for common_time(). A
  // run that waits for a straggler is wanted at once: it is the slowest point that ends in time, unless changes must be
  // some time apart, for which the search may take seconds. Thread-safe.
  [[nodiscard]] bool is_prepared(const Run& run) const;
  void prepare(const Run& run, const Progress& progress = {}) const;
  // Returns whether prepare() takes some milliseconds only, so that the caller need not leave it to a planner's thread.
  [[nodiscard]] bool is_prepared_at_once(const Run& run) const;
  // Forgets all prepared runs except these, which must be sorted, and those of the base point.
  void keep_only(const std::vector<Run>& runs) const;
  // With stages at their highest clocks, time and energy are still those of the run. Cost: linear in the iteration's
  // operations. Requires is_prepared(run).
  [[nodiscard]] Schedule schedule(const Run& run, const std::vector<int>& raised = {}) const;

  // Returns the clocks of schedule(), by operation of dag(). Requires is_prepared(run).
  [[nodiscard]] ClockPlan clocks_of(const Run& run, const std::vector<int>& raised = {}) const;
  // Returns the operations in the order in which schedule() runs them.
  [[nodiscard]] const ComputationDag& dag() const { return *basis_->realised.dag; }
  // Returns what each operation takes at these clocks, late clock changes charged. Cost: up to that of 16 emulations.
  [[nodiscard]] std::vector<Nanoseconds> durations(const ClockPlan& clocks) const;

  // Returns what the run's schedule promises of its energy.
  [[nodiscard]] EnergyPromise energy_promise(const Run& run, const Schedule& schedule) const;

  // Returns the number of computations that schedule() has for a stage.
  [[nodiscard]] std::size_t computations_of_stage(int stage) const { return measured_operations(dag(), stage).size(); }

  // Tells whether the planner needs another executed iteration of its plan. It does so only where the job asked for
  // JobRequest::executed_steps and the planner adjusts plans step by step.
  [[nodiscard]] bool wants_steps() const {
    return reconfiguration_ && reconfiguration_->status() == ReconfigureStatus::kRunning;
  }
  // Returns the plan after such an iteration; `stages` has, by stage, the times of the computations in the order of
  // schedule(). Takes milliseconds.
  [[nodiscard]] std::shared_ptr<const JobPlan> reconfigured(std::span<const std::vector<MeasuredTimes>> stages) const;
  // Returns the state that is to be stored for make(), where executed steps adjust this plan.
  [[nodiscard]] std::optional<AdjustedPlan> adjusted() const;

  [[nodiscard]] PlanStatus status() const { return status_; }
  // Tells whether the plans were made from those of earlier measurements.
  [[nodiscard]] bool is_replanned() const { return from_ != nullptr; }

  // Returns the limits on power for which this was planned; an empty one: none.
  [[nodiscard]] JobPowerLimits limits() const { return limits_ ? limits_->limits : JobPowerLimits{}; }
  [[nodiscard]] bool is_limited() const { return limits_.has_value(); }
  [[nodiscard]] bool keeps_limits() const { return !limits_ || (limits_->kept && limits_->found); }
  // Returns the power of the whole job at the base point, late clock changes charged; none where executed steps have
  // adjusted the plan.
  [[nodiscard]] const std::optional<JobPowerStatus>& power() const { return power_; }
  // Returns the peak of the whole job with every computation at its option of least power; 0 where power() is none.
  [[nodiscard]] Watts least_peak() const { return least_peak_; }

  // Returns the number of the order of schedule()'s computations (RankSchedule::order).
  [[nodiscard]] std::int64_t order() const { return order_; }
  // Returns what an iteration at maximum clocks takes by the profile in the mean, in the order of schedule()'s
  // computations.
  [[nodiscard]] Seconds max_clock_time_in_order() const { return max_clock_time_in_order_; }

  // Returns sentences on what is odd about the measurements or the request, and on an incomplete plan.
  [[nodiscard]] std::vector<std::string> warnings() const;

  // Returns the report, in which the caller fills in job and version.
  [[nodiscard]] FrontierReport report() const;

 private:
  struct PreparedRun {
    ClockPlan plan;
    Seconds time;
    Joules energy;
    Watts straggler_power;
    Seconds lateness{};  // is in `time`
    bool inside = true;  // the limits on power, where there are some that can be kept
  };

  // What all plans of a job are made for.
  struct Making {
    const std::string& job;
    const JobRequest& request;
    const std::vector<RankMeasurements>& ranks;
    const std::vector<FixedStage>& fixed;
    const Progress& progress;
    const std::function<bool()>& out_of_time;
    ClocksAsked asked;
    OrderSeen seen;
    const JobPowerLimits& limits;
    std::optional<EnvPipePolicy> policy = {};  // of a planner whose plan executed steps adjust
    double begin = 0.0;                        // progress of the part under way: from, and how much
    double part = 1.0;
    bool cancelled = false;
    bool over = false;

    // Tells the progress. Returns whether to go on.
    bool watch(double share);
  };
  // What all plans from the same measurements share.
  struct Basis {
    Basis(const Making& making, const std::vector<RankMeasurements>& ranks);
    Basis(const Basis&) = delete;
    Basis& operator=(const Basis&) = delete;

    Profile profile;
    PipelineSpec spec;
    ComputationDag dag;
    PlanProblem problem;
    std::shared_ptr<const ComputationDag> reordered;  // the planner's own order of the stages, where it has one
    PlanProblem realised;                             // the problem in that order
    std::vector<Seconds> changes;                     // per stage, what a clock change takes
    ScatteredRuns scattered;
  };

  // Makes one plan, of which no run is prepared. Null as make().
  [[nodiscard]] static std::shared_ptr<JobPlan> make_one(Making& making, const std::shared_ptr<Basis>& basis,
                                                         const std::shared_ptr<const JobPlan>& previous,
                                                         std::vector<TighterPlan>& tighter);
  // Gives the pipelines plans of their own, made from `plan` where that is quicker. `group_of` has the group of each
  // pipeline. Where time runs out, all of them run `plan`.
  static void plan_pipelines(const std::shared_ptr<JobPlan>& plan, Making& making, const std::vector<int>& group_of);
  // Returns the power of the pipelines' own plans together, as if their peaks came at once; the swing is left out.
  [[nodiscard]] LateShape added_up_power(const JobRequest& request) const;

  JobPlan() = default;
  // Copies all but the prepared runs.
  JobPlan(const JobPlan& other);
  [[nodiscard]] std::optional<PlannerResult> from_previous(const std::shared_ptr<const JobPlan>& previous,
                                                           const Planner& planner);
  void take_up(const AdjustedPlan& adjusted, EnvPipePolicy policy);
  void set_only_plan(const ClockPlan& plan);
  [[nodiscard]] bool waits_for_straggler(const Run& run) const { return run.allowed > frontier().time(base_point_); }
  // Whether the run's schedule comes from a search for few changes.
  [[nodiscard]] bool is_searched(const Run& run) const {
    return min_dwell_ > 0 || !waits_for_straggler(run) || run.allowed == common_;
  }
  void take_base_for(const Run& run) const;  // where nothing slower ends in time
  [[nodiscard]] bool is_inside(const ClockPlan& plan) const;
  void raise(ClockPlan& plan, const std::vector<int>& stages) const;
  [[nodiscard]] Run base_run() const { return {base_point_, base_time()}; }
  [[nodiscard]] SwitchingTerms terms_of(Seconds allowed, bool waits) const;
  // Searches for few changes from `plan` on, inside the limits.
  [[nodiscard]] PreparedRun searched(const PlanProblem& problem, ClockPlan plan, const SwitchingTerms& terms,
                                     const Progress& progress) const;
  void settle_base(const std::vector<TighterPlan>& tighter, const Progress& progress);
  void settle_least();  // where no plan keeps to the limits
  void keep_prepared(const Run& run, PreparedRun made) const;
  // Emulates a plan with clock changes of this latency. What operations that scatter cost is in its figures.
  [[nodiscard]] PreparedRun emulated(ClockPlan plan, Nanoseconds latency) const;
  // Raises clocks of a plan without straggler until operations that scatter make it hardly later than maximum clocks.
  // Knows no shortest time between changes.
  void hasten(ClockPlan& plan) const;
  // Adds to the figures of maximum clocks what operations that scatter do to them.
  void charge_scatter_at_maximum();
  [[nodiscard]] bool is_without_cost() const { return switch_latency_ == 0 && min_dwell_ == 0; }
  [[nodiscard]] LatePower late() const { return {switch_latency_, switch_spread_, asked()}; }
  [[nodiscard]] ClocksAsked asked() const { return basis_->spec.clocks_asked; }
  [[nodiscard]] Seconds schedule_time() const;  // of the base point's schedule
  void take_power(const JobRequest& request);

  std::shared_ptr<const Basis> basis_;
  std::shared_ptr<const JobPlan> from_;  // the plan from new that this was made from, if any
  PlannerResult result_;
  std::optional<Reconfiguration> reconfiguration_;  // empty, too, where an earlier server has finished it
  std::uint64_t measurements_ = 0;                  // fingerprint of the measurements, where a reconfiguration is
  std::size_t base_point_ = 0;
  std::int64_t order_ = 0;
  std::string planner_;
  std::string order_warning_;
  std::string limited_by_;
  PlanStatus status_ = PlanStatus::kComplete;
  std::optional<Seconds> reached_;  // time of the fastest point that the planner of an incomplete plan reached
  std::optional<Expected> expected_saving_pct_;
  Seconds t_min_;
  Seconds max_clock_time_;
  Seconds max_clock_time_in_order_;  // the same in the order that the ranks are to run
  Joules max_clock_energy_;
  Watts max_clock_straggler_power_;
  Seconds allowed_time_;            // of an iteration without a straggler
  Nanoseconds switch_latency_ = 0;  // the longest
  Nanoseconds switch_spread_ = 0;   // by how much sooner a change may take hold
  Nanoseconds min_dwell_ = 0;
  std::optional<LimitsKept> limits_;  // where there are limits on power
  std::optional<JobPowerStatus> power_;
  Watts least_peak_;
  std::vector<std::shared_ptr<const JobPlan>> own_;  // by pipeline; empty where all run this plan
  std::size_t plans_ = 1;                            // different ones in own_
  Seconds common_;                                   // common_time() of a job whose pipelines have plans of their own
  mutable std::mutex mutex_;
  mutable std::map<Run, PreparedRun> prepared_;  // guarded by mutex_
};

}  // namespace flyball
