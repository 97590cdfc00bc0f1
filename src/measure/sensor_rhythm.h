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

  // Plans the next reading of a sensor that is dear to read, after each reading, and returns when that is due: once for
  // about `interval` (0: for the next change, as of other sensors), a quarter of a period after a change, since reading
  // may take longer while the sensor is being renewed. Several changes are then told by one reading and dated by the
  // rhythm. The change itself is looked for again whenever the run of changes has become twice as long (at first, half
  // as long again), and every kMostUnseen changes, so that the rhythm is known more and more finely and a drift is
  // followed. While no rhythm is known, the time that is returned lies in the past.
  [[nodiscard]] Nanoseconds plan(Nanoseconds interval);
  // Returns whether readings are planned so that they see no change happen.
  [[nodiscard]] bool sparse() const { return sparse_; }
  // When a reading planned so tells of the first change after `time`, or after the latest that is known of.
  [[nodiscard]] Nanoseconds told_of(Nanoseconds time) const;
  // How well the times of changes that nobody saw are known; about.
  [[nodiscard]] Nanoseconds uncertainty() const;
  // Returns false for a reading at about the time of a change, of which nobody can say whether it has seen that change
  // if several may have happened since the reading before. `took` is how long it took, with `time` in the middle.
  [[nodiscard]] bool tells_which(Nanoseconds time, Nanoseconds took) const;

  [[nodiscard]] Nanoseconds period() const { return period_; }  // 0 while unknown
  // Whether nearly every reading brings a new value, so that the sensor is at least as fast as the sampling.
  [[nodiscard]] bool faster_than_sampling() const;
  [[nodiscard]] Nanoseconds usual_sampling() const { return usual_sampling_; }  // without the late ones
  // When the change that the latest reading showed should have happened; nothing while there is no rhythm.
  [[nodiscard]] std::optional<Nanoseconds> foretold() const { return foretold_; }
  // Sets the moment at which the latest change is taken to have happened.
  void date(Nanoseconds change);

 private:
  void find_period();
  void begin_run(Nanoseconds time);
  void rest(Nanoseconds error);

  static constexpr std::int64_t kSteady = 8;        // changes that kept the period
  static constexpr std::int64_t kMostUnseen = 512;  // changes between two looks at one
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
  bool sparse_ = false;
  bool was_sparse_ = false;     // since a change was seen to happen, between two readings one after the other
  bool seen_ = false;           // the latest change was
  std::int64_t looked_at_ = 0;  // run_length_ at the last such change
  Nanoseconds moved_ = 0;       // by how much later than foretold changes have come since
  std::optional<Nanoseconds> foretold_;
  Nanoseconds unsteadiness_ = 0;  // by how much changes missed the foretold time of late, about the largest
  // Shortly before the next change: until then a reading would only repeat the latest one. It lies in the past where no
  // steady rhythm tells it.
  Nanoseconds quiet_until_ = 0;
};

}  // namespace flyball
