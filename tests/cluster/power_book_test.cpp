#include "cluster/power_book.h"

#include <gtest/gtest.h>

#include <vector>

namespace flyball {
namespace {

// One kind with one size and four speeds, believed to draw 100, 200, 300 and 400 W (iterations of 1 s).
ClusterState believed_state(bool elastic) {
  ClusterState state;
  ClusterJobKind kind;
  kind.elastic = elastic;
  kind.sizes = {1};
  kind.speeds = 4;
  state.kinds.push_back(kind);
  CostSheet sheet(1, 4);
  for (std::size_t speed = 0; speed < 4; ++speed) {
    sheet.at(0, speed) = {Seconds(1.0), Joules(100.0 * static_cast<double>(speed + 1))};
  }
  state.believed.push_back(sheet);
  return state;
}

PowerBook book_of(ClusterState& state, double reserve) {
  PowerBook book(state, reserve);
  book.add_kind(0);
  return book;
}

std::vector<double> counted(const ClusterState& state) {
  std::vector<double> watts;
  for (std::size_t speed = 0; speed < 4; ++speed) watts.push_back(state.counted(0, 0, speed).value());
  return watts;
}

TEST(PowerBook, CountsBeliefsAndAReserveUntilSomethingIsMetered) {
  ClusterState state = believed_state(true);
  const PowerBook book = book_of(state, 0.25);
  EXPECT_EQ(counted(state), (std::vector<double>{125.0, 250.0, 375.0, 500.0}));
}

TEST(PowerBook, APipelinesFrontierIsKnown) {
  ClusterState state = believed_state(false);
  const PowerBook book = book_of(state, 0.25);
  EXPECT_EQ(counted(state), (std::vector<double>{100.0, 200.0, 300.0, 400.0}));
}

// Metered at speed 1 with 1.5 times the belief, at speed 3 with 0.5 times: 0 and 2 go by speed 1, the nearer or the
// lower.
TEST(PowerBook, WhatWasMeteredCountsAndScalesWhatIsNearIt) {
  ClusterState state = believed_state(true);
  PowerBook book = book_of(state, 0.25);
  EXPECT_TRUE(book.meter(0, 0, 1, Watts(300.0)));
  EXPECT_FALSE(book.meter(0, 0, 1, Watts(300.0)));
  EXPECT_TRUE(book.meter(0, 0, 3, Watts(200.0)));
  book.recount(0);
  EXPECT_EQ(counted(state), (std::vector<double>{150.0, 300.0, 450.0, 200.0}));
}

// Beliefs that change leave what was metered as it is.
TEST(PowerBook, MeteredPowerOutlastsBeliefs) {
  ClusterState state = believed_state(true);
  PowerBook book = book_of(state, 0.0);
  EXPECT_TRUE(book.meter(0, 0, 0, Watts(110.0)));
  state.believed[0].at(0, 0).energy = Joules(50.0);
  book.recount(0);
  EXPECT_DOUBLE_EQ(counted(state)[0], 110.0);
  EXPECT_DOUBLE_EQ(counted(state)[1], 440.0);
}

// The last reading counts, not the first: 360 W in place of 300.
TEST(PowerBook, ANewReadingReplacesTheOldOne) {
  ClusterState state = believed_state(true);
  PowerBook book = book_of(state, 0.25);
  EXPECT_TRUE(book.meter(0, 0, 1, Watts(300.0)));
  EXPECT_TRUE(book.meter(0, 0, 1, Watts(360.0)));
  book.recount(0);
  EXPECT_DOUBLE_EQ(counted(state)[1], 360.0);
  EXPECT_DOUBLE_EQ(counted(state)[0], 180.0);
}

// Sizes of 1, 2 and 4 GPUs, believed to draw 100, 150 and 800 W. Nothing metered: a quarter more. Once 2 GPUs are seen
// to draw 180 W, 4 draw from 180 to 360 W and one from 90 to 180 W: the belief of 800 becomes 360, that of 100 stands,
// and neither has a reserve.
TEST(PowerBook, NoReserveOutlastsTheFirstReading) {
  ClusterState state;
  ClusterJobKind kind;
  kind.sizes = {1, 2, 4};
  kind.speeds = 1;
  state.kinds.push_back(kind);
  CostSheet sheet(3, 1);
  const double believed[] = {100.0, 150.0, 800.0};
  for (std::size_t size = 0; size < 3; ++size) sheet.at(size, 0) = {Seconds(1.0), Joules(believed[size])};
  state.believed.push_back(sheet);
  PowerBook book = book_of(state, 0.25);
  EXPECT_DOUBLE_EQ(state.counted(0, 2, 0).value(), 1000.0);
  EXPECT_TRUE(book.meter(0, 1, 0, Watts(180.0)));
  book.recount(0);
  EXPECT_DOUBLE_EQ(state.counted(0, 0, 0).value(), 100.0);
  EXPECT_DOUBLE_EQ(state.counted(0, 1, 0).value(), 180.0);
  EXPECT_DOUBLE_EQ(state.counted(0, 2, 0).value(), 360.0);
}

}  // namespace
}  // namespace flyball
