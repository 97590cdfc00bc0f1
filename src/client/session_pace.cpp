// Whether this rank computes as fast as its profile says: each step's computations are added up, and what the profile
// says for the clocks that were asked for. Only computations count that the schedule has and that began when the clock
// had long been asked for. The training thread's, but for what finds the cause.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
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
}

// A span that has just begun runs at the clock that was asked for last.
void Session::note_asked(const InstructionSpan& span, bool measured) {
  if (!times_) return;
  if (asked_mhz_ != begun_mhz_) {
    begun_mhz_ = asked_mhz_;
    begun_since_ = span.begin;
  }
  const bool settled = measured && to_seconds(span.begin - begun_since_) >= times_->settling();
  asked_.push_back(settled ? static_cast<std::int32_t>(asked_mhz_) : -1);
}

void Session::watch_pace() {
  if (!times_ || !schedule_ || asked_.size() != step_.spans.size()) return;
  Seconds measured;
  Seconds expected;
  Seconds all;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const InstructionSpan& span = step_.spans[i];
    if (schedule_->clocks_mhz[span.type].empty()) continue;  // it may wait for others
    const Seconds time = to_seconds(span.end - span.begin);
    all += time;
    if (asked_[i] < 0) continue;
    const Seconds usual = times_->at(span.type, asked_[i] > 0 ? Megahertz(asked_[i]) : clocks_.front());
    if (!(usual > Seconds(0))) continue;
    measured += time;
    expected += usual;
  }
  if (!(expected > Seconds(0)) || measured < kLeastCounted * all) return;
  if (const auto change = pace_.count(step_count_, measured, expected)) pace_change_ = change;
}

// Under the mutex. Returns whether there is news for the server.
bool Session::hand_over_pace() {
  if (!pace_change_) return false;
  pace_report_ = PaceReport{options_.rank.rank, pace_change_->slowdown, pace_change_->since, PaceCause::kUnknown, {}};
  pace_change_.reset();
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
  if (!(report.slowdown > 1.0)) {
    send_pace(report);
    return notice("this rank computes as fast as usual again");
  }
  find_cause(report);
  send_pace(report);
  for (int i = 0; i < kLooks && report.cause == PaceCause::kComputation && sleep(kBetweenLooks); ++i) {
    find_cause(report);
    if (report.cause != PaceCause::kComputation) send_pace(report);
  }
  notice(fmt::format("this rank computes {:.3g} times as long as it did when it was profiled, since step {}: {}{}{}",
                     report.slowdown, report.since, name_of(report.cause), report.detail.empty() ? "" : ", ",
                     report.detail));
}

}  // namespace flyball
