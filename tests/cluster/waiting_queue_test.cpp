#include "cluster/waiting_queue.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace flyball {
namespace {

// Group 0 costs 1 per unit of work, group 1 costs 3: jobs 10 (4), 11 (9) and 20 (3), 21 (6), 22 (12) by cost.
WaitingQueue two_groups() {
  WaitingQueue queue;
  queue.resize(2);
  queue.add(0, {{9.0, 11}, {4.0, 10}});
  queue.add(1, WaitingQueue::Place{2.0, 21});
  queue.add(1, WaitingQueue::Place{1.0, 20});
  queue.add(1, WaitingQueue::Place{4.0, 22});
  return queue;
}

double cost(std::size_t group, double work) { return group == 0 ? work : 3.0 * work; }

TEST(WaitingQueue, MergesGroupsByWhatTheirWorkCostsNow) {
  WaitingQueue queue = two_groups();
  queue.remove(0, {9.0, 11});
  EXPECT_EQ(queue.size(), 4u);
  std::vector<std::pair<int, double>> seen;
  for (auto walk = queue.walk(cost); !walk.done(); walk.pop()) seen.emplace_back(walk.front().job, walk.front().key);
  EXPECT_EQ(seen, (std::vector<std::pair<int, double>>{{20, 3.0}, {10, 4.0}, {21, 6.0}, {22, 12.0}}));
}

// Job 20 is walked past, then group 1 is dropped: what comes before a cost of 9 is 20, 10 and, of the group that is not
// looked at, 21 (6) but not 22 (12).
TEST(WaitingQueue, CountsAlsoThoseThatAreNotLookedAt) {
  const WaitingQueue queue = two_groups();
  auto walk = queue.walk(cost);
  EXPECT_EQ(walk.front().job, 20);
  walk.pop();
  EXPECT_EQ(walk.front().job, 10);
  walk.pop();
  EXPECT_EQ(walk.front().job, 21);
  walk.drop_group();
  EXPECT_EQ(walk.front().job, 11);
  EXPECT_EQ(walk.before(9.0, 11), 3u);
  walk.pop();
  EXPECT_TRUE(walk.done());
}

// Jobs 0 to 3 with 10, 9, 8 and 7 iterations. The first call finds 0 to 2 waiting; 3 arrives; 0 and 2 get GPUs, and 2
// loses them again; 1 is done. Who is said to arrive although it waits does not wait twice.
TEST(WaitingJobs, FollowWhoComesAndGoes) {
  ClusterState cluster;
  cluster.kinds.resize(1);
  for (int job = 0; job < 4; ++job) {
    cluster.jobs.emplace_back().iterations = 10.0 - job;
    if (job < 3) cluster.active.push_back(job);
  }
  const auto group_of = [](const ClusterJob& /*job*/) { return std::size_t{0}; };
  WaitingJobs jobs;
  jobs.read(cluster, {}, group_of);
  ClusterEvents events;
  events.arrived = {2, 3};
  jobs.read(cluster, events, group_of);
  Decision decision;
  decision.assignments = {{0, 1, 0}, {2, 1, 0}};
  jobs.note(decision);
  decision.assignments = {{2, 0, 0}};
  jobs.note(decision);
  events.arrived.clear();
  events.finished = {1};
  jobs.read(cluster, events, group_of);
  std::vector<int> seen;
  for (auto walk = jobs.queue.walk(cost); !walk.done(); walk.pop()) seen.push_back(walk.front().job);
  EXPECT_EQ(seen, (std::vector<int>{3, 2}));
}

}  // namespace
}  // namespace flyball
