// The interval of a run's sum: against Student's, by hand, and held against simulated series.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <numbers>
#include <random>
#include <vector>

#include "forecast/sum_interval.h"

namespace flyball {
namespace {

constexpr CorrelationRange kIndependent{0.0, 0.0};

TEST(SumInterval, OfIndependentMeasurementsIsStudents) {
  // 4 and 6: mean 5, standard deviation sqrt 2. The sum of 10 others errs by 10 sqrt 2 sqrt(1/2 + 1/10) = 10.95445;
  // Student's t with one degree of freedom is 6.313752 at 95 %.
  EXPECT_NEAR(*sum_half_width(std::vector<double>{4.0, 6.0}, 10.0, 0.9, kIndependent), 6.313752 * 10.95445, 1e-3);
  // 1 to 5: standard deviation sqrt 2.5, sqrt(1/5 + 1/100); t with four is 2.131847.
  EXPECT_NEAR(*sum_half_width(std::vector<double>{1, 2, 3, 4, 5}, 100.0, 0.9, kIndependent),
              100.0 * 2.131847 * std::sqrt(2.5 * 0.21), 1e-3);
}

TEST(SumInterval, OfOneKnownCorrelation) {
  // 0, 1, 3 with correlation 0.5; R^-1 = 4/3 (1 -1/2 0; -1/2 5/4 -1/2; 0 -1/2 1), 1'R^-1 1 = 4/3 x 5/4 = 5/3.
  // Centre: (0 + 0.5 x 1 + 3) / (1 + 0.5 + 1) = 1.4. Deviations -1.4, -0.4, 1.6; squares
  // 1.96 + 4/3 (0.3^2 + 1.8^2) = 6.4, over two degrees of freedom 3.2. One further value: variance
  // 3.2 (3/5 + 1) = 5.12. Round the mean 4/3 the half width h solves T((h - 1/15) / 2.262742) +
  // T((h + 1/15) / 2.262742) - 1 = 0.5 with two degrees of freedom; without the 1/15 it would be 0.816497 x 2.262742.
  const double half = *sum_half_width(std::vector<double>{0, 1, 3}, 1.0, 0.5, {0.5, 0.5});
  const auto student2 = [](double t) { return 0.5 + t / (2.0 * std::sqrt(2.0 + t * t)); };
  EXPECT_NEAR(student2((half - 1.0 / 15.0) / 2.262742) + student2((half + 1.0 / 15.0) / 2.262742) - 1.0, 0.5, 1e-6);
  EXPECT_NEAR(half, 0.816497 * 2.262742, 0.005);
}

TEST(SumInterval, TwoMeasurementsSayNothingOfTheCorrelation) {
  // Every correlation r explains two values equally well: squares are 0.5 / (1 - r), 1'R^-1 1 is 2 / (1 + r), and the
  // value to come is Cauchy's with the scale sqrt(0.5 / (1 - r) ((1 + r) / 2 + 1)).
  const double half = *sum_half_width(std::vector<double>{4.5, 5.5}, 1.0, 0.9);
  double inside = 0.0;
  constexpr int kSteps = 4000;
  for (int k = 0; k < kSteps; ++k) {
    const double r = 0.95 * (2.0 * (k + 0.5) / kSteps - 1.0);
    const double scale = std::sqrt(0.5 / (1.0 - r) * ((1.0 + r) / 2.0 + 1.0));
    inside += 2.0 / std::numbers::pi * std::atan(half / scale) / kSteps;
  }
  EXPECT_NEAR(inside, 0.9, 1e-3);
}

TEST(SumInterval, WithAPriorOneMeasurementIsEnough) {
  // A standard deviation of 2 worth one measurement: the sum of 4 after a single value errs by 4 x 2 sqrt(1 + 1/4), and
  // Student's t with one degree of freedom is 6.313752 at 95 %.
  EXPECT_NEAR(*sum_half_width(std::vector<double>{10.0}, 4.0, 0.9, kIndependent, {2.0, 1.0}),
              6.313752 * 8.0 * std::sqrt(1.25), 1e-3);
  // 4 and 6 with a standard deviation of 3 worth two: (2 x 9 + 2) / 3 with three degrees of freedom, t is 2.353363.
  EXPECT_NEAR(*sum_half_width(std::vector<double>{4.0, 6.0}, 10.0, 0.9, kIndependent, {3.0, 2.0}),
              10.0 * 2.353363 * std::sqrt(20.0 / 3.0 * 0.6), 1e-3);
  // Equal measurements do not make it certain: 2 x 9 / 4 with four degrees of freedom, t is 2.131847.
  EXPECT_NEAR(*sum_half_width(std::vector<double>{5.0, 5.0, 5.0}, 6.0, 0.9, kIndependent, {3.0, 2.0}),
              6.0 * 2.131847 * std::sqrt(4.5 * 0.5), 1e-3);
}

TEST(SumInterval, Edges) {
  EXPECT_FALSE(sum_half_width({}, 10.0, 0.9));
  EXPECT_FALSE(sum_half_width(std::vector<double>{3.0}, 10.0, 0.9));
  EXPECT_EQ(sum_half_width(std::vector<double>{3.0, 3.0, 3.0}, 10.0, 0.9), 0.0);
  const std::vector<double> few = {1.0, 1.2, 0.9, 1.1};
  EXPECT_GT(*sum_half_width(few, 10.0, 0.99), *sum_half_width(few, 10.0, 0.9));
  // In other units the same.
  const std::vector<double> large = {1e12, 1.2e12, 0.9e12, 1.1e12};
  EXPECT_NEAR(*sum_half_width(large, 10.0, 0.9) / *sum_half_width(few, 10.0, 0.9), 1e12, 1e6);
  // So small that their squares are not numbers of a double any more.
  const std::vector<double> small = {1e-300, 1.2e-300, 0.9e-300, 1.1e-300};
  EXPECT_NEAR(*sum_half_width(small, 10.0, 0.9, {}, {1e-300, 2.0}) / *sum_half_width(few, 10.0, 0.9, {}, {1.0, 2.0}),
              1e-300, 1e-306);
}

// Uniform in (0, 1) and normal numbers that are the same with every standard library.
double uniform(std::mt19937_64& random) { return (static_cast<double>(random() >> 11) + 0.5) / 9007199254740992.0; }
double normal(std::mt19937_64& random) {
  return std::sqrt(-2.0 * std::log(uniform(random))) * std::cos(2.0 * std::numbers::pi * uniform(random));
}

TEST(SumInterval, HoldsTheSumAsOftenAsItSaysOverItsCorrelations) {
  // Series whose correlation is drawn from the range: of 400 intervals at 90 %, 360 hold the sum of the next 50, with a
  // standard deviation of 6; four of them either way.
  for (const std::size_t measured : {3u, 8u, 30u}) {
    std::mt19937_64 random(measured);
    int held = 0;
    for (int run = 0; run < 400; ++run) {
      const double correlation = -0.95 + 1.9 * uniform(random);
      std::vector<double> values;
      double sum = 0.0;
      double state = normal(random);
      for (std::size_t k = 0; k < measured + 50; ++k) {
        (k < measured ? values.emplace_back(0.0) : sum) += 100.0 + state;
        state = correlation * state + std::sqrt(1.0 - correlation * correlation) * normal(random);
      }
      double mean = 0.0;
      for (const double value : values) mean += value / static_cast<double>(measured);
      if (std::abs(sum - 50.0 * mean) <= *sum_half_width(values, 50.0, 0.9)) ++held;
    }
    EXPECT_GE(held, 336) << measured;
    EXPECT_LE(held, 384) << measured;
  }
}

}  // namespace
}  // namespace flyball
