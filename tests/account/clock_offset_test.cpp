// The offset of two clocks, found again on traces that were made with one.
#include "account/clock_offset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "support/memory_traces.h"

namespace flyball {
namespace {

using testing::MemoryEvents;
using testing::MemoryPower;

constexpr Nanoseconds kWholeDay = 86'400 * kSecond;

struct Case {
  std::vector<TraceEvent> events;
  std::vector<PowerSegment> power;
};

// Bursts of work of 20 to 300 ms, 60 s long; the power of 10 ms periods is 60 W and 200 W more for the share at work,
// with a noise of 10 W. The power's clock is `offset` ahead.
Case bursts(Nanoseconds offset, bool regular = false) {
  std::mt19937 random(11);
  Case result;
  for (Nanoseconds at = 0; at < 60'000 * kMillisecond;) {
    const Nanoseconds length =
        regular ? 100 * kMillisecond : (20 + static_cast<Nanoseconds>(random() % 280)) * kMillisecond;
    result.events.push_back({at, at + length, 0, 0});
    at += length + (regular ? 100 * kMillisecond : (20 + static_cast<Nanoseconds>(random() % 280)) * kMillisecond);
  }
  std::size_t first = 0;
  for (Nanoseconds at = -5'000 * kMillisecond; at < 65'000 * kMillisecond; at += 10 * kMillisecond) {
    Nanoseconds busy = 0;
    while (first < result.events.size() && result.events[first].end <= at) ++first;
    for (std::size_t i = first; i < result.events.size() && result.events[i].begin < at + 10 * kMillisecond; ++i) {
      busy += std::min(result.events[i].end, at + 10 * kMillisecond) - std::max(result.events[i].begin, at);
    }
    const double noise = static_cast<double>(random() % 2001) / 100.0 - 10.0;
    result.power.push_back(
        {at + offset, at + offset + 10 * kMillisecond, 0,
         Watts(60.0 + 200.0 * static_cast<double>(busy) / static_cast<double>(10 * kMillisecond) + noise)});
  }
  return result;
}

ClockOffset estimate(Case c, const ClockOffsetOptions& options = {}) {
  MemoryEvents events(std::move(c.events));
  MemoryPower power(std::move(c.power));
  return estimate_clock_offset(events, power, options);
}

TEST(ClockOffset, IsFoundToAMillisecond) {
  for (const Nanoseconds offset : {Nanoseconds{0}, 137 * kMillisecond, -2'504 * kMillisecond}) {
    const ClockOffset found = estimate(bursts(offset));
    EXPECT_EQ(found.verdict, OffsetVerdict::kCertain) << name_of(found.verdict);
    EXPECT_NEAR(static_cast<double>(found.offset), static_cast<double>(offset), 1e6);
    EXPECT_GT(found.correlation, 0.95);
    EXPECT_EQ(found.devices.size(), 1u);
  }
}

// Event times from the start of a machine, power in Unix time.
TEST(ClockOffset, OfDifferentClocks) {
  const ClockOffset found = estimate(bursts(19'000 * kWholeDay));
  EXPECT_EQ(found.verdict, OffsetVerdict::kCertain);
  EXPECT_NEAR(static_cast<double>(found.offset - 19'000 * kWholeDay), 0.0, 1e6);
  EXPECT_EQ(found.correlation_unshifted, 0.0);
}

// Work from 1 s to 2 s and again `period` later, power from 0 s to 8 s on a clock `offset` ahead: one period earlier
// the second burst alone lies over the first of power, and fits as well. All of the work lies over power at the offset.
TEST(ClockOffset, OfDifferentClocksLaysAllWorkOverPower) {
  for (const Nanoseconds period : {2'000 * kMillisecond, 2'005 * kMillisecond}) {
    for (const Nanoseconds offset : {1'000'000 * kMillisecond, 1'000'007 * kMillisecond, -1'000'007 * kMillisecond}) {
      Case c;
      for (const Nanoseconds begin : {1'000 * kMillisecond, 1'000 * kMillisecond + period}) {
        c.events.push_back({begin, begin + 1'000 * kMillisecond, 0, 0});
      }
      for (Nanoseconds at = 0; at < 8'000 * kMillisecond; at += 40 * kMillisecond) {
        double busy = 0.0;
        for (const TraceEvent& event : c.events) {
          const Nanoseconds both = std::min(event.end, at + 40 * kMillisecond) - std::max(event.begin, at);
          busy += static_cast<double>(std::max<Nanoseconds>(both, 0)) / static_cast<double>(40 * kMillisecond);
        }
        c.power.push_back({at + offset, at + offset + 40 * kMillisecond, 0, Watts(50 + 150 * busy)});
      }
      const ClockOffset found = estimate(c);
      EXPECT_NEAR(static_cast<double>(found.offset - offset), 0.0, 10e6) << period << ' ' << offset;
      EXPECT_EQ(found.verdict, OffsetVerdict::kAmbiguous);
    }
  }
}

// A program that does the same every 200 ms fits at every multiple, but for its beginning and end: that is said.
TEST(ClockOffset, OfARegularProgramIsAmbiguous) {
  const ClockOffset found = estimate(bursts(430 * kMillisecond, true));
  EXPECT_EQ(found.verdict, OffsetVerdict::kAmbiguous);
  EXPECT_GT(found.runner_up, 0.95 * found.correlation);
  const double phase = std::remainder(static_cast<double>(found.offset) / 1e6 - 430.0, 200.0);
  EXPECT_NEAR(phase, 0.0, 2.0);
}

// Power that wanders by itself follows some stretch of any program's events.
TEST(ClockOffset, PowerOfAnotherProgramIsSeldomCertain) {
  int certain = 0;
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    Case other = bursts(0);
    std::erase_if(other.events, [](const TraceEvent& event) { return event.begin > 2'000 * kMillisecond; });
    std::erase_if(other.power, [](const PowerSegment& segment) { return segment.begin > 2'000 * kMillisecond; });
    std::mt19937 random(seed);
    double watts = 200.0;
    for (PowerSegment& segment : other.power) {
      watts = std::max(20.0, watts + static_cast<double>(random() % 2001) / 100.0 - 10.0);
      segment.power = Watts(watts);
      segment.begin += 1'000 * kWholeDay;
      segment.end += 1'000 * kWholeDay;
    }
    certain += estimate(std::move(other)).verdict == OffsetVerdict::kCertain ? 1 : 0;
  }
  EXPECT_LE(certain, 4);
}

TEST(ClockOffset, SaysWhenThereIsNothingToGoBy) {
  EXPECT_EQ(estimate({}).verdict, OffsetVerdict::kNoData);
  Case other = bursts(0);
  for (PowerSegment& segment : other.power) segment.device = 1;
  EXPECT_EQ(estimate(other).verdict, OffsetVerdict::kNoData);
  Case flat = bursts(0);
  for (PowerSegment& segment : flat.power) segment.power = Watts(100);
  EXPECT_EQ(estimate(flat).verdict, OffsetVerdict::kNoData);
  // Neither are the ends of a trace that do not fill a bin, nor a gap, a change of power.
  Case ends = bursts(0);
  ends.power = {{3 * kMillisecond, 30'001 * kMillisecond, 0, Watts(50)},
                {40'002 * kMillisecond, 60'007 * kMillisecond, 0, Watts(50)}};
  EXPECT_EQ(estimate(ends).verdict, OffsetVerdict::kNoData);
  Case noise = bursts(0);
  std::mt19937 random(2);
  for (PowerSegment& segment : noise.power) segment.power = Watts(static_cast<double>(random() % 100));
  EXPECT_EQ(estimate(noise).verdict, OffsetVerdict::kWeak);
}

// Work on two devices, whose correlations are taken together; a year of idling changes the bins, not the memory.
TEST(ClockOffset, LongTracesGetWideBins) {
  Case c = bursts(137 * kMillisecond);
  c.power.push_back({365 * kWholeDay, 366 * kWholeDay, 0, Watts(60)});
  const ClockOffset found = estimate(c);
  EXPECT_GT(found.resolution.value(), 60.0);
}

}  // namespace
}  // namespace flyball
