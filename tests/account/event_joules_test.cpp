// The joules of single executions: by hand, and against the sums that the sweep gives to operations.
#include "account/event_joules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "support/memory_traces.h"

namespace flyball {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

struct Told final : AccountedEvents {
  std::vector<double> joules;  // in the order of the events' ends
  std::map<std::pair<DeviceId, OperationId>, double> sums;
  double power_joules = 0.0;

  void begin(Nanoseconds /*first*/, const OperationTable& /*operations*/, const DeviceTable& /*devices*/) override {}
  void on_event(const AccountedEvent& event) override {
    joules.push_back(event.energy.value());
    sums[{event.device, event.operation}] += event.energy.value();
  }
  void on_power(DeviceId /*device*/, Nanoseconds begin, Nanoseconds end, Watts power) override {
    power_joules += (power * to_seconds(end - begin)).value();
  }
};

constexpr OperationId kA = 0;
constexpr OperationId kB = 1;

// 100 W until 1 s and 200 W until 2 s. Operation a runs from 0 to 1.5 s, and once more from 0.5 to 1.5 s; b from 1 to 2
// s.
std::vector<double> told_by_hand(Multiplicity multiplicity, const std::vector<OperationShare>& fitted = {}) {
  testing::MemoryEvents events(
      {{0, kSecond * 3 / 2, 0, kA}, {kSecond / 2, kSecond * 3 / 2, 0, kA}, {kSecond, 2 * kSecond, 0, kB}});
  testing::MemoryPower power({{0, kSecond, 0, Watts(100)}, {kSecond, 2 * kSecond, 0, Watts(200)}});
  Told told;
  account_events(events, power, multiplicity, fitted, told);
  EXPECT_NEAR(told.power_joules, 300.0, 1e-9);
  std::sort(told.joules.begin(), told.joules.end());
  return told.joules;
}

// The first a has 50 J alone; then both have 25 J each of 50 J; then a has half of 100 J, which is 25 J each, and b 50
// J; at last b has 100 J: 50, 100 and 150 J.
TEST(EventJoules, ExecutionsOfAnOperationShareItsShare) {
  EXPECT_THAT(told_by_hand(Multiplicity::kOperations),
              ElementsAre(DoubleNear(50.0, 1e-9), DoubleNear(100.0, 1e-9), DoubleNear(150.0, 1e-9)));
}

// As above, but from 1 to 1.5 s each of the three has a third of 100 J.
TEST(EventJoules, OrEachHasAShareOfItsOwn) {
  EXPECT_THAT(told_by_hand(Multiplicity::kEvents),
              ElementsAre(DoubleNear(25 + 100 / 3.0, 1e-9), DoubleNear(75 + 100 / 3.0, 1e-9),
                          DoubleNear(100 + 100 / 3.0, 1e-9)));
}

// At 40 W for a, whose executions have 0.5 + 0.25 + 0.25 s and 0.25 + 0.25 s, and 10 W for b, which has 1 s.
TEST(EventJoules, TakeTheFittedPower) {
  OperationShare a;
  a.operation = kA;
  a.energy = Joules(60);
  a.powered = Seconds(1.5);
  OperationShare b = a;
  b.operation = kB;
  b.energy = Joules(10);
  b.powered = Seconds(1);
  EXPECT_THAT(told_by_hand(Multiplicity::kOperations, {a, b}),
              ElementsAre(DoubleNear(10.0, 1e-9), DoubleNear(20.0, 1e-9), DoubleNear(40.0, 1e-9)));
}

TEST(EventJoules, AddUpToWhatOperationsGet) {
  for (const Multiplicity multiplicity : {Multiplicity::kOperations, Multiplicity::kEvents}) {
    const testing::MadeTraces made = testing::make_traces({.events = 20'000, .operations = 12}, 7);
    testing::MemoryEvents events(made.events);
    testing::MemoryPower power(made.power);
    const Attribution attribution = attribute(events, power, {.multiplicity = multiplicity});
    testing::MemoryEvents again(made.events);
    testing::MemoryPower power_again(made.power);
    Told told;
    account_events(again, power_again, multiplicity, {}, told);
    EXPECT_EQ(told.joules.size(), made.events.size());
    ASSERT_EQ(attribution.operations.size(), told.sums.size());
    for (const OperationShare& share : attribution.operations) {
      const double sum = told.sums.at({share.device, share.operation});
      EXPECT_NEAR(sum, share.energy.value(), 1e-9 * share.energy.value());
    }
  }
}

}  // namespace
}  // namespace flyball
