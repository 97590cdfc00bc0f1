#include "cluster/fitting_queue.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

namespace flyball {
namespace {

// Jobs 1 (2 GPUs, at 5.0), 2 (1 GPU, at 7.0), 3 (2 GPUs, at 5.0) and 4 (8 GPUs, at 1.0).
TEST(FittingQueue, FindsTheFirstForWhomThereIsRoom) {
  FittingQueue<double> queue;
  for (const auto& [gpus, place] :
       std::vector<std::pair<int, JobPlace<double>>>{{2, {5.0, 3}}, {2, {5.0, 1}}, {1, {7.0, 2}}, {8, {1.0, 4}}}) {
    queue.add(gpus, place);
  }
  EXPECT_EQ(queue.first(0), std::nullopt);
  EXPECT_EQ(queue.first(1)->job, 2);
  EXPECT_EQ(queue.first(7)->job, 1);
  EXPECT_EQ(queue.first(8)->job, 4);
  queue.remove(2, {5.0, 1});
  EXPECT_EQ(queue.first(7)->job, 3);
  queue.remove(2, {5.0, 3});
  EXPECT_EQ(queue.first(7)->job, 2);
  EXPECT_EQ(queue.size(), 2u);
}

// One look at each number of GPUs, however many wait: 3 where 1, 2 and 4 are asked for.
TEST(FittingQueue, LooksAtNoMoreInALongQueue) {
  for (const int jobs : {50, 5000}) {
    FittingQueue<double> queue;
    for (int job = 0; job < jobs; ++job) queue.add(1 << job % 3, {1.0 * job, job});
    EXPECT_EQ(queue.first(4)->job, 0);
    EXPECT_EQ(queue.looked_at(), 3u) << jobs;
  }
}

}  // namespace
}  // namespace flyball
