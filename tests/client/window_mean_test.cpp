#include "client/window_mean.h"

#include <gtest/gtest.h>

#include <cmath>

namespace flyball {
namespace {

// Six windows of two steps with means 9, 11, 9, 11, 9 and 11: the mean is 10, the sum of squared deviations 6. The
// variance of the mean is 6 / 6 / 5 = 1/5, and Student's t with five degrees of freedom has 5/3 of it: 1/3.
TEST(WindowMean, ItsErrorFollowsFromHowWindowsDiffer) {
  WindowMean mean;
  for (int i = 0; i < 6; ++i) mean.add(2, 2.0 * (i % 2 == 0 ? 9.0 : 11.0));
  EXPECT_EQ(mean.windows(), 6);
  EXPECT_NEAR(mean.mean(), 10.0, 1e-12);
  EXPECT_NEAR(mean.error(), std::sqrt(1.0 / 3.0), 1e-12);
}

// Windows of 1, 1, 1, 1 and 6 steps with means 10, 10, 10, 10 and 20: the mean is 160 / 10 = 16. The squared weights
// times the squared deviations are 4 * 36 + 36 * 16 = 720; times 5 / 2, of 100 squared steps: 18.
TEST(WindowMean, LongWindowsCountForMore) {
  WindowMean mean;
  for (int i = 0; i < 4; ++i) mean.add(1, 10.0);
  mean.add(6, 120.0);
  EXPECT_NEAR(mean.mean(), 16.0, 1e-12);
  EXPECT_NEAR(mean.error(), std::sqrt(18.0), 1e-12);
}

// The six windows of the first test, in two parts that begin with different values.
TEST(WindowMean, PartsAreAddedUp) {
  WindowMean mean;
  WindowMean rest;
  for (int i = 0; i < 3; ++i) mean.add(2, 2.0 * (i % 2 == 0 ? 9.0 : 11.0));
  for (int i = 3; i < 6; ++i) rest.add(2, 2.0 * (i % 2 == 0 ? 9.0 : 11.0));
  mean.add(rest);
  EXPECT_EQ(mean.windows(), 6);
  EXPECT_NEAR(mean.mean(), 10.0, 1e-12);
  EXPECT_NEAR(mean.error(), std::sqrt(1.0 / 3.0), 1e-12);
}

TEST(WindowMean, FewWindowsTellLittle) {
  WindowMean mean;
  EXPECT_EQ(mean.mean(), 0.0);
  EXPECT_EQ(mean.error(), 0.0);
  for (int i = 0; i < 4; ++i) mean.add(1, 10.0);
  EXPECT_NEAR(mean.error(), 1.0, 1e-12);
  mean.add(1, 10.0);
  EXPECT_NEAR(mean.error(), 5e-3 / std::sqrt(5.0), 1e-12);
}

}  // namespace
}  // namespace flyball
