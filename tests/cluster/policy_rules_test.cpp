#include "cluster/policy_rules.h"

#include <gtest/gtest.h>

#include <vector>

namespace flyball {
namespace {

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
