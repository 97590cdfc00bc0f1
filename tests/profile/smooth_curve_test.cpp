#include "profile/smooth_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace flyball {
namespace {

std::vector<double> falling_places(int count) {
  std::vector<double> places;
  for (int i = 0; i < count; ++i) places.push_back(1000.0 - 15.0 * i);
  return places;
}

// Nothing to smooth: no noise, and every draw is the line itself.
TEST(SmoothCurve, ALineHasNoNoise) {
  const std::vector<double> places = falling_places(20);
  std::vector<double> values;
  for (const double place : places) values.push_back(3.0 - 0.002 * place);
  const SmoothCurve curve(places, values);
  EXPECT_LT(curve.noise(), 1e-9);
  NoiseSource random(1);
  std::vector<double> one(20);
  std::vector<double> other(20);
  curve.draw(random, one, other);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_NEAR(one[i], values[i], 1e-9);
    EXPECT_NEAR(other[i], values[i], 1e-9);
  }
}

// Points one above and one below the line y = 0 in turn, forty of them. The line of least squares through (-1)^i has
// the slope sum (i - 19.5)(-1)^i / sum (i - 19.5)^2 = -20 / 5330; what is left are 40 - 400 / 5330 = 39.925, of 38
// degrees of freedom: a variance of 1.0507. A curve that followed the points would have to bend by 4 from point to
// point.
TEST(SmoothCurve, PointsInTurnAboveAndBelowAreNoise) {
  const std::vector<double> places = falling_places(40);
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) values.push_back(i % 2 == 0 ? 1.0 : -1.0);
  const SmoothCurve curve(places, values);
  EXPECT_NEAR(curve.noise(), std::sqrt(1.0507), 0.05);
  // The mean of 40 points is known to 1 / sqrt(40) = 0.16 in the middle.
  NoiseSource random(1);
  std::vector<double> one(40);
  std::vector<double> other(40);
  double squares = 0.0;
  for (int draw = 0; draw < 200; ++draw) {
    curve.draw(random, one, other);
    EXPECT_NEAR(one[20] + other[20], 0.0, 0.5);  // one on each side of the mean curve
    squares += one[20] * one[20];
  }
  EXPECT_GT(std::sqrt(squares / 200), 0.1);
  EXPECT_LT(std::sqrt(squares / 200), 0.5);
}

// A parabola is no noise, and neither is a corner at the highest clock: five times as far off as the noise.
TEST(SmoothCurve, ACurveAndACornerAtTheTopAreNotNoise) {
  const std::vector<double> places = falling_places(50);
  NoiseSource random(7);
  std::vector<double> values;
  for (const double place : places)
    values.push_back(1e-6 * (place - 600.0) * (place - 600.0) + 0.001 * random.normal());
  values[0] += 0.005;
  const SmoothCurve curve(places, values);
  // Of 50 points the deviation is known to a tenth.
  EXPECT_NEAR(curve.noise(), 0.001, 0.0003);
  std::vector<double> one(50);
  std::vector<double> other(50);
  curve.draw(random, one, other);
  EXPECT_NEAR(0.5 * (one[0] + other[0]), values[0], 0.002);
}

TEST(SmoothCurve, ClocksMayBeUnevenlySpaced) {
  NoiseSource random(3);
  std::vector<double> places;
  std::vector<double> values;
  for (double place = 1500.0; place > 600.0; place -= 5.0 + 20.0 * random.uniform()) {
    places.push_back(place);
    values.push_back(1000.0 / place + 0.002 * random.normal());
  }
  EXPECT_NEAR(SmoothCurve(places, values).noise(), 0.002, 0.0005);
}

}  // namespace
}  // namespace flyball
