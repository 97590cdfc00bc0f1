// Whether a rank that computes slower is found in time, and never where nothing has happened, in simulated worlds of
// which each has the faults of real ones. Real times play no part.
#include "client/pace_watch.h"
#include "support/figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace flyball {
namespace {

// What a rank's computations take over what its profile says, step by step.
//
// Noise of a computation 0.02 to 0.3 % and of a load 24 %, as recorded iterations have; a load takes up to 5 % of a
// microbatch's time, in half of all ranks. The profile is off by up to 2 %. Temperature moves the pace by up to 3 %
// from top to bottom, which takes 4 to 15 minutes, in steps of 0.2 to 5 s. Schedules change every few hundred steps,
// after which the profile is off by up to 0.3 % more or less. One of 200 steps stalls, for half a step up to 20.
class QuietRank {
 public:
  explicit QuietRank(unsigned seed) : random_(seed) {
    const double microbatches = uniform(4, 64);
    const double noise = std::exp(uniform(std::log(2e-4), std::log(3e-3)));
    const double loading = uniform(0, 1) < 0.5 ? uniform(0, 0.05) : 0.0;
    deviation_ = std::hypot(noise / std::sqrt(2 * microbatches), 0.24 * loading / std::sqrt(microbatches));
    offset_ = uniform(-0.02, 0.02);
    step_s_ = std::exp(uniform(std::log(0.2), std::log(5.0)));
    drift_ = uniform(0, 0.015);
    drift_rad_per_s_ = M_PI / uniform(240, 900);
    phase_ = uniform(0, 2 * M_PI);
  }

  // `slowdown`: of the computations in this step.
  double next(double slowdown = 1.0) {
    if (uniform(0, 1) < 1.0 / 300) bias_ = uniform(-0.003, 0.003);
    const double seconds = static_cast<double>(step_++) * step_s_;
    const double drift = drift_ * std::sin(phase_ + seconds * drift_rad_per_s_);
    const double pace = slowdown * (1.0 + offset_ + drift + bias_) * (1.0 + deviation_ * normal_(random_));
    return uniform(0, 1) < 1.0 / 200 ? pace + std::exp(uniform(std::log(0.5), std::log(20.0))) : pace;
  }

