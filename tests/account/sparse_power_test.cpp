#include "account/sparse_power.h"

#include <gmock/gmock.h>

#include <vector>

#include "support/memory_traces.h"

namespace flyball {
namespace {

using testing::MemoryPower;

struct Plain {
  Nanoseconds begin, end;  // s
  DeviceId device;
  double watts;
  bool operator==(const Plain&) const = default;
};

std::vector<Plain> thinned(const std::vector<Plain>& segments, std::size_t keep, const std::vector<bool>& means) {
  std::vector<PowerSegment> all;
  for (const Plain& one : segments) {
    all.push_back({one.begin * kSecond, one.end * kSecond, one.device, Watts(one.watts)});
  }
  MemoryPower source(all);
  SparsePower sparse(source, keep, means);
  std::vector<Plain> left;
  for (PowerSegment one; sparse.next(one);) {
    left.push_back({one.begin / kSecond, one.end / kSecond, one.device, one.power.value()});
  }
  return left;
}

// Device 0 shows power and is read at 0, 1, 3 and 4 s; of every two, those at 0 and 3 s are kept and hold until the
// next. Device 1 is a counter over the same times: 10 J and 40 J are 50 J in 3 s, 20 J and 50 J are 70 J in 3 s.
TEST(SparsePower, ReadingsHoldAndCountersKeepTheirEnergy) {
  const std::vector<Plain> all = {{0, 1, 0, 5}, {0, 1, 1, 10}, {1, 3, 0, 7}, {1, 3, 1, 20},
                                  {3, 4, 0, 9}, {3, 4, 1, 20}, {4, 6, 0, 8}, {4, 6, 1, 25}};
  EXPECT_EQ(thinned(all, 1, {false, true}), all);
  const std::vector<Plain> half = {{0, 3, 0, 5}, {0, 3, 1, 50.0 / 3}, {3, 6, 0, 9}, {3, 6, 1, 70.0 / 3}};
  EXPECT_EQ(thinned(all, 2, {false, true}), half);
  // More than there are: the first reading holds to the end, 120 J in 6 s.
  EXPECT_EQ(thinned(all, 9, {false, true}), (std::vector<Plain>{{0, 6, 0, 5}, {0, 6, 1, 20}}));
}

// What is not measured stays so, and segments come in the order of their begin whatever they wait for.
TEST(SparsePower, KeepsGapsAndOrder) {
  const std::vector<Plain> all = {{0, 1, 0, 4}, {1, 2, 1, 1}, {2, 3, 1, 3}, {3, 4, 1, 5}, {5, 6, 0, 8}, {6, 7, 0, 2}};
  const std::vector<Plain> left = {{0, 1, 0, 4}, {1, 4, 1, 3}, {5, 7, 0, 5}};
  EXPECT_EQ(thinned(all, 3, {true, true}), left);
}

}  // namespace
}  // namespace flyball
