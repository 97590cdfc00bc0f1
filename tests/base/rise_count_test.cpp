#include "base/rise_count.h"

#include <gtest/gtest.h>

namespace flyball {
namespace {

// 9 has none before it, 9.1 and 9.2 rise, 9.2 again does not, 9.3 does.
TEST(RiseCount, CountsRisesInARow) {
  RiseCount count;
  EXPECT_EQ(count.add(Joules(9.0)), 0);
  EXPECT_EQ(count.add(Joules(9.1)), 1);
  EXPECT_EQ(count.add(Joules(9.2)), 2);
  EXPECT_EQ(count.add(Joules(9.2)), 0);
  EXPECT_EQ(count.add(Joules(9.3)), 1);
  EXPECT_EQ(count.rises(), 1);
}

}  // namespace
}  // namespace flyball
