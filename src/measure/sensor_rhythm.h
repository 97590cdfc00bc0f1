// Finds how often a sensor's value changes, from the moments at which it was seen to have changed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/units.h"

namespace flyball {

// Not thread-safe.
class SensorRhythm {
 public:
  // Takes in a reading, and whether the value had changed since the reading before.
  void add(Nanoseconds time, bool changed);

  [[nodiscard]] Nanoseconds period() const { return period_; }  // 0 while unknown
  // Whether nearly every reading brings a new value, so that the sensor is at least as fast as the sampling.
  [[nodiscard]] bool faster_than_sampling() const;
  [[nodiscard]] Nanoseconds usual_sampling() const { return usual_sampling_; }  // without the late ones
  // When the change that the latest reading showed should have happened; nothing while there is no rhythm.
  [[nodiscard]] std::optional<Nanoseconds> foretold() const { return foretold_; }
  // Sets the moment at which the latest change is taken to have happened.
  void date(Nanoseconds change);
  // The time until which a reading would only repeat the latest one, shortly before the next change. It lies in the
  // past where no steady rhythm tells it.
  [[nodiscard]] Nanoseconds quiet_until() const { return quiet_until_; }

 private:
  void find_period();
  void begin_run(Nanoseconds time);
  void rest(Nanoseconds error);

  static constexpr std::int64_t kSteady = 8;  // changes that kept the period
  static constexpr std::size_t kGaps = 16;
  std::array<Nanoseconds, kGaps> gaps_{};
  std::size_t gap_count_ = 0;
  std::uint32_t changed_ = 0;  // one bit per reading, the latest lowest
  std::uint32_t readings_ = 0;
  Nanoseconds last_reading_ = 0;
  Nanoseconds usual_sampling_ = 0;  // between two readings, without the late ones
  Nanoseconds last_change_ = 0;     // as seen; 0: none yet
  Nanoseconds period_ = 0;          // mean of the middle half of the gaps, or of a long steady run
  // The run of changes that kept the period, to know the period more finely than one gap tells it.
  Nanoseconds run_begin_ = 0;
  std::int64_t run_length_ = 0;
  Nanoseconds dated_ = 0;
  int misses_ = 0;  // changes in a row that came at another time than foretold
  std::optional<Nanoseconds> foretold_;
  Nanoseconds unsteadiness_ = 0;  // by how much changes missed the foretold time of late, about the largest
  Nanoseconds quiet_until_ = 0;
};

}  // namespace flyball
