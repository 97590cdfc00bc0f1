#include "cluster/policy_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cluster/random.h"

namespace flyball {
namespace {

// Whatever changed since the last time: nothing, a few, all; some have left and others have come.
TEST(SortAgain, SortsAsSortingAnewDoes) {
  Random random(11);
  std::vector<std::pair<double, int>> items;
  std::vector<std::pair<double, int>> apart;
  int next = 0;
  for (int round = 0; round < 400; ++round) {
    for (int come = static_cast<int>(random.below(4)); come > 0; --come) items.emplace_back(random.uniform(), next++);
    std::erase_if(items, [&](const auto&) { return random.uniform() < 0.02; });
    const double share = round % 4 == 0 ? 0.0 : round % 4 == 1 ? 1.0 : 0.1;
    for (auto& [key, index] : items) {
      if (random.uniform() < share) key = random.uniform() < 0.3 ? 0.5 : random.uniform();  // some keys are alike
    }
    std::vector<std::pair<double, int>> expected = items;
    std::sort(expected.begin(), expected.end());
    sort_again(items, apart);
    ASSERT_EQ(items, expected) << round;
  }
  std::reverse(items.begin(), items.end());
  sort_again(items, apart);
  EXPECT_TRUE(std::is_sorted(items.begin(), items.end()));
}

}  // namespace
}  // namespace flyball
