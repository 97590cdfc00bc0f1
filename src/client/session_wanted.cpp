// Steps by plan whose times the server wants now and then (RankSchedule::measured_every). Nobody waits for the GPU, and
// nothing else of the session looks at these moments: plan, promise and the watch of the rank's pace go on as if the
// step were any other. Where calls tell the moments, a report is what the session has noted anyway. In a stream each
// computation takes two events more, of some microseconds, and the report is made when the GPU has come to the last,
// which may be a step later. All of this is the training thread's.
#include <utility>

#include "client/session_schedule.h"

namespace flyball {

void Session::begin_wanted() {
  wanted_noted_ = 0;
  const std::int64_t every = sets_clocks_ && has_server() && !sweeps() ? schedule_->plan.measured_every : 0;
  // All ranks count steps alike, so that all want the same. A step that the GPU has not done yet keeps its moments.
  wants_times_ = every > 0 && (step_count_ + 1) % every == 0 && !noted_step_ && !schedule_->plan.report_steps;
}

// Whether a computation of that type is noted in a stream where it is put into one.
bool Session::is_wanted(std::uint16_t type) const {
  return wants_times_ && sets_clocks_ && !schedule_->clocks_mhz[type].empty();
}

void Session::note_wanted(void* stream, std::size_t number) {
  timeline().note(stream, moment_number(kWantedMoments, number));
  ++wanted_noted_;
}

// The step that has just ended, or the one before whose moments have come.
std::optional<StepReport> Session::wanted_step() {
  if (!std::exchange(wants_times_, false) || !sets_clocks_ || !ran_as_planned()) return noted_step();
  StepReport report = times_of_step(schedule_->plan.version);
  if (wanted_noted_ < 2 * report.begin.size() || report.begin.empty()) return report;
  NotedStep noted{std::move(report), step_.begin, {}};
  noted.report.clock = StepClock::kDevice;
  for (std::size_t i = 0; i < step_.spans.size(); ++i) {
    if (!schedule_->clocks_mhz[step_.spans[i].type].empty()) noted.spans.push_back(i);
  }
  noted_step_ = std::move(noted);
  return noted_step();
}

std::optional<StepReport> Session::noted_step() {
  if (!noted_step_) return std::nullopt;
  const auto moment = [this](std::size_t i, std::size_t end) {
    return timeline_->moment(moment_number(kWantedMoments, 2 * noted_step_->spans[i] + end));
  };
  StepReport& report = noted_step_->report;
  // The last is asked for first: while it has not come, there is no use in asking the driver for all others.
  for (std::size_t left = report.begin.size(); left-- > 0;) {
    const Nanoseconds begin = moment(left, 0);
    const Nanoseconds end = moment(left, 1);
    if (begin == 0 || end == 0) {
      if (step_count_ - report.step > kForgottenAfter) noted_step_.reset();
      return std::nullopt;
    }
    report.begin[left] = to_seconds(begin - noted_step_->origin) * options_.time_scale;
    report.end[left] = to_seconds(end - noted_step_->origin) * options_.time_scale;
  }
  return std::exchange(noted_step_, std::nullopt)->report;
}

}  // namespace flyball
