// The power of a whole job by its plan: of GPUs in step where all pipelines run one plan, and added up where groups of
// them have plans of their own, as if their peaks came at the same moment.
#include <cmath>
#include <map>

#include "pipeline/power_curve.h"
#include "server/job_plan.h"

namespace flyball {

void JobPlan::take_power(const JobRequest& request) {
  const LimitsKept kept = limits_.value_or(LimitsKept{{}, request.data_parallel * request.tensor_parallel});
  const ClockPlan plan = is_without_cost() ? frontier().plan(base_point_) : prepared_.at(base_run()).plan;
  const Seconds window = limits_ ? kept.limits.ramp_window : request.limits.ramp_window;
  const LateShape late_figures = late_shape(basis_->realised, plan, kept.copies, late(), window);
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

void JobPlan::add_up_power(const JobRequest& request) {
  if (!power_) return;
  JobPowerStatus& power = *power_;
  power.mean = power.peak = power.greatest_step = Watts(0);
  power.ramp_w_per_s = 0.0;
  power.swing.reset();
  power.swing_hz.reset();
  std::map<std::shared_ptr<const JobPlan>, int> copies;  // GPUs on every stage
  for (const auto& plan : own_) copies[plan] += request.tensor_parallel;
  for (const auto& [plan, count] : copies) {
    const Run run = plan->run_for(common_);
    const Schedule schedule = plan->schedule(run);
    const Joules energy = schedule.energy + schedule.straggler_power * (common_ - schedule.time);
    power.mean += static_cast<double>(count) * (energy / common_);
    const ClockPlan clocks = plan->is_without_cost() ? plan->frontier().plan(run.point) : plan->prepared_.at(run).plan;
    const PowerShape shape = late_shape(plan->basis_->realised, clocks, count, plan->late(), power.ramp_window).shape;
    power.peak += shape.peak;
    power.greatest_step += shape.greatest_step;
    power.ramp_w_per_s += shape.ramp_w_per_s;
  }
}

}  // namespace flyball
