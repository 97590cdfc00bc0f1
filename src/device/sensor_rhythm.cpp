#include <algorithm>
#include <bit>
#include <cstdlib>

#include "device/energy_track.h"

namespace flyball {

void SensorRhythm::add(Nanoseconds time, bool changed) {
  changed_ = changed_ << 1 | static_cast<std::uint32_t>(changed);
  readings_ = std::min<std::uint32_t>(readings_ + 1, 32);
  const Nanoseconds sampling = time - last_reading_;
  last_reading_ = time;
  foretold_.reset();
  if (!changed) return;
  if (last_change_ != 0) {
    const Nanoseconds gap = time - last_change_;
    gaps_[gap_count_++ % kGaps] = gap;
    find_period();
    // A change is seen up to one reading late, so a steady sensor's gaps differ by as much.
    if (period_ != 0 && std::abs(gap - period_) <= period_ / 4 + sampling) {
      ++run_length_;
    } else {
      run_begin_ = time;
      run_length_ = 0;
    }
    constexpr std::int64_t kSteady = 8;
    constexpr std::int64_t kLongest = 1024;  // so that a clock that drifts against ours is followed
    if (run_length_ >= kSteady) {
      period_ = (time - run_begin_) / run_length_;
      foretold_ = dated_ + period_;
    }
    if (run_length_ >= kLongest) {
      run_begin_ += (time - run_begin_) / 2;
      run_length_ /= 2;
    }
  }
  last_change_ = time;
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
