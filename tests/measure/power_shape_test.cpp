// The driver's record of power as the shape of energy between two readings of the counter: on a real H100's, and where
// the record lies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "measure/energy_track.h"
#include "support/staircase.h"

namespace flyball::testing {
namespace {

constexpr Nanoseconds kMicrosecond = 1'000;

// tests/measure/h100_pulses.csv
struct Recording {
  struct Count {
    Nanoseconds time;
    double joules;
  };
  struct Pulse {
    Nanoseconds begin;
    Nanoseconds end;
  };
  std::vector<Count> counter;
  std::vector<TimedPower> samples;
  std::vector<Pulse> pulses;

  Recording() {
    std::ifstream file(FLYBALL_SOURCE_DIR "/tests/measure/h100_pulses.csv");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with('#') || line.starts_with("time_us")) continue;
      const std::vector<std::string_view> fields = split_at(',', line);
      const Nanoseconds time = std::stoll(std::string(fields.at(0))) * kMicrosecond;
      const double value = std::stod(std::string(fields.at(2)));
      if (fields[1] == "counter") counter.push_back({time, value / 1e3});
      if (fields[1] == "sample") samples.push_back({time, Watts(value / 1e3)});
      if (fields[1] == "pulse") pulses.push_back({time, time + static_cast<Nanoseconds>(value) * kMicrosecond});
    }
  }

  [[nodiscard]] double counted_at(Nanoseconds time) const {
    const auto after = std::ranges::upper_bound(counter, time, {}, &Count::time);
    return after == counter.begin() ? 0.0 : (after - 1)->joules;
  }
};

enum class Shape { kNone, kRecorded };

// Replays it as the sampler reads: every 4 ms at first, then once for several changes, at least 450 ms apart; with
// samples as the meter asks for them.
EnergyTrack replay(const Recording& recording, Shape shape) {
  constexpr Nanoseconds kReplayed = 4 * kMillisecond;
  EnergyTrack track(kReplayed, 15'000);
  const std::vector<TimedPower> powers = without_low_pass(recording.samples, Seconds(0.015));
  Nanoseconds due = 0;
  double before = 0.0;
  for (Nanoseconds now = recording.counter.front().time; now < recording.counter.back().time; now += kReplayed) {
    if (now < due) continue;
    MeterReading reading{std::nullopt, Joules(recording.counted_at(now))};
    if (shape == Shape::kRecorded && reading.total->value() != before) {
      for (const TimedPower& power : powers) {
        if (now - 2 * kSecond < power.time && power.time <= now) reading.shape.push_back(power);
      }
    }
    before = reading.total->value();
    track.add(now, reading);
    due = track.plan(450 * kMillisecond);
  }
  return track;
}

// What a pulse took, from the counter as it was seen at each of its changes, without the track: the energy of the steps
// that the pulse lies in, less what the idle board took in the rest of their time. Between pulses it took 122 to 124 W
// (steps without a pulse). A step's energy may be 10 ms old, and power falls for some 35 ms after the kernel's end, so
// that the last step must end later than that; 0 where it has the next pulse, too. The pulses of 20 to 200 ms so take
// 764 to 772 W in the mean of each length, as long loads do at their begin (770 W); those of 10 ms 859 W, since 35 ms
// of falling power are much of so short a time.
double counted_joules(const Recording& recording, std::size_t i) {
  constexpr double kIdle = 123.0;
  const Recording::Pulse& pulse = recording.pulses[i];
  const auto& counter = recording.counter;
  const auto after = std::ranges::upper_bound(counter, pulse.begin, {}, &Recording::Count::time);
  const auto last = std::ranges::lower_bound(counter, pulse.end + 45 * kMillisecond, {}, &Recording::Count::time);
  if (after == counter.begin() || last == counter.end()) return 0.0;
  const auto first = after - 1;
  if (i + 1 < recording.pulses.size() && recording.pulses[i + 1].begin < last->time) return 0.0;
  if (i > 0 && recording.pulses[i - 1].end + 60 * kMillisecond > first->time) return 0.0;
  const Nanoseconds idle = (last->time - first->time) - (pulse.end - pulse.begin);
  return last->joules - first->joules - kIdle * to_seconds(idle).value();
}

struct Errors {  // of pulses' energies, as shares of them
  double bias = 0.0;
  double mean = 0.0;
  int pulses = 0;
};

std::map<int, Errors> errors_by_length_ms(const Recording& recording, const EnergyTrack& track) {
  std::map<int, Errors> errors;
  for (std::size_t i = 0; i < recording.pulses.size(); ++i) {
    const Recording::Pulse& pulse = recording.pulses[i];
    const double truth = counted_joules(recording, i);
    if (truth <= 0.0) continue;
    const double error = track.energy_between(pulse.begin, pulse.end).energy.value() / truth - 1.0;
    const double ms = static_cast<double>(pulse.end - pulse.begin) / 1e6;
    Errors& sum = errors[static_cast<int>(std::lround(ms / 10.0)) * 10];
    sum.bias += error;
    sum.mean += std::abs(error);
    ++sum.pulses;
  }
  for (auto& [length, sum] : errors) {
    sum.bias /= sum.pulses;
    sum.mean /= sum.pulses;
  }
  return errors;
}

TEST(PowerShape, TellsThePulsesOfARealH100) {
  const Recording recording;
  ASSERT_EQ(recording.pulses.size(), 40u);
  const auto evenly = errors_by_length_ms(recording, replay(recording, Shape::kNone));
  const auto by_record = errors_by_length_ms(recording, replay(recording, Shape::kRecorded));
  // A sample stands for 20 ms and begins anywhere, so that each end of a pulse is known to some 5 ms.
  const std::map<int, double> most{{10, 0.6}, {20, 0.35}, {50, 0.12}, {100, 0.06}, {200, 0.04}};
  for (const auto& [length_ms, error] : most) {
    const Errors& without = evenly.at(length_ms);
    const Errors& with = by_record.at(length_ms);
    EXPECT_GE(with.pulses, 5) << length_ms;
    EXPECT_LT(with.mean, error) << length_ms;
    EXPECT_LT(with.mean, without.mean) << length_ms;
    if (length_ms >= 50) EXPECT_LT(with.mean, 0.25 * without.mean) << length_ms;
    if (length_ms >= 50) EXPECT_LT(std::abs(with.bias), 0.05) << length_ms;
    RecordProperty("error_" + std::to_string(length_ms) + "ms",
                   std::to_string(with.mean) + " instead of " + std::to_string(without.mean));
  }
}

TEST(PowerShape, LeavesTheCountersAmountsAsTheyAre) {
  const Recording recording;
  const EnergyTrack evenly = replay(recording, Shape::kNone);
  const EnergyTrack by_record = replay(recording, Shape::kRecorded);
  const std::vector<PowerSample> steps = evenly.changes_since(0);
  const std::vector<PowerSample> pieces = by_record.changes_since(0);
  EXPECT_GT(pieces.size(), 4 * steps.size());
  std::size_t found = 0;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    ASSERT_GE(pieces[i].energy, pieces[i - 1].energy);
    while (found < steps.size() && steps[found].time < pieces[i].time) ++found;
    if (found == steps.size() || steps[found].time != pieces[i].time) continue;
    ASSERT_NEAR(pieces[i].energy.value(), steps[found].energy.value(), 1e-9) << pieces[i].time;
  }
}

