// How a session runs by its promise guard: which clocks a step may be given, when a step is too late to go on at them,
// and what is reported. All of this is the training thread's, unless it says otherwise.
#include <algorithm>
#include <cmath>

#include "base/monotonic_time.h"
#include "client/session_schedule.h"

namespace flyball {

void Session::guard_step() {
  const bool planned = by_plan();
  double ratio = 0.0;
  // Plans that are adjusted from step to step promise nothing yet, and without clocks nothing can be given up.
  if (planned && controller_) {
    const RankSchedule& plan = schedule_->plan;
    if (!plan.report_steps && plan.max_clock_time > Seconds(0)) ratio = plan.allowed_time / plan.max_clock_time;
  }
  guard_.adopt(planned ? schedule_->plan.version : 0, ratio, planned && schedule_->plan.at_maximum);
  sets_clocks_ = had_clocks_ = planned && !schedule_->plan.at_maximum && guard_.may_set_clocks();
  given_up_ = false;
  const Seconds patience = guard_.patience();
  late_at_ = sets_clocks_ && std::isfinite(patience.value()) ? monotonic_now() + to_nanoseconds(patience) : 0;
}

// A step that is late already would be later still at lower clocks.
bool Session::given_up_late() {
  if (late_at_ == 0 || monotonic_now() < late_at_) return false;
  sets_clocks_ = false;
  given_up_ = true;
  if (timeline_) timeline_->forget_clocks();  // those that the GPU has not come to
  controller_->release();
  set_power_limit();
  return true;
}

// A schedule's limit holds while its clocks do. It is asked for once, since a board takes longer to obey a limit than a
// computation lasts.
void Session::set_power_limit() {
  if (!controller_ || !options_.given) return;
  const bool holds = sets_clocks_ && !sweeps() && schedule_->power_limit;
  controller_->set_limit(holds ? *schedule_->power_limit : Watts(0));
}

std::optional<PromiseReport> Session::promise_report(Nanoseconds begin, Nanoseconds end) {
  const PromiseGuard::Step step = sweeps()      ? PromiseGuard::Step::kSweep
                                  : had_clocks_ ? PromiseGuard::Step::kPlanned
                                                : PromiseGuard::Step::kAtMaximum;
  stretches_.count(step, begin, end);
  if (step == PromiseGuard::Step::kSweep) {
    guard_.count_swept(probe_clock_ ? Megahertz(0) : *sweep_clock_, to_seconds(end - begin));
    return std::nullopt;
  }
  if (timeline_ && timeline_->take_late()) given_up_ = had_clocks_;
  const auto report = guard_.count(step, to_seconds(end - begin), given_up_);
  if (!report) return std::nullopt;
  const double scale = options_.time_scale;
  return PromiseReport{options_.rank.rank,
                       guard_.version(),
                       report->iterations,
                       report->time * scale,
                       report->at_maximum * scale,
                       report->slower,
                       {}};
}

// For the reporter's thread.
RankSavings Session::count_savings(const Stretches::Taken& run) {
  sampler_.settle(std::max(run.planned.end, run.at_maximum.end), kLongestSettling);
  savings_.add(run, [this](Nanoseconds begin, Nanoseconds end) -> std::optional<Joules> {
    const IntervalEnergy counted = sampler_.energy_between(0, begin, end);
    const bool whole = counted.complete && counted.source != EnergySource::kFrozenCounter;
    return whole ? std::optional(counted.energy) : std::nullopt;
  });
  RankSavings scaled = savings_.so_far();
  scaled.time = scaled.time * options_.time_scale;
  scaled.time_at_maximum = scaled.time_at_maximum * options_.time_scale;
  const std::scoped_lock lock(mutex_);
  return state_.savings = scaled;
}

}  // namespace flyball
