#include "base/median.h"

#include <gtest/gtest.h>

namespace flyball {
namespace {

TEST(Median, OfAnOddNumberIsTheOneInTheMiddle) {
  const std::vector<double> values = {5.0, 1.0, 9.0, 2.0, 4.0};
  EXPECT_EQ(median(values), 4.0);
  EXPECT_EQ(lower_median(values), 4.0);
  EXPECT_EQ(median(std::vector{7}), 7);
  EXPECT_EQ(lower_median(std::vector{7}), 7);
}

TEST(Median, OfAnEvenNumberIsOneOfTheTwo) {
  const std::vector<double> values = {5.0, 1.0, 9.0, 2.0};
  EXPECT_EQ(median(values), 5.0);
  EXPECT_EQ(lower_median(values), 2.0);
}

}  // namespace
}  // namespace flyball
