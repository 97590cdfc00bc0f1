#include "plan/radix_heap.h"

#include <gtest/gtest.h>

#include <functional>
#include <queue>
#include <random>
#include <vector>

namespace flyball {
namespace {

TEST(RadixHeap, PopsLikeABinaryHeapUnderMonotoneKeys) {
  std::mt19937_64 random(1);
  RadixHeap<int> heap;
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> reference;
  std::int64_t last = 0;
  for (int step = 0; step < 20000; ++step) {
    if (reference.empty() || random() % 3 != 0) {
      // From nothing to an hour in ns above the last key popped.
      const std::int64_t key = last + static_cast<std::int64_t>(random() % (std::uint64_t{1} << (random() % 42)));
      heap.push(key, step);
      reference.push(key);
    } else {
      last = heap.pop().first;
      EXPECT_EQ(last, reference.top());
      reference.pop();
    }
    ASSERT_EQ(heap.empty(), reference.empty());
  }
}

TEST(RadixHeap, ClearStartsAgainBelowTheLastKey) {
  RadixHeap<char> heap;
  heap.push(1000, 'a');
  EXPECT_EQ(heap.pop().first, 1000);
  heap.push(2000, 'b');
  heap.clear();
  EXPECT_TRUE(heap.empty());
  heap.push(5, 'd');
  heap.push(3, 'c');
  EXPECT_EQ(heap.pop().second, 'c');
  EXPECT_EQ(heap.pop().second, 'd');
}

}  // namespace
}  // namespace flyball
