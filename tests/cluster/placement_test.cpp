#include "cluster/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "cluster/random.h"

namespace flyball {
namespace {

// No GPU twice, blocks within nodes, counts right.
void expect_consistent(const Placement& placement, const std::map<int, int>& jobs) {
  std::set<std::pair<int, int>> gpus;
  int held = 0;
  for (const auto& [job, size] : jobs) {
    int count = 0;
    for (const GpuBlock& block : placement.blocks(job)) {
      EXPECT_LE(block.first + block.count, placement.gpus_per_node());
      for (int gpu = block.first; gpu < block.first + block.count; ++gpu) {
        EXPECT_TRUE(gpus.emplace(block.node, gpu).second) << "a GPU has two jobs";
      }
      count += block.count;
    }
    EXPECT_EQ(count, size);
    held += size;
  }
  EXPECT_EQ(placement.free_gpus(), placement.nodes() * placement.gpus_per_node() - held);
}

int partial_nodes_free(const Placement& placement) {
  int free = 0;
  for (int node = 0; node < placement.nodes(); ++node) {
    const int used = placement.used_on(node);
    if (used > 0) free += placement.gpus_per_node() - used;
  }
  return free;
}

// A node of 4: two jobs of one GPU lie beside each other, one of two in the other half.
TEST(Packed, TakesTheSmallestBlockThatFits) {
  Placement placement(PlacementRule::kPacked, 2, 4);
  ASSERT_TRUE(placement.place(0, 1));
  ASSERT_TRUE(placement.place(1, 2));
  ASSERT_TRUE(placement.place(2, 1));
  EXPECT_EQ(placement.blocks(0)[0], (GpuBlock{0, 0, 1}));
  EXPECT_EQ(placement.blocks(2)[0], (GpuBlock{0, 1, 1}));
  EXPECT_EQ(placement.blocks(1)[0], (GpuBlock{0, 2, 2}));
  EXPECT_EQ(placement.used_on(1), 0);
  // Whole nodes for what is larger than one.
  EXPECT_FALSE(placement.place(3, 8));
  ASSERT_TRUE(placement.place(3, 4));
  EXPECT_EQ(placement.blocks(3)[0], (GpuBlock{1, 0, 4}));
}

// Two nodes of 2 with one GPU free on each: a job of 2 fits only after one of the others has moved.
TEST(Packed, MigrationMakesRoom) {
  Placement placement(PlacementRule::kPacked, 2, 2);
  for (int job = 0; job < 4; ++job) ASSERT_TRUE(placement.place(job, 1));
  placement.release(0);
  placement.release(2);
  EXPECT_FALSE(placement.place(4, 2));
  EXPECT_EQ(placement.compact(), std::vector<int>{3});
  EXPECT_TRUE(placement.place(4, 2));
}

TEST(Packed, ANodeThatIsOnComesFirst) {
  Placement placement(PlacementRule::kPacked, 3, 2);
  placement.set_powered(0, false);
  placement.set_powered(1, false);
  ASSERT_TRUE(placement.place(0, 2));
  EXPECT_EQ(placement.blocks(0)[0].node, 2);
  ASSERT_TRUE(placement.place(1, 1));
  EXPECT_EQ(placement.blocks(1)[0].node, 0);
}

// Whatever happened before: after compacting, at most one block of each size is free on nodes in use (their free GPUs
// are then fewer than one node), any power of two that is free in all fits, and no job of several nodes shares one.
TEST(Packed, NothingIsFragmentedAfterCompacting) {
  for (const int per_node : {1, 2, 4, 8, 16, 64}) {
    Random random(static_cast<std::uint64_t>(per_node));
    const int nodes = 6;
    Placement placement(PlacementRule::kPacked, nodes, per_node);
    std::map<int, int> jobs;
    int next = 0;
    for (int step = 0; step < 1500; ++step) {
      if (jobs.empty() || random.uniform() < 0.55) {
        const int size =
            1 << random.below(static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(per_node))) + 1);
        if (placement.place(next, size)) jobs[next] = size;
        ++next;
      } else {
        auto victim = jobs.begin();
        std::advance(victim, random.below(jobs.size()));
        placement.release(victim->first);
        jobs.erase(victim);
      }
      if (random.uniform() < 0.7) continue;
      const std::vector<int> moved = placement.compact();
      for (const int job : moved) EXPECT_LT(jobs.at(job), per_node) << "only parts of nodes move";
      expect_consistent(placement, jobs);
      EXPECT_LT(partial_nodes_free(placement), per_node);
      EXPECT_TRUE(placement.compact().empty());
      for (int size = 1; size <= placement.free_gpus(); size *= 2) {
        ASSERT_TRUE(placement.place(next, size)) << size << " of " << placement.free_gpus();
        placement.release(next);
      }
      for (const auto& [job, size] : jobs) {
        if (size <= per_node) continue;
        for (const GpuBlock& block : placement.blocks(job)) EXPECT_EQ(block.count, per_node);
      }
    }
  }
}

