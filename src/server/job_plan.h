// What a job's measurements lead to: its profile, the DAG of an iteration, the frontier, and the schedules on it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/computation_dag.h"
#include "pipeline/pipeline_spec.h"
#include "plan/planner.h"
#include "server/measurements.h"
#include "wire/job_messages.h"

namespace flyball {

// Largest iteration of one pipeline that the server plans; docs/performance.md says how long that takes.
inline constexpr std::int64_t kMostServerOperations = 500'000;

// The pipeline that a job asks for. Throws UsageError where planner, schedule and numbers do not go together.
[[nodiscard]] PipelineSpec pipeline_of(const JobRequest& request);

// Instructions that the job's ranks may report: those of pipelines, chunks' own, and constant-time operations.
[[nodiscard]] bool is_known_instruction(const JobRequest& request, std::string_view instruction);

// Immutable once made; shared between threads.
class JobPlan {
 public:
  // Plans. Takes milliseconds to minutes. Throws what the engines throw; nothing where `progress` cancelled.
  [[nodiscard]] static std::shared_ptr<const JobPlan> make(const std::string& job, const JobRequest& request,
                                                           const std::vector<RankMeasurements>& ranks,
                                                           const Progress& progress);
  JobPlan(const JobPlan&) = delete;
  JobPlan& operator=(const JobPlan&) = delete;

  [[nodiscard]] const Frontier& frontier() const { return result_.frontier; }
  // The point to run without stragglers: as fast as all-maximum clocks, or the job's target.
  [[nodiscard]] std::size_t base_point() const { return base_point_; }
  // The point to run where an iteration may take so long, T_opt = min(T*, T') (Perseus eq. 2), never faster than the
  // base. Microseconds.
  [[nodiscard]] std::size_t point_for(Seconds allowed) const;

  // One stage's computations at a point, in its order. Cost: linear in the iteration's operations.
  [[nodiscard]] std::vector<std::vector<ScheduledComputation>> schedules(std::size_t point) const;  // by stage

  // Job and version are the caller's to fill in.
  [[nodiscard]] FrontierReport report() const;

 private:
  JobPlan(const std::string& job, const JobRequest& request, const std::vector<RankMeasurements>& ranks);

  Profile profile_;
  PipelineSpec spec_;
  ComputationDag dag_;
  PlanProblem problem_;
  PlannerResult result_;
  std::size_t base_point_ = 0;
  std::string planner_;
  Seconds t_min_;
  Seconds max_clock_time_;
  Joules max_clock_energy_;
};

}  // namespace flyball
