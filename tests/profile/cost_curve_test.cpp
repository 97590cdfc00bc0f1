#include "profile/cost_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace flyball {
namespace {

constexpr Watts kNoBlocking{0.0};

ClockOption option(double mhz, double ms, double joules) {
  return {Megahertz(mhz), Seconds(ms * 1e-3), Joules(joules)};
}

std::vector<double> clocks(const std::vector<ClockOption>& options) {
  std::vector<double> values;
  for (const ClockOption& each : options) values.push_back(each.frequency.value());
  return values;
}

TEST(NetJoules, SubtractWhatABlockedGpuWouldDraw) {
  EXPECT_DOUBLE_EQ(net_joules(option(1410, 20, 6), Watts(75)), 4.5);  // 6 J - 75 W * 20 ms
}

TEST(ParetoOptions, DropsWhatIsSlowerAndDearer) {
  const std::vector<ClockOption> measured = {option(1400, 10, 10), option(1300, 11, 9), option(1200, 12, 9.5),
                                             option(1100, 13, 8), option(1000, 12.5, 8)};
  // 1200 is slower than 1300 and costs more; 1100 is slower than 1000 and costs the same.
  EXPECT_EQ(clocks(pareto_options(measured, kNoBlocking)), (std::vector<double>{1400, 1300, 1000}));
}

TEST(ParetoOptions, TheHighestClockFallsWhenAnotherIsFasterAndCheaper) {
  const std::vector<ClockOption> throttled = {option(1400, 10.1, 11), option(1390, 10, 10), option(1300, 11, 9)};
  EXPECT_EQ(clocks(pareto_options(throttled, kNoBlocking)), (std::vector<double>{1390, 1300}));
}

TEST(ParetoOptions, BlockingPowerDecidesWhatSlownessIsWorth) {
  // Gross, the slow clock takes 0.5 J more; net of 100 W it takes 9 - 1 = 8 J against 8.5 - 0.8 = 7.7 J, so it stays
  // dominated. Net of 400 W it takes 9 - 4 = 5 J against 8.5 - 3.2 = 5.3 J and is worth having.
  const std::vector<ClockOption> measured = {option(1400, 8, 8.5), option(1300, 10, 9)};
  EXPECT_EQ(pareto_options(measured, Watts(100)).size(), 1u);
  EXPECT_EQ(pareto_options(measured, Watts(400)).size(), 2u);
}

TEST(ParetoOptions, NoiseRuleComparesWithTheLastKept) {
  const std::vector<ClockOption> measured = {option(1400, 10, 10.0), option(1390, 11, 9.95), option(1380, 12, 9.91),
                                             option(1370, 13, 9.88), option(1360, 14, 9.7)};
  // A step must save more than 1 % of the last kept option's gross energy, 0.1 J below 10 J: 1390 saves 0.05, 1380
  // 0.09, and 1370, 0.12 below the last kept, stays. Then 0.0988 J are asked for and 1360 saves 0.18.
  EXPECT_EQ(clocks(pareto_options(measured, kNoBlocking, 0.01)), (std::vector<double>{1400, 1370, 1360}));
  EXPECT_EQ(pareto_options(measured, kNoBlocking, 0.0).size(), 5u);
  EXPECT_EQ(clocks(pareto_options(measured, kNoBlocking, 0.5)), (std::vector<double>{1400}));
}

TEST(ParetoOptions, TimesThatAreOneNanosecondApartOrLessAreOne) {
  const std::vector<ClockOption> measured = {option(1400, 10, 10), option(1300, 10 + 1e-7, 9)};
  EXPECT_EQ(clocks(pareto_options(measured, kNoBlocking)), (std::vector<double>{1300}));
}

TEST(HullCurve, DropsWhatLiesAboveAChord) {
  // From (10, 10) to (12, 4): the chord at 11 ms is 7, so (11, 8) lies above it. (14, 3) falls less steeply and stays.
  const std::vector<ClockOption> pareto = {option(4, 10, 10), option(3, 11, 8), option(2, 12, 4), option(1, 14, 3)};
  const CostCurve curve = hull_curve(pareto, kNoBlocking);
  ASSERT_EQ(curve.size(), 3u);
  EXPECT_EQ(curve[1].time, 12'000'000);
  EXPECT_DOUBLE_EQ(curve[1].net_joules, 4.0);
}

double value_at(const CostCurve& curve, Nanoseconds t) {
  const auto right = std::find_if(curve.begin(), curve.end(), [&](const CurveVertex& v) { return v.time >= t; });
  if (right->time == t) return right->net_joules;
  const auto left = right - 1;
  const double share = static_cast<double>(t - left->time) / static_cast<double>(right->time - left->time);
  return left->net_joules + share * (right->net_joules - left->net_joules);
}

void expect_strictly_convex_and_falling(const CostCurve& curve) {
  double slope_before = -1e300;
  for (std::size_t i = 1; i < curve.size(); ++i) {
    ASSERT_LT(curve[i - 1].time, curve[i].time);
    const double slope =
        (curve[i].net_joules - curve[i - 1].net_joules) / static_cast<double>(curve[i].time - curve[i - 1].time);
    ASSERT_LT(slope, 0.0);
    ASSERT_GT(slope, slope_before);
    slope_before = slope;
  }
}

TEST(HullCurve, IsConvexBelowAllOptionsAndTouchesTheExtremes) {
  std::mt19937 random(20240607);
  std::uniform_real_distribution<double> ms(5.0, 30.0);
  std::uniform_real_distribution<double> joules(1.0, 12.0);
  for (int round = 0; round < 500; ++round) {
    const Watts blocking(round % 3 * 60.0);
    std::vector<ClockOption> measured;
    for (int i = 0; i <= round % 80; ++i) measured.push_back(option(1410 - 15 * i, ms(random), joules(random)));
    const std::vector<ClockOption> pareto = pareto_options(measured, blocking);
    const CostCurve curve = hull_curve(pareto, blocking);
    expect_strictly_convex_and_falling(curve);
    EXPECT_EQ(curve.front().time, to_nanoseconds(pareto.front().time));
    EXPECT_EQ(curve.back().time, to_nanoseconds(pareto.back().time));
    EXPECT_EQ(curve.front().net_joules, net_joules(pareto.front(), blocking));
    EXPECT_EQ(curve.back().net_joules, net_joules(pareto.back(), blocking));
    for (const ClockOption& each : measured) {
      const Nanoseconds t = to_nanoseconds(each.time);
      const double below = t > curve.back().time ? curve.back().net_joules : value_at(curve, t);
      ASSERT_LE(below, net_joules(each, blocking) + 1e-9);
    }
  }
}

// Options whose net energy is exactly a exp(b (t - t0)) + c.
std::vector<ClockOption> on_exponential(double a, double b, double c, double t0, double stretch, Watts blocking) {
  std::vector<ClockOption> options;
  constexpr int kClocks = 30;
  for (int i = 0; i < kClocks; ++i) {
    const double t = t0 * (1.0 + stretch * i / (kClocks - 1));
    options.push_back(
        {Megahertz(1410 - 15 * i), Seconds(t), Joules(a * std::exp(b * (t - t0)) + c + blocking.value() * t)});
  }
  return options;
}

TEST(ExponentialFit, RecoversKnownParameters) {
  const Watts blocking(70);
  // Steep and flat, small and large: forwards of milliseconds, whole layers of seconds.
  for (const double t0 : {0.004, 0.05, 2.0}) {
    for (const double steepness : {1.0, 3.0, 6.0}) {  // b over the whole range of times
      const double stretch = 0.6;
      const double b = -steepness / (t0 * stretch);
      const double a = 80.0 * t0;
      const double c = 120.0 * t0;
      const ExponentialFit fit = fit_exponential(on_exponential(a, b, c, t0, stretch, blocking), blocking);
      EXPECT_NEAR(fit.a, a, 1e-4 * a);
      EXPECT_NEAR(fit.b, b, -1e-4 * b);
      EXPECT_NEAR(fit.c, c, 1e-4 * c);
      EXPECT_EQ(fit.origin, Seconds(t0));
      EXPECT_LT(fit.rms_relative, 1e-6);
    }
  }
}

TEST(ExponentialFit, ReportsItsResidual) {
  // Net energies 4, 1, 0 at 0, 1, 2 lie on an exponential of quotient 1/3: (4 - 1) / (1 - 0) = 3. Moving one of four
  // points off it by 0.1 J leaves a residual, at most that of not fitting at all: sqrt(0.1^2 / 4) over the mean energy.
  std::vector<ClockOption> options = on_exponential(4, -100, 1, 0.01, 1.0, kNoBlocking);
  options[15].energy += Joules(0.1);
  double mean = 0.0;
  for (const ClockOption& each : options) mean += each.energy.value() / static_cast<double>(options.size());
  const ExponentialFit fit = fit_exponential(options, kNoBlocking);
  EXPECT_GT(fit.rms_relative, 0.0);
  EXPECT_LE(fit.rms_relative, std::sqrt(0.01 / static_cast<double>(options.size())) / mean * (1 + 1e-9));
}

TEST(ExponentialCurve, IsThePolylineOfTheFit) {
  const auto options = on_exponential(4, -100, 1, 0.01, 1.0, kNoBlocking);
  const CostCurve curve = exponential_curve(options, kNoBlocking, 1'000'000);
  expect_strictly_convex_and_falling(curve);
  ASSERT_EQ(curve.size(), 11u);  // 10, 11, ..., 20 ms
  EXPECT_EQ(curve.front().time, 10'000'000);
  EXPECT_EQ(curve.back().time, 20'000'000);
  EXPECT_NEAR(curve[5].net_joules, 4 * std::exp(-0.5) + 1, 1e-5);
}

TEST(ExponentialCurve, FallsBackToTheHullBelowThreeOptions) {
  const std::vector<ClockOption> two = {option(1400, 10, 10), option(1300, 11, 9)};
  EXPECT_EQ(exponential_curve(two, kNoBlocking, 1'000).size(), 2u);
  EXPECT_EQ(exponential_curve({two[0]}, kNoBlocking, 1'000).size(), 1u);
}

}  // namespace
}  // namespace flyball
