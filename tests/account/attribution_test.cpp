#include "account/attribution.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "support/flattened_attribution.h"
#include "support/memory_traces.h"

namespace flyball {
namespace {

using testing::kMicrosecond;
using testing::MadeTraces;
using testing::make_traces;
using testing::MemoryEvents;
using testing::MemoryPower;
using testing::TickFootprint;
using testing::TraceShape;

Attribution attributed(const std::vector<TraceEvent>& events, const std::vector<PowerSegment>& power,
                       const AttributionOptions& options = {}) {
  MemoryEvents event_source(events);
  MemoryPower power_source(power);
  return attribute(event_source, power_source, options);
}

TickFootprint energies(const Attribution& attribution) {
  TickFootprint result;
  for (const OperationShare& share : attribution.operations) {
    result[{share.device, share.operation}] = share.energy.value();
  }
  return result;
}

void expect_same(const TickFootprint& actual, const TickFootprint& expected, double scale = 1.0) {
  for (const auto& [key, value] : expected) {
    ASSERT_TRUE(actual.contains(key)) << key.first << " " << key.second;
    EXPECT_NEAR(actual.at(key), value * scale, 1e-9 * std::abs(value * scale)) << key.first << " " << key.second;
  }
  EXPECT_EQ(actual.size(), expected.size());
}

void expect_conserved(const Attribution& attribution, const std::vector<PowerSegment>& power) {
  std::map<DeviceId, long double> measured;
  for (const PowerSegment& segment : power) {
    measured[segment.device] +=
        static_cast<long double>(segment.power.value()) * static_cast<long double>(segment.end - segment.begin) * 1e-9L;
  }
  std::map<DeviceId, double> rows;
  for (const OperationShare& share : attribution.operations) rows[share.device] += share.energy.value();
  for (const DeviceShare& device : attribution.devices) {
    const auto expected = static_cast<double>(measured[device.device]);
    EXPECT_NEAR(device.measured.value(), expected, 1e-9 * expected);
    EXPECT_NEAR((device.attributed + device.idle).value(), expected, 1e-9 * expected);
    EXPECT_NEAR(rows[device.device], device.attributed.value(), 1e-9 * expected);
  }
}

//      0    1    2    3    4    5 s
// A         [---------)
// B              [---------)
// 100 W [-------------)
// 200 W               [---------)
// A: 1 s alone and half of 1 s at 100 W: 150 J. B: 50 J and 1 s alone at 200 W: 250 J. Idle: 1 s at 100 W and at 200 W.
TEST(Attribution, ConcurrentOperationsShareEqually) {
  const Attribution result = attributed({{kSecond, 3 * kSecond, 0, 0}, {2 * kSecond, 4 * kSecond, 0, 1}},
                                        {{0, 3 * kSecond, 0, Watts(100)}, {3 * kSecond, 5 * kSecond, 0, Watts(200)}});
  ASSERT_EQ(result.operations.size(), 2u);
  EXPECT_DOUBLE_EQ(result.operations[0].energy.value(), 150.0);
  EXPECT_DOUBLE_EQ(result.operations[1].energy.value(), 250.0);
  EXPECT_DOUBLE_EQ(result.operations[0].busy.value(), 2.0);
  EXPECT_DOUBLE_EQ(result.operations[1].mean_power().value(), 125.0);
  ASSERT_EQ(result.devices.size(), 1u);
  EXPECT_DOUBLE_EQ(result.devices[0].measured.value(), 700.0);
  EXPECT_DOUBLE_EQ(result.devices[0].idle.value(), 300.0);
  EXPECT_DOUBLE_EQ(result.devices[0].busy.value(), 3.0);
}

// An operation twice at once, beside another: one of two sharers, or two of three.
TEST(Attribution, AnOperationThatOverlapsItselfHasOneShareOrTwo) {
  const std::vector<TraceEvent> events = {{0, kSecond, 0, 0}, {0, kSecond, 0, 0}, {0, kSecond, 0, 1}};
  const std::vector<PowerSegment> power = {{0, kSecond, 0, Watts(90)}};
  const Attribution once = attributed(events, power);
  EXPECT_DOUBLE_EQ(once.operations[0].energy.value(), 45.0);
  EXPECT_DOUBLE_EQ(once.operations[0].busy.value(), 1.0);
  const Attribution each = attributed(events, power, {.multiplicity = Multiplicity::kEvents});
  EXPECT_DOUBLE_EQ(each.operations[0].energy.value(), 60.0);
  EXPECT_DOUBLE_EQ(each.operations[0].busy.value(), 2.0);
  EXPECT_DOUBLE_EQ(each.operations[1].energy.value(), 30.0);
}

TEST(Attribution, IsThePapersAlgorithmOnClosedTicks) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    TraceShape shape;
    shape.events = 300;
    shape.operations = 1 + static_cast<int>(seed) * 3;
    const MadeTraces made = make_traces(shape, seed);
    const TickFootprint paper =
        testing::flattened_footprint(made.events, testing::tick_power(made.power, kMicrosecond), kMicrosecond);
    const Attribution sweep = attributed(made.events, made.power, {.closed_by = kMicrosecond});
    expect_same(energies(sweep), paper, 1e-6);
  }
}

