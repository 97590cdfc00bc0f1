// A counter that is dear to read: how seldom it is read, and what is known of it all the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/monotonic_time.h"
#include "measure/energy_track.h"
#include "measure/sampler.h"
#include "support/staircase.h"

namespace flyball::testing {
namespace {

constexpr Nanoseconds kGrid = 4 * kMillisecond;
constexpr Nanoseconds kSensor = 100 * kMillisecond;
constexpr Nanoseconds kInterval = 450 * kMillisecond;  // for which a rhythm of 100 ms gives every fifth change

double two_hundred_watts(double t) { return 200.0 * t; }

// Reads a counter of true energies `energy` as the sampler does, on a grid of 4 ms with jitter, from 1 s on.
struct DearReading {
  std::function<Joules(Nanoseconds)> counter;
  EnergyTrack track{kGrid, 15'000};
  std::mt19937 random{1};
  Nanoseconds grid = kSecond;
  std::vector<Nanoseconds> readings{};

  void read_at(Nanoseconds time) {
    readings.push_back(time);
    track.add(time, {std::nullopt, counter(time)});
  }
  void go_on_until(Nanoseconds end) {
    std::uniform_int_distribution<Nanoseconds> jitter(0, kGrid / 8);
    for (Nanoseconds due = 0; grid < end; grid += kGrid) {
      if (grid < due) continue;
      read_at(grid + jitter(random));
      due = track.plan(kInterval);
    }
  }
  [[nodiscard]] std::size_t readings_in(Nanoseconds begin, Nanoseconds end) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(readings, [&](Nanoseconds time) { return begin <= time && time < end; }));
  }
};

DearReading reading_of(const StaircaseSensor& sensor) {
  return {[sensor](Nanoseconds t) { return sensor.counter(t); }};
}

// Thirteen changes of 100 ms find the rhythm (four gaps, of which no rhythm is known, and eight that keep it): 1.3 s,
// 325 readings. From then on a minute has 120 readings, one for five changes, and looks of up to ten readings each. The
// run is 17 changes long at 3 s and 617 at 63 s. It grows by half from look to look until 40 changes, and then doubles:
// 6 or 7 looks in the first minute, and one or two in the next.
TEST(DearCounter, IsReadOncePerSeveralChanges) {
  DearReading dear = reading_of(StaircaseSensor(two_hundred_watts, kSensor, 1'234'567));
  dear.go_on_until(120 * kSecond);
  EXPECT_LT(dear.readings_in(0, 3 * kSecond), 400u);
  EXPECT_LT(dear.readings_in(3 * kSecond, 63 * kSecond), 120u + 7u * 10u);
  EXPECT_LT(dear.readings_in(63 * kSecond, 120 * kSecond), 114u + 2u * 10u);
}

// The changes of StaircaseSensor happen at 1.234567 ms and every 100 ms from there.
TEST(DearCounter, IsReadAQuarterOfAPeriodAfterItsChangesAndDatedByTheRhythm) {
  DearReading dear = reading_of(StaircaseSensor(two_hundred_watts, kSensor, 1'234'567));
  dear.go_on_until(120 * kSecond);
  const auto phase = [](Nanoseconds time) { return (time - 1'234'567) % kSensor; };
  const auto beside_a_change = std::ranges::count_if(dear.readings, [&](Nanoseconds time) {
    return time > 20 * kSecond && (phase(time) < 10 * kMillisecond || phase(time) > 90 * kMillisecond);
  });
  EXPECT_LT(beside_a_change, 4 * 10) << "but for looks, of which there are three or four";
  const std::vector<PowerSample> changes = dear.track.changes_since(20 * kSecond);
  EXPECT_GT(changes.size(), 190u);
  for (const PowerSample& change : changes) {
    ASSERT_LT(std::min(phase(change.time), kSensor - phase(change.time)), 4 * kMillisecond) << change.time;
    ASSERT_NEAR(change.power.value(), 200.0, 200.0 * 0.01) << change.time;
  }
}

TEST(DearCounter, LosesNoEnergy) {
  const StaircaseSensor sensor(square_wave(60.0, 300.0, 0.317, 0.25), kSensor, 1'234'567);
  DearReading dear = reading_of(sensor);
  dear.go_on_until(60 * kSecond);
  for (Nanoseconds begin = 3 * kSecond; begin < 40 * kSecond; begin += 777'777'777) {
    // Within a step of half a second energy runs evenly: at each end at most 240 W x 0.25 s x 0.75 x 0.5 are misplaced.
    ASSERT_NEAR(dear.track.energy_between(begin, begin + 10 * kSecond).energy.value(),
                sensor.joules(begin, begin + 10 * kSecond), 2 * 30.0);
  }
}

// The driver's clock runs 200 millionths fast: in ten minutes its changes come 120 ms earlier than foretold at first.
TEST(DearCounter, IsFollowedWhereItDrifts) {
  constexpr Nanoseconds kFast = 99'980'000;
  DearReading dear = reading_of(StaircaseSensor(two_hundred_watts, kFast, 1'234'567));
  dear.go_on_until(600 * kSecond);
  for (const PowerSample& change : dear.track.changes_since(560 * kSecond)) {
    const Nanoseconds phase = (change.time - 1'234'567) % kFast;
    ASSERT_LT(std::min(phase, kFast - phase), 6 * kMillisecond) << change.time;
  }
  EXPECT_NEAR(dear.track.sensor_period().value(), 0.09998, 0.00002);
}

// The driver was loaded anew: from 30 s on the changes come 60 ms later, or every 80 ms. A look finds out, at the
// latest 51 s later, and the rhythm is learnt anew.
TEST(DearCounter, IsFoundAgainWhereItsRhythmChanges) {
  for (const Nanoseconds period : {kSensor, 80 * kMillisecond}) {
    const StaircaseSensor before(two_hundred_watts, kSensor, 1'234'567);
    const StaircaseSensor after(two_hundred_watts, period, 61'234'567);
    DearReading dear{[&](Nanoseconds t) {
      return t < 30 * kSecond ? before.counter(t) : std::max(after.counter(t), before.counter(30 * kSecond));
    }};
    dear.go_on_until(140 * kSecond);
    for (const PowerSample& change : dear.track.changes_since(100 * kSecond)) {
      const Nanoseconds phase = (change.time - 61'234'567) % period;
      ASSERT_LT(std::min(phase, period - phase), 4 * kMillisecond) << change.time << " by " << period;
    }
    EXPECT_LT(dear.readings.size(), 1'700u);
  }
}

// A window that ends at any time, also where a reading at its end cannot tell whether it saw the change that is due:
// one reading after its next change says all that can be known.
TEST(DearCounter, SettlesAWindowAtItsNextChange) {
  DearReading dear = reading_of(StaircaseSensor(two_hundred_watts, kSensor, 1'234'567));
  Nanoseconds end = 20 * kSecond;
  int settled = 0;
  for (int i = 0; i < 60; ++i) {
    end += kSecond + 7'654'321;
    dear.go_on_until(end);
    dear.read_at(end);
    static_cast<void>(dear.track.plan(kInterval));
    for (int asked = 0; asked < 2 && dear.track.sparse() && !dear.track.settled(end); ++asked) {
      const Nanoseconds due = dear.track.told_of(end, dear.readings.back());
      ASSERT_LE(due - end, 2 * kSensor);
      dear.read_at(due);
      static_cast<void>(dear.track.plan(kInterval));
    }
    dear.grid = dear.readings.back() / kGrid * kGrid + kGrid;
    if (!dear.track.sparse()) continue;  // it looks for changes
    ++settled;
    EXPECT_TRUE(dear.track.settled(end));
    EXPECT_NEAR(dear.track.energy_between(end - kSecond, end).energy.value(), 200.0, 2.0) << end;
  }
  EXPECT_GE(settled, 55);
}

Nanoseconds own_time() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

// A counter that takes 1 ms of processor time to read. `renewed` is when its value at some time was made.
struct DearDriver {
  explicit DearDriver(std::function<Nanoseconds(Nanoseconds)> renewed) : renewed_(std::move(renewed)) {}

  [[nodiscard]] Meter meter() const {
    return {"GPU:0", [readings = readings_, renewed = renewed_] {
              ++*readings;
              const Nanoseconds end = own_time() + kMillisecond;
              const Joules total = Watts(100) * to_seconds(renewed(Sampler::now()));
              while (own_time() < end) {
              }
              return MeterReading{std::nullopt, total};
            }};
  }
  // Whether three seconds come, of twenty times as many, in which it is read less often than every 160 ms.
  [[nodiscard]] bool is_read_seldom() const {
    for (int i = 0; i < 20; ++i) {  // a busy machine finds the rhythm later, and looks longer
      const int before = *readings_;
      const Nanoseconds begin = Sampler::now();
      std::this_thread::sleep_for(std::chrono::seconds(3));
      if (*readings_ - before < to_seconds(Sampler::now() - begin).value() / 0.16) return true;
    }
    return false;
  }

 private:
  std::function<Nanoseconds(Nanoseconds)> renewed_;
  std::shared_ptr<std::atomic<int>> readings_ = std::make_shared<std::atomic<int>>(0);
};

Sampler::Options half_a_percent() {
  Sampler::Options options;
  options.most_cost = 0.005;  // of which dear counters have two thirds: 1 ms every 300 ms
  return options;
}

// Read every 4 ms around its changes, as without a budget, it would have two or three readings every 100 ms.
TEST(DearCounterOfASampler, KeepsWithinTheBudget) {
  const DearDriver dear([](Nanoseconds time) { return time / kSensor * kSensor; });
  Sampler sampler({dear.meter()}, half_a_percent());
  ASSERT_TRUE(dear.is_read_seldom());
  const Nanoseconds begin = sampler.sample_now();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const Nanoseconds end = sampler.sample_now();
  ASSERT_TRUE(sampler.settle(end, Seconds(60)));
  const IntervalEnergy window = sampler.energy_between(0, begin, end);
  EXPECT_TRUE(window.complete);
  // Each end is known to how well the time of a change is: at most an eighth of the period, and what it was moved
  // since.
  EXPECT_NEAR(window.energy.value(), 100.0 * to_seconds(end - begin).value(), 100.0 * 2 * 0.025);
}

// Renewed 60 to 140 ms one after the other, as chance will have it: no rhythm to read it in.
TEST(DearCounterOfASampler, IsNotPolledForEverWhereNoRhythmIsFound) {
  const DearDriver dear([](Nanoseconds time) {
    const auto moment = [](Nanoseconds k) {
      std::minstd_rand random(static_cast<unsigned>(k % 1'000'000'007));
      random.discard(3);
      return k * kSensor + static_cast<Nanoseconds>(random() % (80 * kMillisecond));
    };
    const Nanoseconds k = time / kSensor;
    return moment(k) <= time ? moment(k) : moment(k - 1);
  });
  const Sampler sampler({dear.meter()}, half_a_percent());
  EXPECT_TRUE(dear.is_read_seldom());
}

}  // namespace
}  // namespace flyball::testing
