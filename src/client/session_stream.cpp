// The calls of engines that run ahead of their GPU. What is set and measured happens on the device's timeline
// (device_timeline.h); everything else is as with the calls that take no stream. All of this is the training thread's.
#include <utility>

#include "base/monotonic_time.h"
#include "client/session_schedule.h"

namespace flyball {
DeviceTimeline& Session::timeline() {
  if (!timeline_) {
    timeline_ = std::make_unique<DeviceTimeline>(controller_.get(), options_.time_scale);
    begin_timeline(false);
  }
  return *timeline_;
}

// `other_clocks`: the steps before were not at the clocks of this one.
void Session::begin_timeline(bool other_clocks) {
  if (other_clocks && (sweeps() || !sets_clocks_)) timeline_->forget_clocks();
  timeline_->step_begin(late_at_ > 0 ? late_at_ - monotonic_now() : 0);
}

void Session::set_speed_in(std::string_view type, void* stream) {
  const std::uint32_t before_mhz = asked_mhz_;
  if (const auto clock = next_clock(type)) timeline().set(stream, *clock, watched_change(before_mhz));
}

void Session::set_next_speed_in(void* stream) {
  if (!sets_clocks_ || position_ >= schedule_->types.size()) return;
  set_speed_in(types_.name(schedule_->types[position_]), stream);
}

// A measured span's moments have the numbers 2 i and 2 i + 1. A time of 0 in the span stands for them. Where the driver
// refuses, nothing has begun.
void Session::begin_in(std::string_view type, void* stream) {
  const bool measured = measures_step();
  if (measured) (void)timeline();
  const std::uint16_t number = open(type);
  step_.spans.push_back({number, measured ? 0 : monotonic_now(), 0});
  asked_.push_back({.in_stream = true});
  const std::optional<std::size_t> begin =
      measured ? moment_number(kMeasuredMoments, 2 * step_.spans.size() - 2) : watched_moment(number);
  led_ = led_by(number);
  const bool wanted = is_wanted(number);
  if (!begin && !wanted && led_.mhz == 0) return;
  try {
    if (is_probed(step_.spans.size() - 1)) timeline_->set(stream, probe_request_->clock);
    if (begin) timeline_->note(stream, *begin);
    if (wanted) note_wanted(stream, 2 * step_.spans.size() - 2);
    if (led_.mhz > 0 && !timeline_->set_after(stream, Megahertz(led_.mhz), led_.later)) led_ = {};
  } catch (...) {
    if (!measured) noting_ = nullptr;
    step_.spans.pop_back();
    asked_.clear();
    open_type_.reset();
    throw;
  }
  if (begin && !measured) end_moment_ = *begin + moment_number(0, 1);
}

// What to ask for while a computation of the schedule runs that begins now, as the schedule says.
Session::Led Session::led_by(std::uint16_t type) const {
  if (!sets_clocks_ || sweeps() || !controller_) return {};
  const std::vector<std::uint16_t>& order = schedule_->types;
  if (position_ == 0 || position_ >= order.size() || order[position_ - 1] != type) return {};
  const Upcoming& after = upcoming_[order[position_]];
  const auto run = static_cast<std::size_t>(upcoming_[type].next - schedule_->clocks_mhz[type].data()) - 1;
  const int after_us = schedule_->next_clock_after_us[type][run];
  if (after_us < 0 || after.next == after.end || *after.next == 0) return {};
  const Seconds later(1e-6 * after_us / options_.time_scale);
  const ComputingTimes* times = watch_.times();
  const Seconds takes = times ? times->at(type, clock_asked(asked_mhz_), planned_microbatches(type, run)) : Seconds(0);
  return {*after.next, to_nanoseconds(later), to_nanoseconds(std::max(Seconds(0), takes - later))};
}

void Session::end_in(std::string_view type, void* stream) {
  close(type);
  const std::optional<std::size_t> watched = std::exchange(end_moment_, std::nullopt);
  if (measures_step()) {
    timeline().note(stream, moment_number(kMeasuredMoments, 2 * step_.spans.size() - 1));
    return;
  }
  step_.spans.back().end = monotonic_now();
  if (watched) timeline_->note(stream, *watched);
  if (is_wanted(step_.spans.back().type)) note_wanted(stream, 2 * step_.spans.size() - 1);
}

// Returns false where the GPU has not done all that was to be measured.
bool Session::fetch_moments() {
  for (std::size_t i = 0; i < step_.spans.size(); ++i) {
    InstructionSpan& span = step_.spans[i];
    if (span.begin == 0) span.begin = timeline_->moment(moment_number(kMeasuredMoments, 2 * i));
    if (span.end == 0) span.end = timeline_->moment(moment_number(kMeasuredMoments, 2 * i + 1));
    if (span.begin == 0 || span.end == 0) {
      outran_device_.store(true);
      return false;
    }
  }
  return true;
}

}  // namespace flyball
