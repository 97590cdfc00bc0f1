// Whether this rank computes as fast as its profile says: each step's computations are added up, and what the profile
// says for the clocks that were asked for. Only computations count that the schedule has and that began when the clock
// had long been asked for. The training thread's, but for what finds the cause.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/monotonic_time.h"
#include "client/session_schedule.h"

namespace flyball {
namespace {

constexpr double kLeastCounted = 0.05;  // share of the computations that tell how fast all are
constexpr std::size_t kLongestDetail = 256;
constexpr int kLooks = 10;  // at what holds a device back, which comes and goes with its work
constexpr Seconds kBetweenLooks{0.02};

}  // namespace

void Session::adopt_times(const std::shared_ptr<const ComputingTimes>& times) {
  if (times == times_) return;
  times_ = times;
  if (pace_.is_slow()) pace_change_ = PaceWatch::Change{1.0, step_count_};  // by the old profile
  pace_.begin_anew();
  if (!drifted().empty()) drift_due_ = true;
  drift_.begin_anew();
}

std::vector<DriftedOperation> Session::drifted() const {
  std::vector<DriftedOperation> all;
  for (std::size_t type = 0; type < types_.count(); ++type) {
    const double ratio = drift_.drift(static_cast<std::uint16_t>(type));
    if (ratio > 0.0) all.push_back({types_.name(type), ratio});
  }
  return all;
}

void Session::ask_for(std::uint32_t mhz) {
  if (mhz == asked_mhz_) return;
  was_mhz_ = std::exchange(asked_mhz_, mhz);
  asked_at_ = monotonic_now();
}

// A span that has just begun runs at the clock that was asked for last, or soon will.
void Session::note_asked(const InstructionSpan& span, bool measured) {
  if (!times_) return;
  if (asked_mhz_ != begun_mhz_) {
    begun_mhz_ = asked_mhz_;
    begun_since_ = span.begin;
  }
  const bool settled = measured && to_seconds(span.begin - begun_since_) >= times_->settling();
  asked_.push_back({measured, settled, asked_mhz_, was_mhz_, span.begin - asked_at_});
}

void Session::watch_pace() {
  if (!times_ || !schedule_ || asked_.size() != step_.spans.size()) return;
  struct Sums {
    Seconds measured;
    Seconds expected;
    std::size_t counted = 0;
    std::size_t spans = 0;
  };
  std::array<Sums, kMostInstructionTypes> of_types{};
  Seconds measured;
  Seconds expected;
  Seconds all;
  const auto clock_of = [&](std::uint32_t mhz) { return mhz > 0 ? Megahertz(mhz) : clocks_.front(); };
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const InstructionSpan& span = step_.spans[i];
    if (schedule_->clocks_mhz[span.type].empty()) continue;  // it may wait for others
    const Seconds time = to_seconds(span.end - span.begin);
    const Asked& asked = asked_[i];
    Sums& sums = of_types[span.type];
    all += time;
    ++sums.spans;
    if (!asked.measured) continue;
    const Megahertz clock = clock_of(asked.mhz);
    const Seconds usual = asked.settled
                              ? times_->at(span.type, clock)
                              : times_->after_change(span.type, clock_of(asked.was_mhz), clock, to_seconds(asked.ago));
    if (!(usual > Seconds(0))) continue;
    ++sums.counted;
    sums.measured += time;
    sums.expected += usual;
    if (!asked.settled) continue;
    measured += time;
    expected += usual;
  }
  for (std::size_t type = 0; type < types_.count(); ++type) {
    const Sums& sums = of_types[type];
    // Microbatches differ, such as the first backward from the others, and a few of them do not stand for all.
    if (sums.counted == 0 || 2 * sums.counted < sums.spans) continue;
    if (drift_.count(static_cast<std::uint16_t>(type), sums.measured, sums.expected)) drift_due_ = true;
  }
  if (!(expected > Seconds(0)) || measured < kLeastCounted * all) return;
  if (const auto change = pace_.count(step_count_, measured, expected)) pace_change_ = change;
}

// Under the mutex. Returns whether there is news for the server.
bool Session::hand_over_pace() {
  if (!pace_change_ && !drift_due_) return false;
  if (!pace_report_) pace_report_.emplace();
  PaceReport& report = *pace_report_;
  report.rank = options_.rank.rank;
  if (pace_change_) {
    report.slowdown = pace_change_->slowdown;
    report.since = pace_change_->since;
  }
  if (drift_due_) {
    report.operations = drifted();
    report.step = step_count_;
  }
  pace_change_.reset();
  drift_due_ = false;
  return pace_due_ = true;
}

// The reporter's.
void Session::find_cause(PaceReport& report) const {
  report.cause = PaceCause::kComputation;
  if (const auto clocks = controller_ ? controller_->state() : ClockControllerState(); !clocks.working) {
    report.cause = PaceCause::kClockNotTaken;
    report.detail = clocks.failure;
  } else if (held_back_) {
    try {
      report.detail = held_back_();
    } catch (const Error&) {
      return;  // a driver that does not tell
    }
    if (!report.detail.empty()) report.cause = PaceCause::kThrottled;
  }
  report.detail.resize(std::min(report.detail.size(), kLongestDetail));
}

// The server is told at once, and again if the cause is seen later.
void Session::tell_pace(PaceReport report) {
  const double told = std::exchange(told_slowdown_, report.slowdown);
  const bool recovered = told > 1.0 && !(report.slowdown > 1.0);
  if (recovered) notice("this rank computes as fast as usual again");
  if (!(report.slowdown > 1.0) && report.operations.empty()) {
    told_drifts_ = 0;
    return send_pace(report);
  }
  find_cause(report);
  send_pace(report);
  for (int i = 0; i < kLooks && report.cause == PaceCause::kComputation && sleep(kBetweenLooks); ++i) {
    find_cause(report);
    if (report.cause != PaceCause::kComputation) send_pace(report);
  }
  const bool more = report.operations.size() > std::exchange(told_drifts_, report.operations.size());
  for (const DriftedOperation& one : report.operations) {
    if (!more) break;
    notice(fmt::format("{} takes {:.3g} times as long as in its profile: {}{}{}", one.instruction, one.ratio,
                       name_of(report.cause), report.detail.empty() ? "" : ", ", report.detail));
  }
  if (!(report.slowdown > 1.0) || report.slowdown == told) return;
  notice(fmt::format("this rank computes {:.3g} times as long as it did when it was profiled, since step {}: {}{}{}",
                     report.slowdown, report.since, name_of(report.cause), report.detail.empty() ? "" : ", ",
                     report.detail));
}

}  // namespace flyball
