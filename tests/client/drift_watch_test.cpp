// Which operations have drifted from their profile, and what becomes of the profile: without real time.
#include "client/drift_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "client/computing_times.h"
#include "client/refreshed_profile.h"

namespace flyball {
namespace {

constexpr std::uint16_t kType = 3;

// Counts steps that take `ratio` times what the profile says, with normal noise. Returns in how many of them the drift
// was to be told, and the first of these.
struct Told {
  int times = 0;
  int first = 0;
};
Told count(DriftWatch& watch, int steps, double ratio, double noise, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.0, noise);
  Told told;
  for (int i = 1; i <= steps; ++i) {
    if (!watch.count(kType, Seconds(0.8 * ratio * std::exp(normal(random))), Seconds(0.8))) continue;
    if (told.times++ == 0) told.first = i;
  }
  return told;
}

// Two windows of 32 steps, and again after 16 more, as long as it lasts.
TEST(DriftWatch, FindsWhatHasDriftedAfterTwoWindows) {
  DriftWatch watch;
  const Told told = count(watch, 2 * 32 + 16 * 32, 1.05, 0.003);
  EXPECT_EQ(told.first, 64);
  EXPECT_EQ(told.times, 2);
  // The median of 64 steps of 0.3 % deviates by 0.05 %.
  EXPECT_NEAR(watch.drift(kType), 1.05, 0.002);
  EXPECT_EQ(watch.drift(kType + 1), 0.0);
  watch.begin_anew();
  EXPECT_EQ(watch.drift(kType), 0.0);
}

TEST(DriftWatch, FindsWhatBecameFasterToo) {
  DriftWatch watch;
  EXPECT_EQ(count(watch, 64, 0.96, 0.003).first, 64);
  EXPECT_NEAR(watch.drift(kType), 0.96, 0.002);
}

// Within 2 % of the profile, whatever the noise, and however few of the steps are held up by something else. A level
// 1.8 % off with 3 % of noise has errors of 0.66 % a window, five of which are far more than what is missing to 2 %.
TEST(DriftWatch, TellsNothingWhereThereIsNoDrift) {
  for (const double noise : {0.0002, 0.003, 0.03}) {
    for (const double ratio : {0.985, 1.0, 1.018}) {
      DriftWatch watch;
      EXPECT_EQ(count(watch, 20'000, ratio, noise, 7).times, 0) << ratio << " " << noise;
    }
  }
  DriftWatch watch;
  int told = 0;
  for (int i = 0; i < 20'000; ++i) {
    const double ratio = i % 3 == 0 ? 1.5 : 1.0;
    if (watch.count(kType, Seconds(0.8 * ratio), Seconds(0.8))) ++told;
  }
  EXPECT_EQ(told, 0);
}

// Work that is only queued takes no time, and steps that differ by a fifth tell nothing.
TEST(DriftWatch, TellsNothingThatIsNotCredible) {
  DriftWatch watch;
  EXPECT_EQ(count(watch, 640, 0.05, 0.003).times, 0);
  EXPECT_EQ(count(watch, 640, 1.3, 0.2).times, 0);
  EXPECT_EQ(count(watch, 640, 5.0, 0.003).times, 0);
}

// Something that comes and goes within a window, or grows, is told when it has come to rest.
TEST(DriftWatch, WaitsUntilALevelHolds) {
  DriftWatch watch;
  for (int window = 0; window < 10; ++window) {
    EXPECT_EQ(count(watch, 32, window % 2 == 0 ? 1.05 : 1.0, 0.001).times, 0);
  }
  for (int window = 0; window < 4; ++window) {
    EXPECT_EQ(count(watch, 32, 1.05 + 0.03 * window, 0.001).times, 0);
  }
  EXPECT_EQ(count(watch, 32, 1.14, 0.001).times, 1);
  EXPECT_NEAR(watch.drift(kType), 1.14, 0.002);
  EXPECT_EQ(count(watch, 64, 1.0, 0.001).first, 64);
  EXPECT_EQ(watch.drift(kType), 0.0);
}

// 10 ms at 1,000 MHz and 20 ms at 500 MHz. 2 ms at the old clock, a tenth of the work, and the rest at the new one:
// 2 + 0.9 * 10 = 11 ms. If it had been asked for 1.5 ms ago, 0.5 ms are left: 0.5 + 0.975 * 10 = 10.25 ms.
TEST(ComputingTimes, RightAfterAChangeHaveAPartAtTheOldClock) {
  ComputingTimes times;
  times.add(0, Megahertz(1000), Seconds(0.010));
  times.add(0, Megahertz(500), Seconds(0.020));
  times.add(1, Megahertz(1000), Seconds(1.0));
  times.add(1, Megahertz(500), Seconds(2.0));
  times.set_settling(Seconds(0.03), Seconds(0.02));
  // 20 ms more or less, at clocks that differ twofold: 1 % of a second, and as much as 10 ms.
  EXPECT_EQ(times.after_change(0, Megahertz(1000), Megahertz(500), Seconds(0)), Seconds(0));
  EXPECT_NEAR(times.after_change(1, Megahertz(1000), Megahertz(500), Seconds(0)).value(), 0.02 + 0.99 * 1.0, 1e-12);
  EXPECT_NEAR(times.after_change(1, Megahertz(1000), Megahertz(500), Seconds(0.015)).value(), 0.005 + 0.9975 * 1.0,
              1e-12);
  EXPECT_EQ(times.after_change(0, Megahertz(1000), Megahertz(500), Seconds(0.03)), Seconds(0.010));
  EXPECT_EQ(times.after_change(1, Megahertz(1000), Megahertz(400), Seconds(0)), Seconds(0));
}

InstructionMeasurement measured(const char* instruction, double clock, double time, double energy) {
  return {instruction, Megahertz(clock), Seconds(time), Joules(energy), 40};
}

// At 1,200 MHz the time has grown by 4 %, at 1,000 MHz by 6 %: by 5 % half way, and by the nearer one outside.
TEST(RefreshedProfile, FollowsWhatWasMeasuredAgain) {
  std::vector<MeasurementReport> reports(2);
  reports[0].measurements = {measured("backward", 1400, 1.0, 100), measured("backward", 1200, 2.0, 90),
                             measured("forward", 1400, 0.5, 50)};
  reports[1].measurements = {measured("backward", 1100, 3.0, 80), measured("backward", 1000, 4.0, 70),
                             measured("backward", 900, 5.0, 60), measured("waiting", 1400, 1.0, 70)};
  refresh_operations(reports, {measured("backward", 1200, 2.08, 99), measured("backward", 1000, 4.24, 70),
                               measured("backward", 950, 9.9, 9)});
  const auto& first = reports[0].measurements;
  const auto& second = reports[1].measurements;
  EXPECT_NEAR(first[0].time.value(), 1.04, 1e-12);
  EXPECT_NEAR(first[0].energy.value(), 110, 1e-9);
  EXPECT_EQ(first[1].time, Seconds(2.08));
  EXPECT_EQ(first[1].energy, Joules(99));
  EXPECT_EQ(first[2].time, Seconds(0.5));
  EXPECT_NEAR(second[0].time.value(), 3.15, 1e-12);
  EXPECT_NEAR(second[0].energy.value(), 84, 1e-9);
  EXPECT_EQ(second[1].time, Seconds(4.24));
  EXPECT_NEAR(second[2].time.value(), 5.3, 1e-12);
  EXPECT_EQ(second[2].energy, Joules(60));
  EXPECT_EQ(second[3].energy, Joules(70));
  ASSERT_EQ(second.size(), 4u);
}

TEST(RefreshedProfile, IsScaledAtTheSamePower) {
  std::vector<MeasurementReport> reports(1);
  reports[0].measurements = {measured("backward", 1400, 1.0, 100), measured("forward", 1400, 0.5, 50),
                             measured("backward.first", 1400, 0.9, 90)};
  scale_operation(reports, "backward", 1.05);
  EXPECT_NEAR(reports[0].measurements[0].time.value(), 1.05, 1e-12);
  EXPECT_NEAR(reports[0].measurements[0].energy.value(), 105, 1e-9);
  EXPECT_EQ(reports[0].measurements[1].time, Seconds(0.5));
  EXPECT_NEAR(reports[0].measurements[2].time.value(), 0.945, 1e-12);
}

}  // namespace
}  // namespace flyball
