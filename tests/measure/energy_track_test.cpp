// What the energy of an interval is made of: knots, jumps, the sensor's rhythm, and counters that lie.
#include "measure/energy_track.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "support/staircase.h"

namespace flyball::testing {
namespace {

using ::testing::AllOf;

using ::testing::Ge;
using ::testing::Le;

constexpr Nanoseconds kPeriod = 4 * kMillisecond;
constexpr std::size_t kRing = 15'000;  // a minute

double constant_300_watts(double t) { return 300.0 * t; }

MeterReading counted(Joules total) { return {std::nullopt, total}; }

EnergyTrack track_of(const StaircaseSensor& sensor, Nanoseconds end) {
  EnergyTrack track(kPeriod, kRing);
  read_until(track, kPeriod, end, [&](Nanoseconds t) { return counted(sensor.counter(t)); });
  return track;
}

class EverySensor : public ::testing::TestWithParam<int> {  // its period in ms
 protected:
  Nanoseconds sensor_period_ = GetParam() * kMillisecond;
};

TEST_P(EverySensor, GivesSteadyPowerToOnePercentForWindowsOf100Milliseconds) {
  const StaircaseSensor sensor(constant_300_watts, sensor_period_, 1'234'567);
  const EnergyTrack track = track_of(sensor, 10'000 * kMillisecond);
  for (Nanoseconds begin = 3'000 * kMillisecond; begin < 9'000 * kMillisecond; begin += 7'777'777) {
    const Nanoseconds end = begin + 100 * kMillisecond;
    const IntervalEnergy window = track.energy_between(begin, end);
    ASSERT_NEAR(window.energy.value(), 30.0, 0.3) << "window at " << begin;
    ASSERT_TRUE(window.complete);
    ASSERT_EQ(window.source, EnergySource::kCounter);
  }
}

// Bursts of 100 ms, windows that begin and end with them: the case that straight lines get wrong by a third of the
// sensor's period, always to the low side.
TEST_P(EverySensor, SeparatesBurstsFromThePausesBetweenThem) {
  const double pause = 0.317;
  const StaircaseSensor sensor(square_wave(60.0, 300.0, pause, 0.25), sensor_period_, 1'234'567);
  const EnergyTrack track = track_of(sensor, 20'000 * kMillisecond);
  double error = 0.0;
  double sum = 0.0;
  for (int cycle = 4; cycle < 34; ++cycle) {
    const auto begin = static_cast<Nanoseconds>((cycle * (pause + 0.25) + pause) * 1e9);
    const Nanoseconds end = begin + 250 * kMillisecond;
    const double measured = track.energy_between(begin, end).energy.value();
    sum += sensor.joules(begin, end);
    error += measured - sensor.joules(begin, end);
  }
  EXPECT_LT(std::abs(error) / sum, 0.01);
}

TEST_P(EverySensor, IsRightOnAverageForShortWindows) {
  const StaircaseSensor sensor(square_wave(60.0, 300.0, 0.2, 0.2), sensor_period_, 1'234'567);
  const EnergyTrack track = track_of(sensor, 30'000 * kMillisecond);
  std::mt19937 random(7);
  std::uniform_int_distribution<Nanoseconds> begins(2'000 * kMillisecond, 29'000 * kMillisecond);
  double error = 0.0;
  double sum = 0.0;
  for (int i = 0; i < 4'000; ++i) {
    const Nanoseconds begin = begins(random);
    const Nanoseconds end = begin + 5 * kMillisecond;
    sum += sensor.joules(begin, end);
    error += track.energy_between(begin, end).energy.value() - sensor.joules(begin, end);
  }
  EXPECT_LT(std::abs(error) / sum, 0.01);
}

TEST_P(EverySensor, ReportsThePeriod) {
  const StaircaseSensor sensor(constant_300_watts, sensor_period_, 1'234'567);
  const double found = track_of(sensor, 6'000 * kMillisecond).sensor_period().value();
  EXPECT_NEAR(found, std::max(0.004, to_seconds(sensor_period_).value()), 0.0003);
}

TEST_P(EverySensor, AddsUpOverAdjoiningWindows) {
  const StaircaseSensor sensor(square_wave(60.0, 300.0, 0.13, 0.11), sensor_period_, 1'234'567);
  const EnergyTrack track = track_of(sensor, 10'000 * kMillisecond);
  const Nanoseconds begin = 2'345'678'901;
  const Nanoseconds step = 23'456'789;
  double sum = 0.0;
  for (int i = 0; i < 200; ++i) sum += track.energy_between(begin + i * step, begin + (i + 1) * step).energy.value();
  EXPECT_NEAR(sum, track.energy_between(begin, begin + 200 * step).energy.value(), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Period, EverySensor, ::testing::Values(1, 5, 20, 25, 100));

// Which counters may be read less often: a slow one that shows something new at every reading, since a busy machine
// reads it seldom, is none of them.
TEST(EnergyTrack, TellsACounterFinerThanThePeriodFromASlowOneThatIsReadSeldom) {
  const auto is_fine = [](Nanoseconds sensor_period, Nanoseconds sampling) {
    const StaircaseSensor sensor(constant_300_watts, sensor_period, 1'234'567);
    EnergyTrack track(kPeriod, kRing);
    read_until(track, sampling, 6'000 * kMillisecond, [&](Nanoseconds t) { return counted(sensor.counter(t)); });
    EXPECT_EQ(track.changes_at_every_reading(), sensor_period < sampling) << sensor_period << " by " << sampling;
    return track.finer_than_period();
  };
  EXPECT_TRUE(is_fine(1 * kMillisecond, kPeriod));
  EXPECT_FALSE(is_fine(20 * kMillisecond, kPeriod));
  EXPECT_FALSE(is_fine(100 * kMillisecond, kPeriod));
  EXPECT_FALSE(is_fine(20 * kMillisecond, 25 * kMillisecond));
  EnergyTrack without_a_counter(kPeriod, kRing);
  read_until(without_a_counter, kPeriod, 3'000 * kMillisecond, [](Nanoseconds t) {
    return MeterReading{Watts(100.0 + static_cast<double>(t % 97)), std::nullopt};
  });
  EXPECT_FALSE(without_a_counter.finer_than_period()) << "its energy is made of the readings";
}

// A counter of 1 ms, read every 28 ms and now and then between.
TEST(EnergyTrack, LosesNoEnergyWhereReadingsAreFarApart) {
  const StaircaseSensor sensor(square_wave(60.0, 300.0, 0.13, 0.11), 1 * kMillisecond);
  EnergyTrack track(kPeriod, kRing);
  Nanoseconds readings = 0;
  read_until(track, kPeriod, 21'000 * kMillisecond, [&](Nanoseconds t) {
    ++readings;
    return counted(sensor.counter(t));
  });
  EnergyTrack sparse(kPeriod, kRing);
  Nanoseconds sparse_readings = 0;
  for (Nanoseconds t = 1'000 * kMillisecond; t <= 21'000 * kMillisecond; t += kPeriod) {
    const bool beside_another = t % (100 * kMillisecond) < 3 * kPeriod;
    if (t % (7 * kPeriod) != 0 && !beside_another) continue;
    ++sparse_readings;
    sparse.add(t, counted(sensor.counter(t)));
  }
  EXPECT_LT(3 * sparse_readings, readings);
  for (Nanoseconds begin = 2'000 * kMillisecond; begin < 18'000 * kMillisecond; begin += 77'777'777) {
    const Nanoseconds end = begin + 1'500 * kMillisecond;
    const IntervalEnergy window = sparse.energy_between(begin, end);
    // At each end at most a quarter of (300 - 60) W over 28 ms, as docs/manual/measuring-errors.md derives.
    ASSERT_NEAR(window.energy.value(), sensor.joules(begin, end), 2.0 * 0.25 * 240.0 * 0.028 + 0.5);
    ASSERT_TRUE(window.complete);
  }
  const double all = sparse.energy_between(2'016 * kMillisecond, 19'992 * kMillisecond).energy.value();
  EXPECT_NEAR(all, sensor.joules(2'016 * kMillisecond, 19'992 * kMillisecond), 0.001 * all);
}

TEST(EnergyTrack, FindsThePeakOfBurstsLongerThanTheSensorsPeriod) {
  const StaircaseSensor sensor(square_wave(60.0, 300.0, 0.3, 0.3), 20 * kMillisecond);
  const EnergyTrack track = track_of(sensor, 8'000 * kMillisecond);
  const IntervalEnergy window = track.energy_between(3'000 * kMillisecond, 6'000 * kMillisecond);
  EXPECT_NEAR(window.peak.value(), 300.0, 30.0);  // a step is dated to 2 ms of its 20
  EXPECT_NEAR(window.mean.value(), 180.0, 1.8);
  EXPECT_THAT(window.samples, AllOf(Ge(150u), Le(4u * 150u)));  // of a hundred and fifty changes
}

TEST(EnergyTrack, SaysThatAWindowIsNotCompleteYetOrNoLonger) {
  const StaircaseSensor sensor(constant_300_watts, 20 * kMillisecond);
  EnergyTrack track(kPeriod, 500);  // 2 s
  read_until(track, kPeriod, 5'000 * kMillisecond, [&](Nanoseconds t) { return counted(sensor.counter(t)); });
  EXPECT_TRUE(track.energy_between(4'000 * kMillisecond, 4'500 * kMillisecond).complete);
  EXPECT_FALSE(track.energy_between(4'000 * kMillisecond, 4'999 * kMillisecond).complete);
  EXPECT_FALSE(track.energy_between(1'000 * kMillisecond, 4'500 * kMillisecond).complete);
  // Told all the same, from the last step's power.
  EXPECT_NEAR(track.energy_between(4'000 * kMillisecond, 4'999 * kMillisecond).energy.value(), 299.7, 3.0);
}

TEST(EnergyTrack, IntegratesPowerWhereThereIsNoCounter) {
  const StaircaseSensor sensor(square_wave(60.0, 300.0, 0.3, 0.3), 20 * kMillisecond);
  EnergyTrack track(kPeriod, kRing);
  read_until(track, kPeriod, 10'000 * kMillisecond, [&](Nanoseconds t) {
    return MeterReading{sensor.power(t), std::nullopt};
  });
  const IntervalEnergy window = track.energy_between(3'000 * kMillisecond, 9'000 * kMillisecond);
  EXPECT_EQ(window.source, EnergySource::kIntegratedPower);
  EXPECT_NEAR(window.energy.value(), 6.0 * 180.0, 0.01 * 6.0 * 180.0);
  EXPECT_NEAR(window.sensor_period.value(), 0.6 / 2, 0.3);  // a steady power shows no renewal
}

TEST(EnergyTrack, GoesOverToPowerWhenTheCounterVanishes) {
  const StaircaseSensor sensor(constant_300_watts, 20 * kMillisecond);
  EnergyTrack track(kPeriod, kRing);
  const Nanoseconds gone = 4'000 * kMillisecond;
  read_until(track, kPeriod, 8'000 * kMillisecond, [&](Nanoseconds t) {
    return MeterReading{sensor.power(t), t < gone ? std::optional(sensor.counter(t)) : std::nullopt};
  });
  const IntervalEnergy window = track.energy_between(2'000 * kMillisecond, 7'000 * kMillisecond);
  EXPECT_EQ(window.source, EnergySource::kIntegratedPower);
  EXPECT_NEAR(window.energy.value(), 1'500.0, 15.0);
  EXPECT_EQ(track.energy_between(2'000 * kMillisecond, 3'500 * kMillisecond).source, EnergySource::kCounter);
}

class FrozenCounter : public ::testing::TestWithParam<bool> {};  // does it catch up when it moves again?

TEST_P(FrozenCounter, IsNoticedAndBridgedByPowerFromItsLastStep) {
  const StaircaseSensor sensor(constant_300_watts, 20 * kMillisecond);
  EnergyTrack track(kPeriod, kRing);
  const Nanoseconds freeze = 4'000 * kMillisecond;
  const Nanoseconds thaw = 9'000 * kMillisecond;
  const double lost = GetParam() ? 0.0 : sensor.joules(freeze, thaw);
  read_until(track, kPeriod, 14'000 * kMillisecond, [&](Nanoseconds t) {
    const Joules total = t < freeze ? sensor.counter(t)
                         : t < thaw ? sensor.counter(freeze)
                                    : sensor.counter(t) - Joules(lost);
    return MeterReading{sensor.power(t), total};
  });
  const IntervalEnergy across = track.energy_between(2'000 * kMillisecond, 12'000 * kMillisecond);
  EXPECT_EQ(across.source, EnergySource::kFrozenCounter);
  EXPECT_NEAR(across.energy.value(), 3'000.0, 30.0);
  const IntervalEnergy start = track.energy_between(4'100 * kMillisecond, 4'300 * kMillisecond);
  EXPECT_NEAR(start.energy.value(), 60.0, 0.6);  // told after the fact, before the freeze was certain
  EXPECT_EQ(track.energy_between(2'000 * kMillisecond, 3'500 * kMillisecond).source, EnergySource::kCounter);
  EXPECT_EQ(track.energy_between(9'500 * kMillisecond, 12'000 * kMillisecond).source, EnergySource::kCounter);
  EXPECT_EQ(track.source(), EnergySource::kCounter);
}

INSTANTIATE_TEST_SUITE_P(EitherWay, FrozenCounter, ::testing::Bool());

TEST(EnergyTrack, TakesACounterAtRestForAnIdleDeviceWhereNoPowerFlows) {
  EnergyTrack track(kPeriod, kRing);
  read_until(track, kPeriod, 6'000 * kMillisecond, [](Nanoseconds) { return MeterReading{Watts(0), Joules(17)}; });
  const IntervalEnergy window = track.energy_between(2'000 * kMillisecond, 5'000 * kMillisecond);
  EXPECT_EQ(window.source, EnergySource::kCounter);
  EXPECT_EQ(window.energy, Joules(0));
  EXPECT_TRUE(window.complete);
}

struct Lie {
  const char* name;
  double joules;  // added to the counter from 5 s on
};

class CounterThatJumps : public ::testing::TestWithParam<Lie> {};

TEST_P(CounterThatJumps, CostsNoMoreThanOneStep) {
  const StaircaseSensor sensor(constant_300_watts, 20 * kMillisecond);
  EnergyTrack track(kPeriod, kRing);
  read_until(track, kPeriod, 9'000 * kMillisecond, [&](Nanoseconds t) {
    const double lie = t >= 5'000 * kMillisecond ? GetParam().joules : 0.0;
    return counted(Joules(1e6 + sensor.counter(t).value() + lie));
  });
  EXPECT_NEAR(track.energy_between(2'000 * kMillisecond, 8'000 * kMillisecond).energy.value(), 1'800.0, 6.0);
  for (const PowerSample& change : track.changes_since(0)) {
    ASSERT_THAT(change.power.value(), AllOf(Ge(0.0), Le(700.0))) << change.time;
  }
}

INSTANTIATE_TEST_SUITE_P(Jumps, CounterThatJumps,
                         ::testing::Values(Lie{"reset", -1e6}, Lie{"back", -50.0}, Lie{"forward", 4e9}),
                         [](const auto& lie) { return std::string(lie.param.name); });

TEST(EnergyTrack, KeepsEnergyOverAGapOfReadings) {
  const StaircaseSensor sensor(constant_300_watts, 20 * kMillisecond);
  EnergyTrack track(kPeriod, kRing);
  const auto read = [&](Nanoseconds t) { return counted(sensor.counter(t)); };
  for (Nanoseconds t = 1'000 * kMillisecond; t <= 3'000 * kMillisecond; t += kPeriod) track.add(t, read(t));
  for (Nanoseconds t = 5'000 * kMillisecond; t <= 7'000 * kMillisecond; t += kPeriod) track.add(t, read(t));
  EXPECT_NEAR(track.energy_between(2'000 * kMillisecond, 6'000 * kMillisecond).energy.value(), 1'200.0, 1.0);
}

// A busy machine: every now and then the sampler does not get a processor for 130 or 260 ms.
TEST(EnergyTrack, KeepsTheRhythmOverLateReadings) {
  const StaircaseSensor sensor(constant_300_watts, 100 * kMillisecond, 1'234'567);
  EnergyTrack track(kPeriod, kRing);
  int readings = 0;
  for (Nanoseconds t = 1'000 * kMillisecond; t <= 20'000 * kMillisecond; t += kPeriod) {
    if (++readings % 400 == 0) t += (readings % 800 == 0 ? 130 : 260) * kMillisecond;
    if (t >= track.plan()) track.add(t, counted(sensor.counter(t)));
  }
  for (Nanoseconds begin = 4'000 * kMillisecond; begin < 19'000 * kMillisecond; begin += 7'777'777) {
    ASSERT_NEAR(track.energy_between(begin, begin + 100 * kMillisecond).energy.value(), 30.0, 0.3) << begin;
  }
}

TEST(EnergyTrack, FollowsASensorThatChangesItsRhythm) {
  const StaircaseSensor slow(constant_300_watts, 100 * kMillisecond, 1'234'567);
  const StaircaseSensor fast(constant_300_watts, 20 * kMillisecond, 7'654'321);
  EnergyTrack track(kPeriod, kRing);
  read_until(track, kPeriod, 15'000 * kMillisecond, [&](Nanoseconds t) {
    return counted(t < 5'000 * kMillisecond ? slow.counter(t)
                                            : std::max(fast.counter(t), slow.counter(5'000 * kMillisecond)));
  });
  EXPECT_NEAR(track.sensor_period().value(), 0.020, 0.0005);
  for (Nanoseconds begin = 8'000 * kMillisecond; begin < 14'000 * kMillisecond; begin += 7'777'777) {
    ASSERT_NEAR(track.energy_between(begin, begin + 100 * kMillisecond).energy.value(), 30.0, 0.3) << begin;
  }
}

class ReadingInRhythm : public ::testing::TestWithParam<int> {  // the sensor's period in ms
 protected:
  // Both tracks of `sensor` from 1 s to 21 s.
  void read(const std::function<MeterReading(Nanoseconds)>& sensor) {
    read_until(always_, kPeriod, 21'000 * kMillisecond, sensor, Reading::kEveryPeriod);
    read_until(in_rhythm_, kPeriod, 21'000 * kMillisecond, [&](Nanoseconds t) {
      ++readings_;
      return sensor(t);
    });
  }
  // Of windows of `length` that begin anywhere after two seconds: the largest difference of both tracks, J.
  [[nodiscard]] double largest_difference(Nanoseconds length) const {
    double largest = 0.0;
    for (Nanoseconds begin = 3'000 * kMillisecond; begin < 20'000 * kMillisecond; begin += 777'777) {
      const Joules difference = in_rhythm_.energy_between(begin, begin + length).energy -
                                always_.energy_between(begin, begin + length).energy;
      largest = std::max(largest, std::abs(difference.value()));
    }
    return largest;
  }

  EnergyTrack always_{kPeriod, kRing};
  EnergyTrack in_rhythm_{kPeriod, kRing};
  int readings_ = 0;
};

TEST_P(ReadingInRhythm, OfASteadySensorLosesNothing) {
  const Nanoseconds period = GetParam() * kMillisecond;
  const StaircaseSensor sensor(square_wave(60.0, 300.0, 0.317, 0.25), period, 1'234'567);
  read([&](Nanoseconds t) { return counted(sensor.counter(t)); });
  EXPECT_LT(largest_difference(30 * kMillisecond), 0.02);  // of 1.8 to 9 J; periods are estimated from readings
  const double changes = 20'000.0 / GetParam();
  const double until_found = 15.0 * GetParam() / 4.0;  // thirteen changes
  EXPECT_LT(readings_, 3.0 * changes + until_found);
}

// Steps up to 4 ms off the rhythm, either way: read less seldom, dated as well as if read always.
TEST_P(ReadingInRhythm, OfAnUnsteadySensorIsAsGood) {
  const Nanoseconds period = GetParam() * kMillisecond;
  const StaircaseSensor sensor(square_wave(60.0, 300.0, 0.317, 0.25), period, 1'234'567);
  const auto wander = [&](Nanoseconds t) {
    const Nanoseconds step = (t - 1'234'567) / period * period + 1'234'567;
    std::minstd_rand random(static_cast<unsigned>(step / period));
    random.discard(3);
    const auto late = static_cast<Nanoseconds>(random() % (4 * kMillisecond));
    return counted(sensor.counter(t >= step + late ? step : step - period));
  };
  read(wander);
  EXPECT_LT(largest_difference(100 * kMillisecond), 0.01 * 30.0);
}

// Readings come late by as much as the whole period and more: no worse than if read always.
TEST_P(ReadingInRhythm, OnABusyMachineIsAsGood) {
  const StaircaseSensor sensor(square_wave(60.0, 300.0, 0.317, 0.25), GetParam() * kMillisecond, 1'234'567);
  for (const double usually_late_ms : {1.0, 4.0}) {
    const auto mean_error = [&](Reading when) {
      EnergyTrack track(kPeriod, kRing);
      std::mt19937 random(7);
      std::exponential_distribution<double> late_ms(1.0 / usually_late_ms);
      Nanoseconds due = 1'000 * kMillisecond;
      while (due < 41'000 * kMillisecond) {
        const Nanoseconds time = due + static_cast<Nanoseconds>(late_ms(random) * 1e6);
        if (when == Reading::kEveryPeriod || time >= track.plan()) track.add(time, counted(sensor.counter(time)));
        due += ((time - due) / kPeriod + 1) * kPeriod;
      }
      double sum = 0.0;
      int windows = 0;
      for (Nanoseconds begin = 10'000 * kMillisecond; begin < 39'000 * kMillisecond; begin += 7'777'777, ++windows) {
        const Nanoseconds end = begin + 100 * kMillisecond;
        sum += std::abs(track.energy_between(begin, end).energy.value() - sensor.joules(begin, end));
      }
      return sum / windows;
    };
    EXPECT_LT(mean_error(Reading::kWhereSomethingIsDue), 1.2 * mean_error(Reading::kEveryPeriod) + 0.05);
  }
}

// Whatever the sensor does while nobody looks is found out at the next look, and then it is looked at always.
TEST_P(ReadingInRhythm, FindsOutWhenTheRhythmChanges) {
  const Nanoseconds period = GetParam() * kMillisecond;
  for (const Nanoseconds other : {period / 2, period * 3 / 5, period * 8 / 5, period * 2}) {
    const StaircaseSensor before(constant_300_watts, period, 1'234'567);
    const StaircaseSensor after(constant_300_watts, other, 7'654'321);
    EnergyTrack track(kPeriod, kRing);
    read_until(track, kPeriod, 21'000 * kMillisecond, [&](Nanoseconds t) {
      return counted(t < 5'000 * kMillisecond ? before.counter(t)
                                              : std::max(after.counter(t), before.counter(5'000 * kMillisecond)));
    });
    EXPECT_NEAR(track.sensor_period().value(), to_seconds(other).value(), 0.02 * to_seconds(other).value());
    for (Nanoseconds begin = 10'000 * kMillisecond; begin < 20'000 * kMillisecond; begin += 7'777'777) {
      ASSERT_NEAR(track.energy_between(begin, begin + 100 * kMillisecond).energy.value(), 30.0, 0.3) << begin;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Period, ReadingInRhythm, ::testing::Values(40, 100, 250));

TEST(EnergyTrack, ForgetsOnlyTheOldest) {
  EnergyTrack track(kPeriod, 10);
  for (int i = 1; i <= 25; ++i) track.add(i * kPeriod, counted(Joules(i)));
  const std::vector<PowerSample> samples = track.samples_since(0);
  ASSERT_EQ(samples.size(), 10u);
  EXPECT_EQ(samples.front().time, 16 * kPeriod);
  EXPECT_EQ(samples.back().time, 25 * kPeriod);
  EXPECT_EQ(track.samples_since(24 * kPeriod).size(), 1u);
  EXPECT_TRUE(track.samples_since(25 * kPeriod).empty());
  EXPECT_EQ(track.latest()->energy, Joules(24));  // since the first reading
}

}  // namespace
}  // namespace flyball::testing
