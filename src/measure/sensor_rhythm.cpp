// The period is at first the mean of the middle half of the last 16 gaps between changes. Once eight changes in a row
// have kept it, it is the mean over that whole run, halved in weight when it is long. From a steady period follow when
// the latest change happened and how long reading can rest; four foretold times missed in a row begin a new run.
#include "measure/sensor_rhythm.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

namespace flyball {

void SensorRhythm::add(Nanoseconds time, bool changed) {
  if (!sparse_) {
    changed_ = changed_ << 1 | static_cast<std::uint32_t>(changed);
    readings_ = std::min<std::uint32_t>(readings_ + 1, 32);
  }
  const bool rested = last_reading_ < quiet_until_;
  const Nanoseconds sampling = std::max<Nanoseconds>(0, time - std::max(last_reading_, quiet_until_));
  if (last_reading_ != 0 && !rested && !sparse_)
    usual_sampling_ += (std::min(sampling, 2 * usual_sampling_ + 1'000'000) - usual_sampling_) / 8;
  last_reading_ = time;
  foretold_.reset();
  seen_ = false;
  if (!changed) return;
  if (last_change_ != 0) {
    const Nanoseconds gap = time - last_change_;
    if (!sparse_) gaps_[gap_count_++ % kGaps] = gap;
    if (run_length_ >= kSteady) {
      // A reading that came late may find several steps at once; how many, the rhythm itself tells.
      const bool late = sparse_ || (sampling > 4 * usual_sampling_ && period_ > 2 * usual_sampling_);
      const Nanoseconds early = sparse_ ? 0 : period_ / 32;  // tells_which()
      const std::int64_t steps = late ? std::max<std::int64_t>(1, (time - dated_ + early) / period_) : 1;
      run_length_ += steps;
      foretold_ = dated_ + steps * period_;
      if (!late) period_ = (time - run_begin_) / run_length_;
      seen_ = !late && !rested;
      constexpr std::int64_t kLongest = 1024;  // so that a clock that drifts against ours is followed
      if (run_length_ >= kLongest && !late) {
        const std::int64_t forgotten = run_length_ / 2;
        run_begin_ += forgotten * period_;
        run_length_ -= forgotten;
        looked_at_ -= forgotten;
      }
    } else {
      find_period();
      // A change is seen up to one reading late, so a steady sensor's gaps differ by as much.
      if (period_ != 0 && std::abs(gap - period_) <= period_ / 4 + std::min(sampling, 2 * usual_sampling_)) {
        ++run_length_;
      } else {
        begin_run(time);
      }
    }
  }
  last_change_ = time;
}

void SensorRhythm::date(Nanoseconds change) {
  dated_ = change;
  if (!foretold_) return;
  constexpr int kMostMisses = 4;
  const Nanoseconds error = std::abs(change - *foretold_);
  misses_ = error > period_ / 4 ? misses_ + 1 : 0;
  if (misses_ >= kMostMisses) return begin_run(last_change_);  // the sensor has another rhythm now
  if (!sparse_) moved_ += change - *foretold_;
  if (seen_) {
    // After a jump of its phase the mean over the run would be no period. A short run's is not known so well.
    constexpr std::int64_t kLongRun = 64;
    const bool jumped = std::exchange(was_sparse_, false) && std::abs(moved_) > period_ / 8;
    if (jumped && looked_at_ >= kLongRun) return begin_run(last_change_);
    looked_at_ = run_length_;
    moved_ = 0;
  }
  rest(error);
}

void SensorRhythm::rest(Nanoseconds error) {
  unsteadiness_ = std::max(error, unsteadiness_ - unsteadiness_ / 16);
  // The last reading before the change has to see the old value, or the time of the change would be known less well.
  const Nanoseconds guard = usual_sampling_ + usual_sampling_ / 4 + 2 * unsteadiness_;
  quiet_until_ = misses_ == 0 && !faster_than_sampling() ? dated_ + period_ - guard : 0;
}

Nanoseconds SensorRhythm::plan(Nanoseconds interval) {
  const bool steady = run_length_ >= kSteady && misses_ == 0 && !faster_than_sampling();
  const std::int64_t unseen = run_length_ - looked_at_;
  // A short run's period is known so badly that changes are foretold for no longer than half of the run.
  constexpr std::int64_t kShortRun = 32;
  const std::int64_t may_go_unseen = std::max(kSteady, looked_at_) / (looked_at_ < kShortRun ? 2 : 1);
  sparse_ = interval > 0 && steady && unseen < std::min(may_go_unseen, kMostUnseen);
  if (!sparse_) return quiet_until_;
  was_sparse_ = true;
  const Nanoseconds changes = std::max<Nanoseconds>(1, (interval + period_ - 1) / period_);
  return told_of(dated_ + (changes - 1) * period_);
}

Nanoseconds SensorRhythm::told_of(Nanoseconds time) const {
  const Nanoseconds changes = std::max<Nanoseconds>(0, time - dated_) / period_ + 1;
  return dated_ + changes * period_ + period_ / 4;
}

Nanoseconds SensorRhythm::uncertainty() const { return std::min(period_ / 8, usual_sampling_ / 2 + unsteadiness_); }

bool SensorRhythm::tells_which(Nanoseconds time, Nanoseconds took) const {
  const Nanoseconds margin = uncertainty() + took / 2;
  return !sparse_ || (time - dated_ + margin) % period_ >= 2 * margin;
}

void SensorRhythm::begin_run(Nanoseconds time) {
  run_begin_ = time;
  run_length_ = 0;
  looked_at_ = 0;
  moved_ = 0;
  misses_ = 0;
  quiet_until_ = 0;
}

void SensorRhythm::find_period() {
  constexpr std::size_t kFewest = 4;
  if (gap_count_ < kFewest) return;
  std::array<Nanoseconds, kGaps> sorted = gaps_;
  const std::size_t count = std::min(gap_count_, kGaps);
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count));
  Nanoseconds sum = 0;
  const std::size_t begin = count / 4;
  const std::size_t end = count - begin;
  for (std::size_t i = begin; i < end; ++i) sum += sorted[i];
  period_ = sum / static_cast<Nanoseconds>(end - begin);
}

bool SensorRhythm::faster_than_sampling() const {
  return readings_ >= 8 && static_cast<std::uint32_t>(std::popcount(changed_)) * 16 > readings_ * 15;
}

}  // namespace flyball
