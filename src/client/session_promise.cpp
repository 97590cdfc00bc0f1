// How a session runs by its promise guard: which clocks a step may be given, when a step is too late to go on at them,
// and what is reported. All of this is the training thread's, unless it says otherwise.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/monotonic_time.h"
#include "base/random_digits.h"
#include "client/session_schedule.h"

namespace flyball {
namespace {

constexpr double kStraggles = 1e-3;  // of the promised ratio

}  // namespace

void Session::guard_step() {
  const bool planned = by_plan();
  double ratio = 0.0;
  // Plans that are adjusted from step to step promise nothing yet, and without clocks nothing can be given up.
  if (planned && controller_) {
    const RankSchedule& plan = schedule_->plan;
    if (!plan.report_steps && plan.max_clock_time > Seconds(0)) ratio = plan.allowed_time / plan.max_clock_time;
  }
  Seconds limited_time;
  if (planned && controller_ && has_server() && schedule_->plan.limited) {
    limited_time = std::max(schedule_->plan.allowed_time, schedule_->plan.iteration_time) / options_.time_scale;
  }
  const std::int64_t version = planned ? schedule_->plan.version : 0;
  // A schedule that allows more follows a straggler, and what iterations took meanwhile is the straggler's: at maximum
  // clocks, too, where the server had them measured before it knew.
  if (version != guard_.version() && trusted_ && guarded_ratio_ > 0.0 && ratio > (1.0 + kStraggles) * guarded_ratio_) {
    guard_ = *trusted_;
  }
  guard_.adopt(version, ratio, planned && schedule_->plan.at_maximum, limited_time);
  guarded_ratio_ = ratio;
  if (ratio > 0.0 && guard_.may_set_clocks() && !trusted_) trusted_ = guard_;
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
  ask_for(0);
  noting_ = nullptr;
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
  stretches_.count(step, begin, end, guard_.version());
  if (step == PromiseGuard::Step::kSweep) {
    trusted_.reset();
    guard_.count_swept(probe_request_ ? Megahertz(0) : *sweep_clock_, to_seconds(end - begin));
    return std::nullopt;
  }
  if (timeline_ && timeline_->take_late()) given_up_ = had_clocks_;
  const auto report = guard_.count(step, to_seconds(end - begin), given_up_);
  if (!report) return std::nullopt;
  if (step == PromiseGuard::Step::kPlanned && !report->slower) trusted_ = guard_;
  const double scale = options_.time_scale;
  return PromiseReport{options_.rank.rank,   guard_.version(),           report->iterations,
                       report->time * scale, report->at_maximum * scale, report->slower};
}

// For the reporter's thread. A GPU that takes more by its plan than at maximum clocks is said once; what follows is the
// server's to decide, which knows the other ranks' GPUs.
void Session::count_savings(PromiseReport& report, const Stretches::Taken& run) {
  sampler_.settle(std::max(run.planned.end, run.at_maximum.end), kLongestSettling);
  savings_.add(run, [this](Nanoseconds begin, Nanoseconds end) -> std::optional<Joules> {
    const IntervalEnergy counted = sampler_.energy_between(0, begin, end);
    const bool whole = counted.complete && counted.source != EnergySource::kFrozenCounter;
    return whole ? std::optional(counted.energy) : std::nullopt;
  });
  RankSavings scaled = savings_.so_far();
  scaled.time = scaled.time * options_.time_scale;
  scaled.time_at_maximum = scaled.time_at_maximum * options_.time_scale;
  scaled.time_error = scaled.time_error * options_.time_scale;
  report.savings = scaled;
  report.energy = savings_.of_iteration(report.version);
  const IterationEnergy& energy = report.energy;
  const double error = std::hypot(energy.planned_error.value(), energy.at_maximum_error.value());
  const bool dearer =
      energy.at_maximum > Joules(0) && (energy.planned - energy.at_maximum).value() > kEnergyDeviations * error;
  bool tell = false;
  {
    const std::scoped_lock lock(mutex_);
    state_.savings = scaled;
    if (dearer && state_.promise == PromiseVerdict::kKept) state_.promise = PromiseVerdict::kDearer;
    tell = dearer && std::exchange(told_of_energy_, report.version) != report.version;
  }
  if (!tell) return;
  notice(fmt::format("iterations by the plan take {:.4g} J of this GPU, at maximum clocks they take {:.4g} J{}",
                     energy.planned.value(), energy.at_maximum.value(),
                     reporting_ ? ": the planning server is told" : ""));
}

// A rank whose process is started anew counts from zero; the server tells the two by this number.
std::int64_t Session::new_session_number() { return 1 + std::stoll(random_digits(12), nullptr, 16); }

// The last word of a session.
void Session::tell_savings() {
  const RankSavings& saved = state_.savings;
  if (saved.iterations == 0 || !(saved.energy_at_maximum > Joules(0))) return;
  const Joules energy = saved.energy_at_maximum - saved.energy;
  notice(
      fmt::format("{} iterations by plan took {:.1f} J of this GPU, {:.1f} ± {:.1f} J or {:.2f} % less than at maximum "
                  "clocks, and {:.2f} s, {:+.2f} % of the time at these",
                  saved.iterations, saved.energy.value(), energy.value(), saved.energy_error.value(),
                  100.0 * (energy / saved.energy_at_maximum), saved.time.value(),
                  100.0 * (saved.time / saved.time_at_maximum - 1.0)));
}

}  // namespace flyball