// A board at 100 W, and at 500 W from 1.26 to 1.30 s. Its counter is seen to change by 36 J between two readings each
// at 1.19 and 1.20 s, and at 1.398 and 1.402 s, which dates the changes at 1.195 and 1.4 s. The record has the right
// times and 10 % too much of power, as sensors do.
TEST(PowerShape, IsScaledToWhatTheCounterSays) {
  const auto track_with = [](Nanoseconds first, Nanoseconds last) {
    EnergyTrack track(4 * kMillisecond, 1'000);
    MeterReading reading{std::nullopt, Joules(100.0)};
    track.add(1'190 * kMillisecond, reading);
    reading.total = Joules(120.0);
    track.add(1'200 * kMillisecond, reading);
    track.add(1'398 * kMillisecond, reading);
    reading.total = Joules(156.0);
    for (Nanoseconds t = first; t <= last; t += 20 * kMillisecond) {
      const bool high = t > 1'260 * kMillisecond && t <= 1'300 * kMillisecond;
      reading.shape.push_back({t, Watts(high ? 550.0 : 110.0)});
    }
    track.add(1'402 * kMillisecond, reading);
    return track;
  };
  const Nanoseconds begin = 1'260 * kMillisecond;
  const Nanoseconds end = 1'300 * kMillisecond;
  const EnergyTrack shaped = track_with(1'000 * kMillisecond, 1'400 * kMillisecond);
  // 36 J: 165 ms at 100 W and 40 ms at 500 W are 36.5 J, so that all are scaled by 36 / 36.5.
  EXPECT_NEAR(shaped.energy_between(begin, end).energy.value(), 20.0 * 36.0 / 36.5, 1e-6);
  EXPECT_NEAR(shaped.energy_between(1'195 * kMillisecond, 1'400 * kMillisecond).energy.value(), 36.0, 1e-6);
  const double evenly = 36.0 * 0.040 / 0.205;
  for (const auto& [first, last] : {std::pair{1'300, 1'400}, {1'000, 1'320}}) {
    const EnergyTrack track = track_with(first * kMillisecond, last * kMillisecond);
    EXPECT_NEAR(track.energy_between(begin, end).energy.value(), evenly, 1e-6)
        << "the record lacks one end of the step";
  }
}

// A filter that begins at 100 W and is given 500 W from 20 ms on goes to 500 - 400 exp(-t / 15 ms); a sample every 1
// ms.
TEST(PowerShape, UndoesTheLowPass) {
  std::vector<TimedPower> samples;
  for (int ms = 0; ms <= 80; ++ms) {
    const double risen = ms <= 20 ? 0.0 : 400.0 * (1.0 - std::exp(-(ms - 20) / 15.0));
    samples.push_back({ms * kMillisecond, Watts(100.0 + risen)});
  }
  const std::vector<TimedPower> input = without_low_pass(samples, Seconds(0.015));
  ASSERT_EQ(input.size(), 80u);
  for (const TimedPower& power : input) {
    EXPECT_NEAR(power.power.value(), power.time <= 20 * kMillisecond ? 100.0 : 500.0, 15.0) << power.time;
  }
  EXPECT_THAT(without_low_pass({{0, Watts(500)}, {kMillisecond, Watts(100)}}, Seconds(0.015)).front().power.value(),
              ::testing::Eq(0.0));
}

}  // namespace
}  // namespace flyball::testing
