// Whether this rank computes and transfers as fast as its profile says (step_watch.h). Only computations count that the
// schedule has, and of which it is known at which clocks they ran. Of an engine that runs ahead of its GPU, some spans
// of each step are noted in the stream; they are looked at when the GPU has come to them, which may be a step later.
// The training thread's, but for what finds the cause.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/monotonic_time.h"
#include "client/session_schedule.h"

namespace flyball {
namespace {

constexpr std::size_t kLongestDetail = 256;
constexpr int kLooks = 10;  // at what holds a device back, which comes and goes with its work
constexpr Seconds kBetweenLooks{0.02};

}  // namespace

std::vector<DriftedOperation> Session::drifted() const {
  std::vector<DriftedOperation> all;
  for (std::size_t type = 0; type < types_.count(); ++type) {
    const double ratio = watch_.drift(static_cast<std::uint16_t>(type));
    if (ratio > 0.0) all.push_back({types_.name(type), ratio});
  }
  return all;
}

void Session::ask_for(std::uint32_t mhz) {
  if (mhz == asked_mhz_) return;
  was_mhz_ = std::exchange(asked_mhz_, mhz);
  led_by_ = mhz == led_.mhz ? led_.by : 0;
  asked_at_ = monotonic_now() - led_by_;
}

// A span that has just begun runs at the clock that was asked for last, or soon will.
void Session::note_asked(const InstructionSpan& span) {
  if (watch_.times() == nullptr) return;
  asked_.push_back({false, asked_mhz_, was_mhz_, span.begin - asked_at_});
}

// A span of a type that is in no schedule, and is no transfer, may wait for others.
bool Session::tells_pace(std::uint16_t type) const {
  return watch_.times()->kind_of(type) != PaceOf::kComputing || !schedule_->clocks_mhz[type].empty();
}

// Of the schedule's computations of a type, which are for one microbatch each.
Microbatches Session::planned_microbatches(std::uint16_t type, std::size_t index) const {
  return microbatches_at(index, schedule_->clocks_mhz[type].size());
}

void Session::watch_pace() {
  if (watch_.times() == nullptr || !schedule_ || asked_.size() != step_.spans.size()) return;
  bool any = false;
  std::array<std::size_t, kMostInstructionTypes> done{};
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const InstructionSpan& span = step_.spans[i];
    const Asked& asked = asked_[i];
    const Microbatches of = planned_microbatches(span.type, done[span.type]++);
    if (asked.in_stream || !tells_pace(span.type)) continue;
    watch_.add(span.type, clock_asked(asked.mhz), clock_asked(asked.was_mhz), to_seconds(asked.ago),
               to_seconds(span.end - span.begin), of);
    any = true;
  }
  // What is in the stream is added when the GPU has come to it.
  if (any && noting_ == nullptr) watch_.step_end(step_count_);
}

void Session::begin_watching_stream() {
  watch_stream();
  const bool watched = timeline_ && watch_.times() != nullptr && schedule_ && has_server() && !measures_step();
  WatchedInStream& next = in_stream_[static_cast<std::size_t>(step_count_) % in_stream_.size()];
  noting_ = watched && next.step == 0 ? &next : nullptr;
  if (noting_ == nullptr) return;
  next.spans.clear();
  next.moments = 0;
  next.change.reset();
  watch_.step_begin();
}

// The number of the first of so many moments.
std::size_t Session::next_moment(std::size_t count) {
  const auto slot = static_cast<std::size_t>(noting_ - in_stream_.data());
  return moment_number(slot, std::exchange(noting_->moments, noting_->moments + count));
}

// Where the beginning of this span is to be noted, and its end behind it; nothing where it is not.
std::optional<std::size_t> Session::watched_moment(std::uint16_t type) {
  if (noting_ == nullptr || !tells_pace(type) || !watch_.wants(type)) return std::nullopt;
  noting_->spans.push_back({type, planned_microbatches(type, watch_.asked_for(type) - 1), clock_asked(asked_mhz_),
                            noting_->change, noting_->moments});
  return next_moment(2);
}

// Where it is to be noted that a clock is asked for in place of this one.
std::optional<std::size_t> Session::watched_change(std::uint32_t before_mhz) {
  if (noting_ == nullptr || asked_mhz_ == before_mhz) return std::nullopt;
  noting_->change = {noting_->moments, clock_asked(before_mhz), led_by_};
  return next_moment(1);
}

void Session::end_watching_stream() {
  if (WatchedInStream* const ended = std::exchange(noting_, nullptr)) ended->step = step_count_;
  watch_stream();
}