// Half-open: what the paper's procedure gives on events that are one tick shorter. One of no length has none to lose.
TEST(Attribution, IsThePapersAlgorithmOnHalfOpenEvents) {
  MadeTraces made = make_traces({}, 7);
  std::erase_if(made.events, [](const TraceEvent& event) { return event.begin == event.end; });
  const Attribution sweep = attributed(made.events, made.power);
  for (TraceEvent& event : made.events) event.end -= kMicrosecond;
  expect_same(energies(sweep),
              testing::flattened_footprint(made.events, testing::tick_power(made.power, kMicrosecond), kMicrosecond),
              1e-6);
}

// The published script lets an operation take part up to the next change after its end, or where it ends at once, after
// its begin; on events that are lengthened so it and the sweep agree. A last event has no change after it.
TEST(Attribution, IsThePublishedScriptOnEventsThatLastToTheNextChange) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    TraceShape shape;
    shape.events = 200;
    MadeTraces made = make_traces(shape, seed);
    std::erase_if(made.events, [](const TraceEvent& event) { return event.begin == event.end; });
    for (std::size_t i = 0; i < made.events.size(); ++i) made.events[i].operation = static_cast<OperationId>(i);
    const TickFootprint script =
        testing::script_footprint(made.events, testing::tick_power(made.power, kMicrosecond), kMicrosecond);
    std::map<DeviceId, std::set<Nanoseconds>> changes;
    std::map<DeviceId, Nanoseconds> last;
    for (const TraceEvent& event : made.events) {
      changes[event.device].insert({event.begin, event.end});
      last[event.device] = std::max(last[event.device], event.end);
    }
    for (const PowerSegment& segment : made.power) changes[segment.device].insert(segment.begin);
    for (TraceEvent& event : made.events) {
      if (event.end < last[event.device]) event.end = *changes[event.device].upper_bound(event.end);
    }
    expect_same(energies(attributed(made.events, made.power)), script);
  }
}

TEST(Attribution, ConservesEnergy) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    TraceShape shape;
    shape.tick = 1;  // any nanosecond
    shape.streams = 1 + static_cast<int>(seed % 7);
    shape.longest_pause = static_cast<Nanoseconds>(seed) * 20 * kMicrosecond;
    const MadeTraces made = make_traces(shape, seed);
    expect_conserved(attributed(made.events, made.power), made.power);
    expect_conserved(attributed(made.events, made.power, {.multiplicity = Multiplicity::kEvents}), made.power);
  }
}

TEST(Attribution, IgnoresTheOrderOfWhatBeginsTogether) {
  TraceShape shape;
  shape.tick = 50 * kMicrosecond;  // coarse, so that much begins and ends together
  MadeTraces made = make_traces(shape, 3);
  const TickFootprint first = energies(attributed(made.events, made.power));
  std::mt19937_64 random(4);
  for (int i = 0; i < 10; ++i) {
    std::shuffle(made.events.begin(), made.events.end(), random);
    std::shuffle(made.power.begin(), made.power.end(), random);
    expect_same(energies(attributed(made.events, made.power)), first);
  }
}

TEST(Attribution, SplittingAnEventChangesNothing) {
  const MadeTraces made = make_traces({}, 5);
  std::vector<TraceEvent> pieces;
  std::mt19937_64 random(6);
  for (TraceEvent event : made.events) {
    while (event.end - event.begin > kMicrosecond && random() % 3 != 0) {
      const auto length = static_cast<std::uint64_t>(event.end - event.begin);
      TraceEvent head = event;
      head.end = event.begin = event.begin + static_cast<Nanoseconds>(random() % length);
      pieces.push_back(head);
    }
    pieces.push_back(event);
  }
  ASSERT_GT(pieces.size(), made.events.size());
  for (const Multiplicity multiplicity : {Multiplicity::kOperations, Multiplicity::kEvents}) {
    const Attribution whole = attributed(made.events, made.power, {.multiplicity = multiplicity});
    const Attribution split = attributed(pieces, made.power, {.multiplicity = multiplicity});
    expect_same(energies(split), energies(whole));
    for (std::size_t i = 0; i < whole.operations.size(); ++i) {
      EXPECT_NEAR(split.operations[i].busy.value(), whole.operations[i].busy.value(), 1e-9);
    }
  }
}

