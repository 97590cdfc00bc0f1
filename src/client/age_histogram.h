// Counts how old settings were when they took hold, in buckets of rising width, so that percentiles of any number of
// ages take a kilobyte of memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace flyball {

// A copyable value, not thread-safe. Buckets are eighths of an octave from 1 us on, so that a percentile is at most 9 %
// above the true one.
class AgeHistogram {
 public:
  void record(Nanoseconds age);  // a negative age counts as 0

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] Nanoseconds largest() const { return largest_; }
  // Returns the age that `share` of the settings, in (0, 1], did not exceed; 0 while there are none.
  [[nodiscard]] Nanoseconds percentile(double share) const;

 private:
  static constexpr std::size_t kPerOctave = 8;
  static constexpr std::size_t kBuckets = 28 * kPerOctave;  // up to 2^28 us, about four and a half minutes

  std::array<std::uint32_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  Nanoseconds largest_ = 0;
};

}  // namespace flyball
