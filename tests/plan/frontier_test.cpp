#include "plan/frontier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace flyball {
namespace {

using ::testing::ElementsAre;

FrontierPoint point(Nanoseconds time, double net_joules) {
  FrontierPoint p;
  p.time = time;
  p.net_joules = net_joules;
  return p;
}

std::vector<Nanoseconds> times(const Frontier& frontier) {
  std::vector<Nanoseconds> all;
  for (const FrontierPoint& p : frontier.points()) all.push_back(p.time);
  return all;
}

TEST(Frontier, DropsDuplicateAndDominatedPoints) {
  Frontier frontier(Watts(100));
  frontier.add(point(30, 7.0), {3});
  frontier.add(point(10, 9.0), {1});
  frontier.add(point(20, 9.0), {2});  // slower, saves nothing
  frontier.add(point(30, 7.0), {4});  // the same again
  frontier.add(point(30, 8.0), {5});  // as slow, takes more
  frontier.add(point(40, 6.5), {6});
  frontier.finish();
  EXPECT_THAT(times(frontier), ElementsAre(10, 30, 40));
  EXPECT_EQ(frontier.plan(0), ClockPlan{1});
  EXPECT_EQ(frontier.plan(1), ClockPlan{3});
  EXPECT_EQ(frontier.plan(2), ClockPlan{6});
}

// Energy is net energy and 100 W while the iteration lasts: 50 + 100, 48.5 + 101, 40 + 110 J.
TEST(Frontier, TotalEnergyCountsBlocking) {
  Frontier frontier(Watts(100));
  frontier.add(point(1'000'000'000, 50.0), {0});
  frontier.add(point(1'010'000'000, 48.5), {1});
  frontier.add(point(1'100'000'000, 40.0), {2});
  frontier.finish();
  EXPECT_DOUBLE_EQ(frontier.energy(0).value(), 150.0);
  EXPECT_DOUBLE_EQ(frontier.energy(1).value(), 149.5);
  EXPECT_DOUBLE_EQ(frontier.energy(2).value(), 150.0);
  EXPECT_EQ(frontier.least_total_energy(), 1u);
  EXPECT_TRUE(std::isnan(frontier.lower_bound(1).value()));
  frontier.point(1).net_lower_bound = 48.0;
  EXPECT_DOUBLE_EQ(frontier.lower_bound(1).value(), 149.0);
}

// Until 3 s: 0, -50 + 0.5 * 0, -60 + 0.4 * 40 = -44 J, and 40 W more again at the first. Until 2.6 s there is no wait
// left.
TEST(Frontier, LookupChargesTheWaitAtTheClocksThatAreKept) {
  Frontier frontier(Watts(100));
  const auto add = [&](Nanoseconds ms, double net, double above) {
    FrontierPoint p = point(ms * 1'000'000, net);
    p.waiting_above = Watts(above);
    frontier.add(p, {0});
  };
  add(2000, 0.0, 40.0);
  add(2500, -50.0, 0.0);
  add(2600, -60.0, 40.0);
  add(3100, -110.0, 0.0);
  frontier.finish();
  EXPECT_EQ(frontier.lookup(3'000'000'000), 1u);
  EXPECT_EQ(frontier.lookup(2'600'000'000), 2u);
  EXPECT_EQ(frontier.lookup(3'100'000'000), 3u);
  EXPECT_EQ(frontier.lookup(1'000'000'000), 0u);
}

// The same three points: 150, 149.5 and 150 J. Who may take 1.1 s and is waited for by nobody is not to take the third.
TEST(Frontier, CheapestTakesTheLeastEnergyThatFits) {
  Frontier frontier(Watts(100));
  frontier.add(point(1'000'000'000, 50.0), {0});
  frontier.add(point(1'010'000'000, 48.5), {1});
  frontier.add(point(1'100'000'000, 40.0), {2});
  frontier.finish();
  EXPECT_EQ(frontier.cheapest_by(900'000'000), 0u);  // none fits: the fastest
  EXPECT_EQ(frontier.cheapest_by(1'009'999'999), 0u);
  EXPECT_EQ(frontier.cheapest_by(1'010'000'000), 1u);
  EXPECT_EQ(frontier.cheapest_by(1'100'000'000), 1u);
  EXPECT_EQ(frontier.cheapest_by(9'000'000'000), 1u);
}

TEST(Frontier, LookupTakesTheSlowestThatFits) {
  Frontier frontier(Watts(100));
  for (const Nanoseconds t : {10, 20, 30}) frontier.add(point(t, 100.0 - static_cast<double>(t)), {0});
  frontier.finish();
  EXPECT_EQ(frontier.lookup(5), 0u);  // none fits: the fastest
  EXPECT_EQ(frontier.lookup(10), 0u);
  EXPECT_EQ(frontier.lookup(29), 1u);
  EXPECT_EQ(frontier.lookup(30), 2u);
  EXPECT_EQ(frontier.lookup(1'000'000), 2u);  // never beyond T*
}

// Edits against the point before, with a full copy now and then: every plan comes back as it was, in any order.
TEST(Frontier, RebuildsEveryPlan) {
  std::mt19937 random(7);
  Frontier frontier(Watts(100));
  std::vector<ClockPlan> plans;
  ClockPlan plan(50, 0);
  for (int step = 0; step < 300; ++step) {
    for (int edit = 0; edit < 5; ++edit) plan[random() % plan.size()] = static_cast<std::uint16_t>(random() % 30);
    plans.push_back(plan);
    frontier.add(point(1000 - step, step), plan);  // slowest first
  }
  frontier.finish();
  ASSERT_EQ(frontier.size(), plans.size());
  for (std::size_t p = 0; p < plans.size(); ++p) EXPECT_EQ(frontier.plan(plans.size() - 1 - p), plans[p]);
  EXPECT_LE(frontier.edit_count(), 300u * 5u);
}

TEST(Frontier, AcceptsPlansOfAnotherLength) {
  Frontier frontier(Watts(100));
  frontier.add(point(10, 2.0), {1, 2, 3});
  frontier.add(point(20, 1.0), {1, 2});
  frontier.finish();
  EXPECT_EQ(frontier.plan(0), (ClockPlan{1, 2, 3}));
  EXPECT_EQ(frontier.plan(1), (ClockPlan{1, 2}));
}

}  // namespace
}  // namespace flyball