TEST(Attribution, AnEventOfNoLengthHasNoEnergyAndTakesNone) {
  const Attribution result =
      attributed({{0, kSecond, 0, 0}, {kSecond / 2, kSecond / 2, 0, 1}, {kSecond, kSecond, 0, 2}},
                 {{0, 2 * kSecond, 0, Watts(10)}});
  ASSERT_EQ(result.operations.size(), 3u);
  EXPECT_DOUBLE_EQ(result.operations[0].energy.value(), 10.0);
  EXPECT_EQ(result.operations[1].energy.value(), 0.0);
  EXPECT_EQ(result.operations[1].events, 1u);
  EXPECT_EQ(result.operations[2].mean_power().value(), 0.0);
}

// Power from 1 to 2 s and from 3 to 4 s; one operation from 0 to 5 s has 2 s of power and 3 s without.
TEST(Attribution, EventsOutsideThePowerTraceHaveTimeButNoEnergy) {
  const Attribution result = attributed(
      {{0, 5 * kSecond, 0, 0}}, {{kSecond, 2 * kSecond, 0, Watts(10)}, {3 * kSecond, 4 * kSecond, 0, Watts(20)}});
  ASSERT_EQ(result.operations.size(), 1u);
  EXPECT_DOUBLE_EQ(result.operations[0].energy.value(), 30.0);
  EXPECT_DOUBLE_EQ(result.operations[0].busy.value(), 5.0);
  EXPECT_DOUBLE_EQ(result.operations[0].powered.value(), 2.0);
  EXPECT_DOUBLE_EQ(result.operations[0].mean_power().value(), 15.0);
  EXPECT_DOUBLE_EQ(result.devices[0].uncovered.value(), 3.0);
}

// The same ten seconds before zero, as a clock offset may put it, and beside it a device without power.
TEST(Attribution, NothingIsMeasuredBeforeTheFirstReadingBelowZeroEither) {
  constexpr Nanoseconds kStart = -10 * kSecond;
  const Attribution result = attributed({{kStart, kStart + 5 * kSecond, 0, 0}, {kStart, kStart + kSecond, 1, 0}},
                                        {{kStart + kSecond, kStart + 2 * kSecond, 0, Watts(10)},
                                         {kStart + 3 * kSecond, kStart + 4 * kSecond, 0, Watts(20)}});
  ASSERT_EQ(result.operations.size(), 2u);
  EXPECT_DOUBLE_EQ(result.operations[0].energy.value(), 30.0);
  EXPECT_DOUBLE_EQ(result.operations[0].powered.value(), 2.0);
  EXPECT_DOUBLE_EQ(result.devices[0].powered.value(), 2.0);
  EXPECT_DOUBLE_EQ(result.devices[0].uncovered.value(), 3.0);
  EXPECT_DOUBLE_EQ(result.devices[1].powered.value(), 0.0);
  EXPECT_DOUBLE_EQ(result.devices[1].uncovered.value(), 1.0);
}

