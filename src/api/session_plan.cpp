// A plan file's stage becomes the schedule that a server would send: version 1, and what it promises relative to
// maximum clocks.
#include "api/session_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "plan/plan_to_run.h"

namespace flyball {
namespace {

PipelineSpec pipeline_of(const JobRequest& job) {
  PipelineSpec spec;
  spec.schedule = parse_schedule(job.schedule);
  spec.stages = job.stages;
  spec.microbatches = job.microbatches;
  spec.chunks = job.chunks;
  spec.transfers_occupy_both = job.transfers_occupy_both;
  return spec;
}

}  // namespace

void take_plan_file(SessionOptions& options, const SessionGpu& gpu) {
  if (options.plan.empty()) return;
  const int stage = options.rank.pp_rank;
  if (stage >= options.job.stages) {
    throw UsageError(fmt::format("pp_rank {} is no stage of {}", stage, options.job.stages));
  }
  PlanToRun plan = read_plan_to_run(std::filesystem::path(options.plan));
  fit_to_job(plan, pipeline_of(options.job), {options.job.executes_order, options.job.places_transfers});
  if (gpu.sink) {
    std::optional<PowerLimitBounds> limits;
    if (gpu.power_limits) limits = {gpu.power_limits->minimum, gpu.power_limits->maximum};
    check_board(plan, stage, gpu.clocks, limits);
  }
  PlanToRun::Stage& own = plan.stages[static_cast<std::size_t>(stage)];
  GivenSchedule& given = options.given.emplace();
  given.power_limit = own.power_limit;
  RankSchedule& schedule = given.schedule;
  schedule.job = options.job.id;
  schedule.rank = options.rank.rank;
  schedule.stage = stage;
  schedule.version = 1;
  schedule.point = plan.point;
  schedule.iteration_time = plan.time;
  schedule.iteration_energy = plan.energy;
  schedule.order = plan.order;
  // Only the ratio of these two counts. A plan that says nothing of times promises to be no slower.
  schedule.max_clock_time = plan.max_clock_time > Seconds(0) ? plan.max_clock_time : Seconds(1);
  const double ratio = options.plan_time_ratio > 0.0      ? options.plan_time_ratio
                       : plan.max_clock_time > Seconds(0) ? std::max(1.0, plan.time / plan.max_clock_time)
                                                          : 1.0;
  schedule.allowed_time = schedule.max_clock_time * ratio;
  for (PlannedComputation& one : own.computations) {
    schedule.computations.push_back(
        {std::move(one.instruction), one.microbatch, one.chunk, one.clock_mhz, one.transfers});
  }
}

}  // namespace flyball
