// Why iterations take longer than promised, as far as a rank can see it: its clocks are refused, or another holds them;
// the driver throttles; an operation takes longer than in the sweep at the same clocks; or no computation does, so that
// the ranks wait for something else.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "client/session_schedule.h"

namespace flyball {
namespace {

constexpr double kLonger = 1.03;   // than in the sweep: more than steps differ by chance
constexpr double kAsSwept = 1.01;  // computations that take no longer
constexpr double kQueued = 0.9;    // shorter ones were not measured on the GPU, but when they were queued

}  // namespace

// For the training thread, when a promise is broken. Costs some ten nanoseconds per computation.
Session::Computing Session::compare_with_sweep() const {
  Computing computing;
  if (watch_.times() == nullptr || !schedule_) return computing;
  for (const PaceOf of : {PaceOf::kTransfer, PaceOf::kTransferBack, PaceOf::kReduction}) {
    const double ratio = watch_.of_transfer(of);
    if (ratio < std::max(StepWatch::kLeastSlowTransfer, computing.of_transfer)) continue;
    computing.of_transfer = ratio;
    computing.transfer = of;
  }
  if (!had_clocks_ || given_up_ || !ran_as_planned()) return computing;
  struct OfType {
    std::size_t spans = 0;
    Seconds took;
    Seconds swept;
  };
  std::array<OfType, kMostInstructionTypes> of_types{};
  for (const InstructionSpan& span : step_.spans) {
    OfType& one = of_types[span.type];
    const auto& planned_mhz = schedule_->clocks_mhz[span.type];
    if (one.spans >= planned_mhz.size()) continue;
    const Microbatches of = planned_microbatches(span.type, one.spans);
    const std::uint32_t mhz = planned_mhz[one.spans++];
    const Seconds swept = watch_.times()->at(span.type, clock_asked(mhz), of);
    if (!(swept > Seconds(0))) continue;
    one.took += to_seconds(span.end - span.begin);
    one.swept += swept;
  }
  OfType all;
  for (std::size_t type = 0; type < types_.count(); ++type) {
    const OfType& one = of_types[type];
    if (!(one.swept > Seconds(0))) continue;
    all.took += one.took;
    all.swept += one.swept;
    const double ratio = one.took / one.swept;
    if (ratio <= computing.of_type) continue;
    computing.of_type = ratio;
    computing.slowest = static_cast<int>(type);
  }
  if (all.swept > Seconds(0)) computing.of_all = all.took / all.swept;
  return computing;
}

// For the reporter's thread.
std::string Session::cause_of(const Computing& computing) const {
  PaceReport seen;
  find_cause(seen);
  if (seen.cause == PaceCause::kClockNotTaken) return "its clocks are not set: " + seen.detail;
  if (computing.transfer != PaceOf::kComputing) {
    return fmt::format("communication: {} takes {:.3g} times as long as in its profile", words_of(computing.transfer),
                       computing.of_transfer);
  }
  if (seen.cause == PaceCause::kThrottled) return "its GPU is throttled: " + seen.detail;
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
