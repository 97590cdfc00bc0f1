#include "cluster/offers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cluster/random.h"

namespace flyball {
namespace {

// A state of one kind whose costs are drawn, rising speeds neither always faster nor always dearer.
ClusterState drawn_state(std::uint64_t seed) {
  Random random(seed);
  ClusterState state;
  ClusterJobKind kind;
  kind.batch_size = 8.0;
  kind.sizes = {1, 2, 3, 4, 8, 16};
  kind.speeds = 9;
  CostSheet sheet(kind.sizes.size(), kind.speeds);
  std::vector<Watts> counted;
  for (std::size_t size = 0; size < kind.sizes.size(); ++size) {
    for (std::size_t speed = 0; speed < kind.speeds; ++speed) {
      const double pace = 1.0 + 0.1 * static_cast<double>(speed);
      const double time = std::exp(0.1 * random.normal()) / pace / std::sqrt(kind.sizes[size]);
      sheet.at(size, speed) = {Seconds(time), Joules(100.0 * pace * std::exp(0.1 * random.normal()))};
      counted.push_back(sheet.at(size, speed).power());
    }
  }
  state.kinds.push_back(kind);
  state.believed.push_back(sheet);
  state.counted_power.push_back(counted);
  return state;
}

// What is left out is never the best, whatever the prices; sizes are the powers of two that leave each GPU a sample.
TEST(Offers, HoldTheBestAtAllPrices) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const ClusterState state = drawn_state(seed);
    const std::vector<SizeOffers> sizes = offers_of(state, 0);
    ASSERT_EQ(sizes.size(), 4u);
    EXPECT_EQ(sizes.back().gpus, 8);
    for (const double energy : {0.0, 1e-4, 1e-3, 0.01, 0.1}) {
      for (const double gpu : {0.0, 0.1, 1.0, 10.0}) {
        const Prices prices{energy, gpu};
        double least = std::numeric_limits<double>::infinity();
        for (const SizeOffers& size : sizes) {
          for (std::size_t speed = 0; speed < state.kinds[0].speeds; ++speed) {
            const IterationCost& cost = state.believed[0].at(static_cast<std::size_t>(size.size), speed);
            least = std::min(least, cost.time.value() * (1.0 + gpu * size.gpus) + energy * cost.energy.value());
          }
        }
        EXPECT_NEAR(least_cost(sizes, prices), least, 1e-12 * least);
        // Work worth its least cost: the best size leaves 1 per second, what a second of the job's time is worth.
        double most = -std::numeric_limits<double>::infinity();
        for (const SizeOffers& size : sizes) {
          double best = -std::numeric_limits<double>::infinity();
          for (std::size_t speed = 0; speed < state.kinds[0].speeds; ++speed) {
            const IterationCost& cost = state.believed[0].at(static_cast<std::size_t>(size.size), speed);
            best = std::max(best, (least - energy * cost.energy.value()) / cost.time.value() - gpu * size.gpus);
          }
          // Work that does not pay for its joules is not worth doing at any speed; which is told is of no use then.
          const Gain gain = best_gain(size, least, prices);
          if (best + gpu * size.gpus > 0.0) {
            EXPECT_NEAR(gain.value, best, 1e-9);
          }
          most = std::max(most, gain.value);
        }
        EXPECT_NEAR(most, 1.0, 1e-9);
      }
    }
  }
}

// Thriftiest first, and each joule buys less time than the one before.
TEST(Offers, AreConvex) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    for (const SizeOffers& size : offers_of(drawn_state(seed), 0)) {
      ASSERT_FALSE(size.speeds.empty());
      double worth = std::numeric_limits<double>::infinity();
      for (std::size_t i = 1; i < size.speeds.size(); ++i) {
        const Offer& a = size.speeds[i - 1];
        const Offer& b = size.speeds[i];
        ASSERT_GT(b.energy, a.energy);
        ASSERT_LT(b.time, a.time);
        const double here = (a.time - b.time) / (b.energy - a.energy);
        EXPECT_LT(here, worth);
        worth = here;
      }
    }
  }
}

// Work whose gross is what it would have to be (4 of cost and 6 that are sure), deviation 0.5: the mean of the greater
// is 6 + 10 (2 N(0.25) - 1) with N(0.25) = 0.598706 from a table of the normal distribution. What is far above is worth
// what it brings, what is far below not a bit more than what is sure.
TEST(Offers, TryingIsWorthWhatItMayTurnOutToBe) {
  EXPECT_NEAR(value_of_trying(10.0, 0.5, 4.0, 6.0), 7.97413, 1e-4);
  EXPECT_NEAR(value_of_trying(1000.0, 0.5, 4.0, 6.0), 996.0, 1e-3);
  EXPECT_NEAR(value_of_trying(0.1, 0.5, 4.0, 6.0), 6.0, 1e-6);
  EXPECT_DOUBLE_EQ(value_of_trying(10.0, 0.5, 4.0, -5.0), 6.0);
}

// Nodes of 2 GPUs. Nothing measured: 1 and 2 are offered. Once another kind of the network was measured at 2, up to 8,
// and the kind itself is as unsure as before. Measured at 2 itself: one GPU is a doubling away, 4 another node.
TEST(Offers, WidenWithWhatWasMeasured) {
  ClusterState state = drawn_state(1);
  state.spec.gpus_per_node = 2;
  state.kinds.push_back(state.kinds.front());
  state.measured_sizes = {0, 0};
  const auto most = [&] { return offers_of(state, 0).back().gpus; };
  EXPECT_EQ(most(), 2);
  state.measured_sizes[1] = 1u << 1;
  EXPECT_EQ(most(), 8);
  EXPECT_EQ(offers_of(state, 0)[0].unsure, 0.0);
  state.measured_sizes[0] = 1u << 1;
  const std::vector<SizeOffers> sizes = offers_of(state, 0);
  EXPECT_DOUBLE_EQ(sizes[0].unsure, kUnsure);
  EXPECT_EQ(sizes[1].unsure, 0.0);
  EXPECT_DOUBLE_EQ(sizes[2].unsure, kUnsureApart);
  EXPECT_DOUBLE_EQ(sizes[3].unsure, std::hypot(kUnsureApart, kUnsure));
}

}  // namespace
}  // namespace flyball