// Looks at what the GPU has come to by now, the older step first.
void Session::watch_stream() {
  const auto older = static_cast<std::size_t>(in_stream_[0].step > in_stream_[1].step);
  if (watch_stream(older)) (void)watch_stream(1 - older);
}

Nanoseconds Session::watched_at(std::size_t slot, std::size_t moment) const {
  return timeline_->moment(moment_number(slot, moment));
}

// Returns false where the GPU has not done the step.
bool Session::watch_stream(std::size_t slot) {
  WatchedInStream& one = in_stream_[slot];
  if (one.step == 0) return true;
  for (std::size_t i = 0; i < one.moments; ++i) {
    if (watched_at(slot, i) > 0) continue;
    if (step_count_ - one.step > kForgottenAfter) one.step = 0;
    return false;
  }
  const std::int64_t step = std::exchange(one.step, 0);
  if (watch_.times() == nullptr) return true;
  for (const WatchedInStream::Span& span : one.spans) {
    const Nanoseconds begin = watched_at(slot, span.begin);
    const Seconds time = to_seconds(watched_at(slot, span.begin + 1) - begin);
    if (!span.change) {
      watch_.add(span.type, span.clock, time, span.of);
      continue;
    }
    const Seconds since = to_seconds(begin - watched_at(slot, span.change->moment) + span.change->led);
    watch_.add(span.type, span.clock, span.change->before, since, time, span.of);
  }
  watch_.step_end(step);
  return true;
}

// Under the mutex. Returns whether there is news for the server.
bool Session::hand_over_pace() {
  bool any = false;
  const bool drifts = watch_.take_drifts();
  for (const PaceOf of : values_of<PaceOf>()) {
    const auto change = watch_.take_change(of);
    const bool with_drifts = drifts && of == PaceOf::kComputing;
    if (!change && !with_drifts) continue;
    PaceNews& news = news_of(of);
    if (!news.report) news.report = PaceReport{.rank = options_.rank.rank, .of = of};
    if (change) {
      news.report->slowdown = change->slowdown;
      news.report->since = change->since;
    }
    if (with_drifts) {
      news.report->operations = drifted();
      news.report->step = step_count_;
    }
    any = news.due = true;
  }
  return any;
}

// "p2p to stage 2".
std::string Session::words_of(PaceOf transfer) const {
  const std::string name(name_of(transfer));
  if (transfer == PaceOf::kReduction) return name + " among the pipelines";
  const int stages = std::max(1, options_.job.stages);
  const int to = options_.rank.pp_rank + (transfer == PaceOf::kTransfer ? 1 : stages - 1);
  return fmt::format("{} to stage {}", name, to % stages);
}

// The reporter's.
void Session::find_cause(PaceReport& report) const {
  if (report.of != PaceOf::kComputing) {
    report.cause = PaceCause::kCommunication;
    return;
  }
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
  const bool computes = report.of == PaceOf::kComputing;
  const bool slow = report.slowdown > 1.0;
  const double told = std::exchange(told_slowdowns_[static_cast<std::size_t>(report.of)], report.slowdown);
  if (told > 1.0 && !slow) {
    notice(computes ? "this rank computes as fast as usual again"
                    : words_of(report.of) + " takes no longer than usual again");
  }
  if (!slow && report.operations.empty()) {
    if (computes) told_drifts_ = 0;
    return send_pace(report);
  }
  find_cause(report);
  send_pace(report);
  for (int i = 0; i < kLooks && report.cause == PaceCause::kComputation && sleep(kBetweenLooks); ++i) {
    find_cause(report);
    if (report.cause != PaceCause::kComputation) send_pace(report);
  }
  if (!computes) {
    if (report.slowdown == told) return;
    return notice(fmt::format("communication: {} takes {:.3g} times as long as when it was profiled, since step {}",
                              words_of(report.of), report.slowdown, report.since));
  }
  const bool more = report.operations.size() > std::exchange(told_drifts_, report.operations.size());
  for (const DriftedOperation& one : report.operations) {
    if (!more) break;
    notice(fmt::format("{} takes {:.3g} times as long as in its profile: {}{}{}", one.instruction, one.ratio,
                       name_of(report.cause), report.detail.empty() ? "" : ", ", report.detail));
  }
  if (!slow || report.slowdown == told) return;
  notice(fmt::format("this rank computes {:.3g} times as long as it did when it was profiled, since step {}: {}{}{}",
                     report.slowdown, report.since, name_of(report.cause), report.detail.empty() ? "" : ", ",
                     report.detail));
}

}  // namespace flyball
