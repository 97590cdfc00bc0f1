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

// Four GPUs; job 0 has 2 of them and job 1 has 1. Offered in the order 2 (3 GPUs), 0, 1, 3 (1 GPU): 2 gets its three,
// 0 does not fit and loses its two, 1 keeps its one, and nothing is left for 3.
TEST(Dealing, ServesInOrderAndPassesOverWhatDoesNotFit) {
  ClusterState cluster;
  cluster.spec.nodes = 1;
  cluster.kinds.resize(1);
  cluster.kinds[0].speeds = 1;
  for (const auto& [asked, has] : std::vector<std::pair<int, int>>{{2, 2}, {1, 1}, {3, 0}, {1, 0}}) {
    ClusterJob& job = cluster.jobs.emplace_back();
    job.requested_gpus = asked;
    job.gpus = has;
  }
  Decision decision;
  const SpeedRule speed = SpeedRule::one_clock({});
  Dealing dealing(cluster, speed, decision);
  EXPECT_TRUE(dealing.offer(2));
  EXPECT_FALSE(dealing.offer(0));
  EXPECT_TRUE(dealing.offer(1));
  EXPECT_EQ(dealing.left(), 0);
  EXPECT_FALSE(dealing.offer(3));
  ASSERT_EQ(decision.assignments.size(), 2u);
  EXPECT_EQ(decision.assignments[0].job, 2);
  EXPECT_EQ(decision.assignments[0].gpus, 3);
  EXPECT_EQ(decision.assignments[1].job, 0);
  EXPECT_EQ(decision.assignments[1].gpus, 0);
}

}  // namespace
}  // namespace flyball
