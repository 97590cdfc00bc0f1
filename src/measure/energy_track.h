// The readings of one meter over time, and the energy of any interval among them.
//
// Problem: a device's energy counter is a staircase. It changes every 20 to 100 ms, while we read it every few
// milliseconds and are asked for intervals that begin and end at any time.
//
// Idea, in three steps.
// 1. Knots. Only changes of the counter carry news. A change seen at reading t happened since the reading before, so it
//    is dated between the two: in the middle at first (half a sampling period late otherwise, always the same way), and
//    where the sensor keeps a steady period, at the moment its own rhythm foretells, held within those two readings.
// 2. Between knots energy runs linearly, except where power has jumped: if the mean powers of the steps before and
//    after differ and the step between lies between them, the moment of the one jump follows from the three energies
//    (subcell resolution: Harten, "ENO schemes with subcell resolution", J. Comput. Phys. 83, 1989). Energy is
//    conserved and adjoining intervals add up.
//    Where the device has a record of its power, the counter's step is divided by that record's integral instead, which
//    makes knots between: the counter says how much energy there was, the record when.
// 3. Where no counter answers, power is integrated by trapezoids, dated back by half the sensor's period, since a
//    reading stands that long on average.
//
// What cannot be known here is the sensor's averaging window, the time over which it measured what it shows. A sensor
// that shows the mean of the last W seconds shifts everything to W/2 later, which matters only at the edges of short
// intervals: the error is W/2 times the change of power there.
//
// Not thread-safe: Sampler locks. add() allocates nothing and is O(1), except at the one reading at which a counter is
// found to stand still.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "measure/sampler.h"
#include "measure/sensor_rhythm.h"

namespace flyball {

// The last `capacity` items, oldest first.
template <class Item>
class Ring {
 public:
  explicit Ring(std::size_t capacity) : items_(capacity) {}

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] const Item& operator[](std::size_t i) const { return items_[slot(i)]; }
  [[nodiscard]] Item& operator[](std::size_t i) { return items_[slot(i)]; }
  [[nodiscard]] const Item& back() const { return (*this)[size_ - 1]; }
  [[nodiscard]] Item& back() { return (*this)[size_ - 1]; }

  void clear() { size_ = 0; }
  void push(const Item& item) {
    if (size_ < items_.size()) {
      items_[slot(size_++)] = item;
      return;
    }
    items_[first_] = item;
    if (++first_ == items_.size()) first_ = 0;
  }

  // Returns how many items are at or before `time`.
  [[nodiscard]] std::size_t count_until(Nanoseconds time) const {
    std::size_t low = 0;
    std::size_t high = size_;
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if ((*this)[middle].time <= time) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

 private:
  [[nodiscard]] std::size_t slot(std::size_t i) const {
    const std::size_t at = first_ + i;
    return at < items_.size() ? at : at - items_.size();
  }

  std::vector<Item> items_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

class EnergyTrack {
 public:
  // `period` is how often add() is going to be called.
  EnergyTrack(Nanoseconds period, std::size_t capacity);

  // `time`, the middle of a reading that took so long, must be later than at the previous call.
  void add(Nanoseconds time, const MeterReading& reading, Nanoseconds took = 0);

  [[nodiscard]] IntervalEnergy energy_between(Nanoseconds begin, Nanoseconds end) const;
  // Returns whether no later reading can change what energy_between() says up to `time`.
  [[nodiscard]] bool settled(Nanoseconds time) const;
  // Plans the next reading (SensorRhythm::plan), and returns the time before which one would bring nothing new, or too
  // little for a counter that is dear to read. Readings may come all the same.
  [[nodiscard]] Nanoseconds plan(Nanoseconds interval = 0) {
    return source_ == EnergySource::kCounter ? rhythm_.plan(interval) : 0;
  }
  [[nodiscard]] bool sparse() const { return source_ == EnergySource::kCounter && rhythm_.sparse(); }
  // While sparse(): returns when, after `now`, a reading brings what settled(time) waits for, or a part of it.
  [[nodiscard]] Nanoseconds told_of(Nanoseconds time, Nanoseconds now) const {
    return rhythm_.told_of(std::max(time - rhythm_.uncertainty(), now - rhythm_.period() / 8));
  }

  // Returns whether the counter changes at every reading although it is read every period. If it is read less often,
  // such a counter tells as much, only later. Where readings were further apart, this cannot be told.
  [[nodiscard]] bool finer_than_period() const {
    return changes_at_every_reading() && rhythm_.usual_sampling() < period_ + period_ / 2;
  }
  [[nodiscard]] bool changes_at_every_reading() const {
    return source_ == EnergySource::kCounter && rhythm_.faster_than_sampling();
  }

  [[nodiscard]] EnergySource source() const { return source_; }
  [[nodiscard]] Seconds sensor_period() const { return to_seconds(rhythm_.period()); }
  [[nodiscard]] std::optional<PowerSample> latest() const;
  [[nodiscard]] std::vector<PowerSample> samples_since(Nanoseconds after) const;
  [[nodiscard]] std::vector<PowerSample> changes_since(Nanoseconds after) const;

 private:
  struct Knot {
    Nanoseconds time = 0;
    double joules = 0.0;
  };
  struct OtherSource {  // when energy last came from power
    EnergySource source = EnergySource::kCounter;
    Nanoseconds begin = 0;
    Nanoseconds end = 0;  // 0: still
  };

  void begin(Nanoseconds time, const MeterReading& reading);
  void follow_counter(Nanoseconds time, Joules total, const std::vector<TimedPower>& shape);
  void divide_step(Nanoseconds change, const std::vector<TimedPower>& shape);
  void integrate(Nanoseconds time, double watts_before);
  [[nodiscard]] bool frozen(Nanoseconds time) const;
  void integrate_since_last_change(EnergySource source);
  void return_to_counter(Nanoseconds time, Joules total);
  void push_knot(Nanoseconds time);
  [[nodiscard]] double slope_at_end() const;  // W; NaN while unknown

  [[nodiscard]] double joules_at(Nanoseconds time) const;
  [[nodiscard]] double joules_within(std::size_t knot, Nanoseconds time) const;
  [[nodiscard]] double slope(std::size_t knot) const;  // W, from this knot to the next
  [[nodiscard]] double peak_between(Nanoseconds begin, Nanoseconds end) const;

  Nanoseconds period_;
  Ring<PowerSample> samples_;
  Ring<Knot> knots_;
  SensorRhythm rhythm_;
  EnergySource source_ = EnergySource::kCounter;
  OtherSource other_;
  Nanoseconds time_ = 0;         // of the latest reading
  Nanoseconds change_time_ = 0;  // when the counter was last seen to change
  Nanoseconds step_ = 0;         // between the last two changes that were dated
  double joules_ = 0.0;          // since the first reading
  double base_joules_ = 0.0;     // joules_ at the moment when the counter stood at base_total_
  std::optional<Joules> base_total_;
  Joules total_;        // the counter's latest value
  double watts_ = 0.0;  // the device's latest power
  bool knows_watts_ = false;
  bool first_knot_is_a_change_ = false;
};

}  // namespace flyball