TEST(Anywhere, AnyNumberFitsWhileEnoughAreFree) {
  Random random(3);
  Placement placement(PlacementRule::kAnywhere, 5, 8);
  std::map<int, int> jobs;
  for (int job = 0; job < 3000; ++job) {
    const int size = 1 + static_cast<int>(random.below(20));
    const bool enough = size <= placement.free_gpus();
    ASSERT_EQ(placement.place(job, size), enough);
    if (enough) jobs[job] = size;
    while (!jobs.empty() && random.uniform() < 0.45) {
      auto victim = jobs.begin();
      std::advance(victim, random.below(jobs.size()));
      placement.release(victim->first);
      jobs.erase(victim);
    }
    expect_consistent(placement, jobs);
  }
}

// Free: 1 GPU on node 0, 3 on node 1, all 4 of node 2.
TEST(Anywhere, TakesTheFullestNodeThatHoldsTheJob) {
  Placement placement(PlacementRule::kAnywhere, 3, 4);
  ASSERT_TRUE(placement.place(0, 3));
  ASSERT_TRUE(placement.place(1, 4));
  placement.release(1);
  ASSERT_TRUE(placement.place(2, 2));  // does not fit on node 0: a whole node
  EXPECT_EQ(placement.blocks(2)[0], (GpuBlock{1, 0, 2}));
  ASSERT_TRUE(placement.place(3, 1));
  EXPECT_EQ(placement.blocks(3)[0], (GpuBlock{0, 3, 1}));
  ASSERT_TRUE(placement.place(4, 5));
  EXPECT_EQ(placement.nodes_of(4), 2);
  EXPECT_EQ(placement.nodes_of(0), 1);
}

// A job leaves the GPUs that it shares to the other, whichever came first.
TEST(Anywhere, TwoJobsShareGpus) {
  for (const int who : {0, 1}) {
    Placement placement(PlacementRule::kAnywhere, 2, 4);
    ASSERT_TRUE(placement.place(0, 3));
    placement.share(1, 0);
    EXPECT_EQ(placement.blocks(1)[0], (GpuBlock{0, 0, 3}));
    EXPECT_EQ(placement.free_gpus(), 5);
    EXPECT_THROW(placement.share(2, 1), Error) << "a third";
    placement.release(who);
    EXPECT_TRUE(placement.blocks(who).empty());
    EXPECT_EQ(placement.free_gpus(), 5);
    EXPECT_EQ(placement.used_on(0), 3);
    placement.share(2, 1 - who);
    placement.release(2);
    placement.release(1 - who);
    EXPECT_EQ(placement.free_gpus(), 8);
    EXPECT_THROW(placement.share(3, 0), Error) << "nothing to share";
  }
  Placement packed(PlacementRule::kPacked, 1, 4);
  ASSERT_TRUE(packed.place(0, 1));
  EXPECT_THROW(packed.share(1, 0), Error);
}

// Job 2 lies on both nodes, since each has one GPU free; once job 0 is gone it fits on one. Asking changes nothing.
TEST(Anywhere, TellsWhetherAJobFitsCloser) {
  Placement placement(PlacementRule::kAnywhere, 2, 2);
  ASSERT_TRUE(placement.place(0, 1));
  ASSERT_TRUE(placement.place(3, 1));  // beside job 0
  ASSERT_TRUE(placement.place(1, 1));  // on the other node
  placement.release(3);
  ASSERT_TRUE(placement.place(2, 2));
  EXPECT_EQ(placement.nodes_of(2), 2);
  EXPECT_FALSE(placement.fits_closer(2));
  const std::vector<GpuBlock> before(placement.blocks(2).begin(), placement.blocks(2).end());
  placement.release(0);
  EXPECT_TRUE(placement.fits_closer(2));
  EXPECT_TRUE(std::equal(before.begin(), before.end(), placement.blocks(2).begin(), placement.blocks(2).end()));
  EXPECT_EQ(placement.free_gpus(), 1);
  EXPECT_FALSE(placement.fits_closer(1)) << "on one node";
}

TEST(Placement, RefusesNodesThatCannotBeHalved) {
  EXPECT_THROW(Placement(PlacementRule::kPacked, 1, 3), Error);
  EXPECT_THROW(Placement(PlacementRule::kPacked, 1, 128), Error);
  EXPECT_THROW(Placement(PlacementRule::kPacked, 0, 4), Error);
}

}  // namespace
}  // namespace flyball