//           0   1   2   3   4   5   6   7   8   9   10 s
// window            [-----------------------)
// events                [---)   [-)
// 100 W     [-----------------------)   [-----------)
// Idle: 1 + 1 + 0.5 + 1 s; outside: 2 s before and 2 s after; no power for 1 s of the window, in which nothing ran.
TEST(Attribution, IdleIsWhatTheProfileSaw) {
  const std::vector<TraceEvent> events = {{3 * kSecond, 4 * kSecond, 0, 0}, {5 * kSecond, 11 * kSecond / 2, 0, 0}};
  const std::vector<PowerSegment> power = {{0, 6 * kSecond, 0, Watts(100)},
                                           {7 * kSecond, 10 * kSecond, 0, Watts(100)},
                                           {kSecond, 9 * kSecond, 1, Watts(10)}};
  const Attribution result = attributed(events, power, {.window = ProfiledWindow{2 * kSecond, 8 * kSecond}});
  ASSERT_EQ(result.devices.size(), 2u);
  const DeviceShare& device = result.devices[0];
  EXPECT_NEAR(device.measured.value(), 900.0, 900e-9);
  EXPECT_NEAR(device.attributed.value(), 150.0, 150e-9);
  EXPECT_NEAR(device.idle.value(), 350.0, 350e-9);
  EXPECT_NEAR(device.outside.value(), 400.0, 400e-9);
  EXPECT_DOUBLE_EQ(device.powered.value(), 9.0);
  EXPECT_DOUBLE_EQ(device.busy.value(), 1.5);
  EXPECT_DOUBLE_EQ(device.idle_time.value(), 3.5);
  EXPECT_DOUBLE_EQ(device.outside_time.value(), 4.0);
  EXPECT_DOUBLE_EQ(device.unmeasured.value(), 1.0);
  EXPECT_EQ(device.uncovered.value(), 0.0);
  // One segment, from 1 s before the window to 1 s after it.
  EXPECT_DOUBLE_EQ(result.devices[1].idle.value(), 60.0);
  EXPECT_DOUBLE_EQ(result.devices[1].outside.value(), 20.0);
  EXPECT_EQ(attributed(events, power).devices[0].outside.value(), 0.0);
}

TEST(Attribution, DevicesThatOnlyOneTraceKnows) {
  const Attribution result = attributed({{0, kSecond, 3, 0}}, {{0, kSecond, 1, Watts(10)}});
  ASSERT_EQ(result.devices.size(), 2u);
  EXPECT_EQ(result.devices[0].device, 1u);
  EXPECT_DOUBLE_EQ(result.devices[0].idle.value(), 10.0);
  EXPECT_EQ(result.devices[1].device, 3u);
  EXPECT_EQ(result.devices[1].measured.value(), 0.0);
  EXPECT_DOUBLE_EQ(result.devices[1].uncovered.value(), 1.0);
}

TEST(Attribution, ASegmentEndsWhereTheNextBegins) {
  const Attribution result = attributed({}, {{0, 2 * kSecond, 0, Watts(10)}, {kSecond, 3 * kSecond, 0, Watts(100)}});
  EXPECT_DOUBLE_EQ(result.devices[0].measured.value(), 210.0);
}

TEST(Attribution, EmptyTracesGiveNothing) {
  const Attribution result = attributed({}, {});
  EXPECT_TRUE(result.devices.empty());
  EXPECT_TRUE(result.operations.empty());
}

// 10^7 events of 1 us, one after the other on four streams, made as they are asked for: nothing grows with the trace,
// and a day's worth of joules before them does not blunt what they get.
class ManyEvents final : public EventSource {
 public:
  explicit ManyEvents(Nanoseconds count) : count_(count) {}
  bool next(TraceEvent& event) override {
    if (at_ == count_) return false;
    const Nanoseconds begin = kDay + at_ / 4 * kMicrosecond;
    event = {begin, begin + kMicrosecond, 0, static_cast<OperationId>(at_ % 4)};
    ++at_;
    return true;
  }
  static constexpr Nanoseconds kDay = 86'400 * kSecond;

 private:
  Nanoseconds count_;
  Nanoseconds at_ = 0;
};

TEST(Attribution, TenMillionEventsAfterADay) {
  constexpr Nanoseconds kEvents = 10'000'000;
  ManyEvents events(kEvents);
  MemoryPower power({{0, ManyEvents::kDay, 0, Watts(400)},
                     {ManyEvents::kDay, ManyEvents::kDay + kEvents / 4 * kMicrosecond, 0, Watts(300)}});
  const Attribution result = attribute(events, power);
  ASSERT_EQ(result.operations.size(), 4u);
  // 2.5 s at 300 W, four at a time.
  for (const OperationShare& share : result.operations) {
    EXPECT_NEAR(share.energy.value(), 187.5, 187.5e-9);
    EXPECT_EQ(share.events, 2'500'000u);
  }
  EXPECT_NEAR(result.devices[0].idle.value(), 86'400 * 400.0, 86'400 * 400e-9);
}

class Backwards final : public EventSource {
 public:
  bool next(TraceEvent& event) override {
    event = {-++at_, kSecond, 0, 0};
    return at_ < 3;
  }

 private:
  Nanoseconds at_ = 0;
};

TEST(Attribution, RefusesATraceThatRunsBackwards) {
  Backwards events;
  MemoryPower power({});
  EXPECT_THROW((void)attribute(events, power), InputError);
}

}  // namespace
}  // namespace flyball