  double uniform(double from, double to) { return std::uniform_real_distribution<>(from, to)(random_); }
  [[nodiscard]] double deviation() const { return deviation_; }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  double deviation_ = 0.0;
  double offset_ = 0.0;
  double step_s_ = 0.0;
  double drift_ = 0.0;
  double drift_rad_per_s_ = 0.0;
  double phase_ = 0.0;
  double bias_ = 0.0;
  std::int64_t step_ = 0;
};

// 500 ranks of 10,000 steps, five million in all: none is found. With 95 % confidence there is less than one false
// alarm in 1.6 million steps (the rule of three).
TEST(PaceWatch, NobodyIsFoundWhereNothingHappens) {
  for (int seed = 0; seed < testing::tries(500, 20); ++seed) {
    QuietRank rank(static_cast<unsigned>(seed));
    PaceWatch watch;
    for (std::int64_t step = 0; step < 10'000; ++step) {
      const auto change = watch.count(step, Seconds(rank.next()), Seconds(1));
      ASSERT_FALSE(change) << "rank " << seed << " step " << step << " slow-down " << change->slowdown;
    }
  }
}

// 3 to 50 % in ranks of any kind, from some step on: found within five steps, with its size to 5 %, and likewise when
// it is over, but for one in a hundred: a stall among these steps, or drift that makes up for 3 %, tells it later or
// sooner. Where steps deviate by more than 0.37 %, only what exceeds eight deviations can be told so soon.
TEST(PaceWatch, SlowDownsAreFoundWithinFiveSteps) {
  std::vector<std::int64_t> late;       // steps until a slow-down was found
  std::vector<std::int64_t> late_over;  // and until its end was
  for (unsigned seed = 0; seed < 2000; ++seed) {
    QuietRank rank(seed + 1'000'000);
    const double least = std::max(0.03, 8.0 * rank.deviation());
    const double slowdown = 1.0 + std::exp(rank.uniform(std::log(least), std::log(0.5)));
    const auto from = static_cast<std::int64_t>(rank.uniform(40, 400));
    const auto until = from + static_cast<std::int64_t>(rank.uniform(20, 400));
    PaceWatch watch;
    std::vector<std::int64_t> at;  // when changes were told
    for (std::int64_t step = 0; step < until + 20; ++step) {
      const bool slow = step >= from && step < until;
      const auto change = watch.count(step, Seconds(rank.next(slow ? slowdown : 1.0)), Seconds(1));
      if (!change) continue;
      const bool known = !at.empty() && change->slowdown > 1.0 && at.back() < until;
      if (!known) at.push_back(step);
      if (change->slowdown > 1.0) {
        // Steps that stall, and drift, may be among those that tell.
        EXPECT_NEAR(change->slowdown / slowdown, 1.0, 0.05) << seed;
        EXPECT_NEAR(static_cast<double>(change->since), static_cast<double>(from), 5) << seed;
      }
    }
    ASSERT_EQ(at.size(), 2u) << seed << " " << slowdown << " " << rank.deviation();
    EXPECT_FALSE(watch.is_slow());
    late.push_back(at[0] - from + 1);
    late_over.push_back(at[1] - until + 1);
  }
  std::sort(late.begin(), late.end());
  EXPECT_GE(late.front(), 1);
  EXPECT_LE(late.back(), 5);
  EXPECT_LE(late[late.size() / 2], 3);
  const auto in_time = std::count_if(late_over.begin(), late_over.end(), [](auto l) { return l >= 1 && l <= 5; });
  EXPECT_GE(in_time, 1980);
  EXPECT_LE(*std::max_element(late_over.begin(), late_over.end()), 10);
}

// Steps of exactly what the profile says. Residuals are cut off at 2.2 allowances, so that three steps of 50 % reach
// the threshold of 2.5: 3 (2.2 - 1) = 3.6, and two do not: 2.4.
TEST(PaceWatch, ThreeStepsTellAndTwoDoNot) {
  PaceWatch watch;
  std::int64_t step = 0;
  const auto count = [&](double pace) { return watch.count(step++, Seconds(pace), Seconds(1)); };
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(count(1.0));
  EXPECT_FALSE(count(1.5));
  EXPECT_FALSE(count(1.5));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(count(1.0));
  EXPECT_FALSE(count(1.5));
  EXPECT_FALSE(count(1.5));
  const auto found = count(1.5);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->slowdown, 1.5, 0.005);  // the usual pace has followed the outliers a little
  EXPECT_EQ(found->since, 62);
  EXPECT_TRUE(watch.is_slow());
  // A part of it passes.
  EXPECT_FALSE(count(1.2));
  EXPECT_FALSE(count(1.2));
  const auto less = count(1.2);
  ASSERT_TRUE(less);
  EXPECT_NEAR(less->slowdown, 1.2, 0.005);
  EXPECT_FALSE(count(1.0));
  EXPECT_FALSE(count(1.0));
  const auto over = count(1.0);
  ASSERT_TRUE(over);
  EXPECT_EQ(over->slowdown, 1.0);
  EXPECT_EQ(over->since, 68);
}

// 0.01 % a step is followed for 5 %; what goes on is a slow-down against the profile.
TEST(PaceWatch, DriftIsFollowedUpToFivePerCent) {
  PaceWatch watch;
  double pace = 1.0;
  std::int64_t step = 0;
  std::optional<PaceWatch::Change> found;
  while (!found && pace < 1.2) {
    found = watch.count(step++, Seconds(pace), Seconds(1));
    pace *= 1.0001;
  }
  ASSERT_TRUE(found);
  EXPECT_GT(pace, 1.05);
  EXPECT_LT(pace, 1.08);
  EXPECT_NEAR(found->slowdown, pace, 0.01);
}

// A GPU that was slow when it was profiled becomes faster, and slow again: as slow as planned is no slow-down.
TEST(PaceWatch, AsFastAsProfiledIsNotSlow) {
  PaceWatch watch;
  for (std::int64_t step = 0; step < 300; ++step) {
    const bool faster = step >= 100 && step < 200;
    EXPECT_FALSE(watch.count(step, Seconds(faster ? 0.8 : 1.0), Seconds(1)));
  }
  EXPECT_FALSE(watch.is_slow());
}

// Work that is only queued takes no time, and tells nothing.
TEST(PaceWatch, QueueingIsNotComputing) {
  PaceWatch watch;
  for (std::int64_t step = 0; step < 100; ++step) EXPECT_FALSE(watch.count(step, Seconds(0.001), Seconds(1)));
  EXPECT_FALSE(watch.is_watching());
  for (std::int64_t step = 100; step < 130; ++step) EXPECT_FALSE(watch.count(step, Seconds(1.0), Seconds(1)));
  EXPECT_TRUE(watch.is_watching());
}

}  // namespace
}  // namespace flyball
