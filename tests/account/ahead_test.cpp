// Work ahead on a thread: nothing lost, nothing twice, errors where they happened, and an early end.
#include "account/ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "account/events_ahead.h"
#include "support/memory_traces.h"

namespace flyball {
namespace {

using Block = std::vector<int>;

TEST(Ahead, GivesBlocksInOrderAndTheirMemoryAgain) {
  int filled = 0;
  std::atomic<int> fresh = 0;
  Ahead<Block> ahead([&](Block& block) {
    if (block.capacity() == 0) ++fresh;
    block.assign(100, filled);
    return filled++ < 1000;
  });
  Block block;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(ahead.next(block));
    ASSERT_EQ(block, Block(100, i));
  }
  EXPECT_FALSE(ahead.next(block));
  EXPECT_FALSE(ahead.next(block));
  EXPECT_LE(fresh, 5) << "two that wait, one in each hand, and the caller's first, which was empty";
}

TEST(Ahead, FailsBehindTheBlocksBeforeTheFailure) {
  int filled = 0;
  Ahead<Block> ahead([&](Block& block) {
    if (filled == 3) throw std::runtime_error("the third");
    block.assign(1, filled++);
    return true;
  });
  Block block;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(ahead.next(block));
    EXPECT_EQ(block.front(), i);
  }
  EXPECT_THROW(static_cast<void>(ahead.next(block)), std::runtime_error);
}

TEST(Ahead, IsNoFurtherAheadThanTwoBlocks) {
  std::atomic<int> filled = 0;
  Block block;
  {
    Ahead<Block> ahead([&](Block& to) {
      to.assign(1, ++filled);
      return true;
    });
    ASSERT_TRUE(ahead.next(block));
  }
  EXPECT_LE(filled, 4) << "one taken, two that wait, one in the making";
}

TEST(EventsAhead, AreThoseOfTheirSource) {
  testing::TraceShape shape;
  shape.events = 30'000;
  const std::vector<TraceEvent> events = testing::make_traces(shape, 3).events;
  testing::MemoryEvents source(events);
  testing::MemoryEvents same(events);
  EventsAhead ahead(source);
  TraceEvent event;
  TraceEvent expected;
  while (same.next(expected)) {
    ASSERT_TRUE(ahead.next(event));
    ASSERT_EQ(event.begin, expected.begin);
    ASSERT_EQ(event.end, expected.end);
    ASSERT_EQ(event.device, expected.device);
    ASSERT_EQ(event.operation, expected.operation);
  }
  EXPECT_FALSE(ahead.next(event));
  EXPECT_FALSE(ahead.next(event));
}

}  // namespace
}  // namespace flyball
