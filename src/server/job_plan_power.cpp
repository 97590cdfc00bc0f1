// The power of a whole job by its plan: of GPUs in step where all pipelines run one plan, and added up where groups of
// them have plans of their own, as if their peaks came at the same moment.
#include <cmath>
#include <map>

#include "pipeline/power_curve.h"
#include "server/job_plan.h"

namespace flyball {

void JobPlan::take_power(const JobRequest& request) {
  const LimitsKept kept = limits_.value_or(LimitsKept{{}, request.data_parallel * request.tensor_parallel});
  const Seconds window = limits_ ? kept.limits.ramp_window : request.limits.ramp_window;
  const LateShape late_figures = own_.empty()
                                     ? late_shape(basis_->realised, clocks_of(base_run()), kept.copies, late(), window)
                                     : added_up_power(request);
  const PowerShape& shape = late_figures.shape;
  JobPowerStatus& power = power_.emplace();
  power.max_power = kept.limits.peak;
  power.max_ramp_w_per_s = kept.limits.ramp_w_per_s;
  power.ramp_window = window;
  power.kept = kept.kept;
  power.mean = shape.mean;
  power.peak = shape.peak;
  power.greatest_step = shape.greatest_step;
  power.ramp_w_per_s = shape.ramp_w_per_s;
  if (late_figures.has_swing) {
    power.swing = shape.swing.peak_to_peak;
    power.swing_hz = shape.swing.hertz;
  }
  power.max_clock_peak =
      peak_of(power_curve(basis_->dag, max_clock_plan(basis_->problem), basis_->problem.blocking, kept.copies));
  least_peak_ =
      peak_of(power_curve(basis_->dag, least_power_plan(basis_->problem), basis_->problem.blocking, kept.copies));
  power.least_time = kept.least_time;
  if (!kept.least) return;
  power.least_peak = kept.least->peak;
  power.least_ramp_w_per_s = kept.least->ramp_w_per_s;
}

LateShape JobPlan::added_up_power(const JobRequest& request) const {
  std::map<std::shared_ptr<const JobPlan>, int> copies;  // GPUs on every stage
  for (const auto& plan : own_) copies[plan] += request.tensor_parallel;
  LateShape all;
  all.has_swing = false;
  for (const auto& [plan, count] : copies) {
    const Run run = plan->run_for(common_);
    const Schedule schedule = plan->schedule(run);
    const Joules energy = schedule.energy + schedule.straggler_power * (common_ - schedule.time);
    const PowerShape shape =
        late_shape(plan->basis_->realised, plan->clocks_of(run), count, plan->late(), request.limits.ramp_window).shape;
    all.shape.mean += static_cast<double>(count) * (energy / common_);
    all.shape.peak += shape.peak;
    all.shape.greatest_step += shape.greatest_step;
    all.shape.ramp_w_per_s += shape.ramp_w_per_s;
  }
  return all;
}

}  // namespace flyball
