// Why iterations take longer than promised, as far as a rank can see it: its clocks are refused, or another holds them;
// the driver throttles; an operation takes longer than in the sweep at the same clocks; or no computation does, so that
// the ranks wait for something else.
#include <fmt/format.h>

#include <cmath>

#include "base/contain.h"
#include "client/session_schedule.h"

namespace flyball {
namespace {

constexpr double kLonger = 1.03;   // than in the sweep: more than steps differ by chance
constexpr double kAsSwept = 1.01;  // computations that take no longer
constexpr double kQueued = 0.9;    // shorter ones were not measured on the GPU, but when they were queued

}  // namespace

// Under the mutex. Where a clock was not measured, the type's time is not known.
void Session::know_swept_times(Schedule& schedule) const {
  for (std::size_t type = 0; type < types_.count(); ++type) {
    Seconds all;
    for (const std::uint32_t mhz : schedule.clocks_mhz[type]) {
      const Megahertz clock = mhz > 0 || clocks_.empty() ? Megahertz(mhz) : clocks_.front();
      Seconds one;
      for (const MeasurementReport& report : reports_) {
        for (const InstructionMeasurement& measured : report.measurements) {
          if (measured.clock == clock && measured.instruction == types_.name(type)) one = measured.time;
        }
      }
      if (one == Seconds(0)) {
        all = Seconds(0);
        break;
      }
      all += one / options_.time_scale;
    }
    schedule.swept_time[type] = all;
  }
}

// For the training thread, when a promise is broken. Costs a nanosecond per computation.
Session::Computing Session::compare_with_sweep() const {
  Computing computing;
  if (!had_clocks_ || given_up_ || !ran_as_planned()) return computing;
  std::array<Seconds, kMostInstructionTypes> took{};
  for (const InstructionSpan& span : step_.spans) took[span.type] += to_seconds(span.end - span.begin);
  Seconds all;
  Seconds swept;
  for (std::size_t type = 0; type < types_.count(); ++type) {
    const Seconds known = schedule_->swept_time[type];
    if (!(known > Seconds(0))) continue;
    all += took[type];
    swept += known;
    const double ratio = took[type] / known;
    if (ratio <= computing.of_type) continue;
    computing.of_type = ratio;
    computing.slowest = static_cast<int>(type);
  }
  if (swept > Seconds(0)) computing.of_all = all / swept;
  return computing;
}

// For the reporter's thread.
std::string Session::cause_of(const Computing& computing) const {
  if (controller_) {
    const ClockControllerState clocks = controller_->state();
    if (!clocks.working) return "its clocks are not set: " + clocks.failure;
  }
  std::string throttled;
  if (held_back_) (void)contained("the look for what throttles a GPU", [&] { throttled = held_back_(); });
  if (!throttled.empty()) return "its GPU is throttled: " + throttled;
  if (computing.slowest < 0) return {};
  const auto type = static_cast<std::size_t>(computing.slowest);
  if (computing.of_type > kLonger) {
    return fmt::format("{} takes {:.3g} times as long as in its profile", types_.name(type), computing.of_type);
  }
  if (computing.of_all >= kQueued && computing.of_all <= kAsSwept) {
    return "its computations take what they took in the profile: the ranks wait for communication or something else";
  }
  return {};
}

}  // namespace flyball
