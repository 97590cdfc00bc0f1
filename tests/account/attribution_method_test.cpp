// The method that chooses itself, its errors held against simulated truth, and its groups.
#include "account/attribution_method.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "account/power_posterior.h"
#include "account/regular_power.h"
#include "account/survey.h"
#include "support/attribution_coverage.h"
#include "support/figures.h"
#include "support/memory_traces.h"
#include "support/unkind_truth.h"

namespace flyball {
namespace {

using testing::account_of;
using testing::Coverage;
using testing::make_traces;
using testing::make_unkind_truth;
using testing::MemoryEvents;
using testing::MemoryPower;
using testing::StepOrder;
using testing::UnkindShape;
using testing::UnkindTruth;

RegressedAttribution account(const std::vector<TraceEvent>& events, const std::vector<PowerSegment>& power,
                             const MethodOptions& options = {}) {
  const Traces traces = [&](const TracePass& pass) {
    MemoryEvents event_source(events);
    MemoryPower power_source(power);
    pass(event_source, power_source);
  };
  return attribute_by_method(traces, options);
}

Attribution swept(const std::vector<TraceEvent>& events, const std::vector<PowerSegment>& power) {
  MemoryEvents event_source(events);
  MemoryPower power_source(power);
  return attribute(event_source, power_source);
}

// Of n rows with a chance of 0.9 each, fewer than n (0.9 - 3.1 sqrt(0.09 / n)) lie inside once in a thousand times.
// Over all cells n is 1,440 (87.5 %), in a cell 240 (84.0 %). Intervals that are right by being wide would not pass:
// half of them are narrower than a third of the energy, and the energies are off by less than a third of the sweep's
// error.
TEST(AttributionMethod, NineOfTenRowsLieInTheirIntervals) {
  FLYBALL_STATISTIC();
  constexpr int kPrograms = 6;
  int rows = 0;
  int inside = 0;
  for (const Nanoseconds period : {20, 100}) {
    for (const StepOrder order : {StepOrder::kFixed, StepOrder::kRandom, StepOrder::kMixed}) {
      UnkindShape shape;
      shape.order = order;
      shape.period = period * kMillisecond;
      const Coverage coverage = testing::coverage_of(shape, kPrograms);
      EXPECT_EQ(coverage.rows, 40 * kPrograms);
      EXPECT_GT(coverage.inside_share(), 0.84) << period << " ms, order " << static_cast<int>(order);
      EXPECT_LT(coverage.median_width(), 1.0 / 3.0);
      EXPECT_LT(coverage.median_error(), coverage.median_sweep_error() / 3.0);
      EXPECT_EQ(coverage.regressed, kPrograms);
      rows += coverage.rows;
      inside += coverage.inside;
    }
  }
  EXPECT_GT(inside, 0.875 * rows);
}

// What the model of the readings is wrong about, in the order in which it matters the most: streams whose powers add
// up, power that rises within operations, counters that are late by more than an operation takes, that smooth, whose
// stamps are late by lot. Of 800 rows fewer than 86.7 % lie inside once in a thousand times, if 90 % should; rows of
// a program go wrong together, so that 82 % are asked for. The seeds are none that the method was made with.
TEST(AttributionMethod, NineOfTenRowsLieInsideWhereTheModelIsWrong) {
  FLYBALL_STATISTIC();
  UnkindShape streams;
  streams.second_stream = 0.5;
  UnkindShape ramps;
  ramps.ramp = 2 * kMillisecond;
  UnkindShape lag;
  lag.lag = 10 * kMillisecond;
  UnkindShape smooth;
  smooth.smoothing = 2 * kMillisecond;
  UnkindShape stamps;
  stamps.late = 4 * kMillisecond;
  int rows = 0;
  int inside = 0;
  for (const UnkindShape& shape : {streams, ramps, lag, smooth, stamps}) {
    const Coverage coverage = testing::coverage_of(shape, 4, 7001);
    EXPECT_LT(coverage.median_error(), coverage.median_sweep_error() / 3.0);
    EXPECT_LT(coverage.median_width(), 1.0 / 4.0) << "useful";
    rows += coverage.rows;
    inside += coverage.inside;
  }
  EXPECT_EQ(rows, 800);
  EXPECT_GT(inside, 0.82 * rows);
}

// Stamps late by lot make the readings of a locked loop look different, and a fit to them would be far worse than the
// sweep. Put where they belong, the readings are alike, and the sweep stays.
TEST(AttributionMethod, ALockedLoopWithLateStampsIsSwept) {
  UnkindShape shape;
  shape.order = StepOrder::kLocked;
  shape.late = 4 * kMillisecond;
  const RegressedAttribution result = account_of(make_unkind_truth(shape, 7001), AccountMethod::kAuto);
  ASSERT_EQ(result.fits.size(), 1u);
  EXPECT_TRUE(result.fits[0].straightened);
  EXPECT_EQ(result.attribution.devices.at(0).method, AccountMethod::kSweep);
}

// Idle power is 50 W; A adds 100 W and B 200 W to it, together or alone. In each reading of 20 ms, A runs from its
// begin for a ms by lot and B to its end for b ms by lot. Where both run (a + b > 20), each has half of the idle power.
TEST(AttributionMethod, PowersOfStreamsAddUp) {
  std::mt19937_64 random(11);
  std::vector<TraceEvent> events;
  std::vector<PowerSegment> power;
  double a_joules = 0.0;
  double b_joules = 0.0;
  for (Nanoseconds k = 0; k < 400; ++k) {
    const Nanoseconds begin = k * 20 * kMillisecond;
    const auto a = static_cast<Nanoseconds>(1 + random() % 18);
    const auto b = static_cast<Nanoseconds>(1 + random() % 18);
    events.push_back({begin, begin + a * kMillisecond, 0, 0});
    events.push_back({begin + (20 - b) * kMillisecond, begin + 20 * kMillisecond, 0, 1});
    const auto both = static_cast<double>(std::max<Nanoseconds>(a + b - 20, 0));
    a_joules += 1e-3 * (150.0 * static_cast<double>(a) - 25.0 * both);
    b_joules += 1e-3 * (250.0 * static_cast<double>(b) - 25.0 * both);
    const double watts = 50.0 + 100.0 * static_cast<double>(a) / 20.0 + 200.0 * static_cast<double>(b) / 20.0;
    power.push_back({begin, begin + 20 * kMillisecond, 0, Watts(watts)});
  }
  const RegressedAttribution result = account(events, power);
  ASSERT_EQ(result.fits.size(), 1u);
  EXPECT_TRUE(result.fits[0].adds);
  EXPECT_NEAR(result.attribution.operations.at(0).energy.value(), a_joules, 0.001 * a_joules);
  EXPECT_NEAR(result.attribution.operations.at(1).energy.value(), b_joules, 0.001 * b_joules);
  EXPECT_LT(result.attribution.operations[0].error.value(), 0.01 * a_joules);
}

// The counter's time constant is found to a quarter, where operations come by lot.
TEST(AttributionMethod, ACounterThatSmoothsIsFound) {
  UnkindShape shape;
  shape.order = StepOrder::kRandom;
  shape.smoothing = 2 * kMillisecond;
  const RegressedAttribution result = account_of(make_unkind_truth(shape, 7001), AccountMethod::kAuto);
  ASSERT_EQ(result.fits.size(), 1u);
  EXPECT_NEAR(result.fits[0].smoothing.value(), 0.002, 0.0005);
}

// A counter changes every 20 ms; the stamps of its even changes are right, those of the odd ones 2 ms late: the middle
// is 1 ms late. The first and the last stamp stay. Each reading keeps its energy.
TEST(RegularPower, StampsArePutInEvenSteps) {
  std::vector<PowerSegment> power;
  const auto stamp = [](Nanoseconds k) { return k * 20 * kMillisecond + (k % 2) * 2 * kMillisecond; };
  for (Nanoseconds k = 0; k < 1000; ++k)
    power.push_back({stamp(k), stamp(k + 1), 0, Watts(100.0 + 10.0 * static_cast<double>(k % 7))});
  power.push_back({stamp(1000), stamp(1000) + 5, 1, Watts(40)});  // of another device
  MemoryPower source(power);
  RegularPower regular(source, {Seconds(0.02)});
  PowerSegment segment;
  for (std::size_t k = 0; k < 1000; ++k) {
    ASSERT_TRUE(regular.next(segment));
    const double length = to_seconds(segment.end - segment.begin).value();
    const double energy = power[k].power.value() * to_seconds(power[k].end - power[k].begin).value();
    EXPECT_NEAR(segment.power.value() * length, energy, 1e-9 * energy);
    if (k < 20 || k > 980) continue;
    const double even = 0.02 * static_cast<double>(k) + 0.001;
    EXPECT_NEAR(to_seconds(segment.begin).value(), even, 2e-5);
  }
  EXPECT_EQ(segment.end, stamp(1000));
  ASSERT_TRUE(regular.next(segment));
  EXPECT_EQ(segment.device, 1u);
  EXPECT_EQ(segment.end, stamp(1000) + 5);
  EXPECT_FALSE(regular.next(segment));
}

// A loop that is locked to the sensor: all readings have the same composition, so that single powers cannot be known.
// The sweep's numbers stand, with wide intervals, and the sum of the group is known.
TEST(AttributionMethod, ALockedLoopIsAGroup) {
  UnkindShape shape;
  shape.order = StepOrder::kLocked;
  shape.period = 200 * kMillisecond;
  shape.shortest = shape.longest = 5 * kMillisecond;  // 40 of them are one reading
  const UnkindTruth truth = make_unkind_truth(shape, 2);
  const RegressedAttribution result = account_of(truth, AccountMethod::kAuto);
  EXPECT_EQ(result.attribution.devices.at(0).method, AccountMethod::kSweep);
  const Attribution sweep = swept(truth.events, truth.readings);
  double measured = 0.0;
  double sum = 0.0;
  for (std::size_t i = 0; i < result.attribution.operations.size(); ++i) {
    const OperationShare& share = result.attribution.operations[i];
    EXPECT_DOUBLE_EQ(share.energy.value(), sweep.operations[i].energy.value());
    EXPECT_EQ(share.group, 1u);
    EXPECT_GT(share.error, 0.4 * share.energy);
    measured += share.energy.value();
    sum += truth.energy[share.operation];
  }
  ASSERT_EQ(result.attribution.groups.size(), 1u);
  EXPECT_NEAR(result.attribution.groups[0].energy.value(), measured, 1e-9 * measured);
  EXPECT_NEAR(sum, measured, 0.01 * measured);
  EXPECT_LT(result.attribution.groups[0].error.value(), 0.02 * measured);
}

// Readings of 20 ms. In each, A for 1 ms and B for 2 ms run together once to three times, the rest is C, D and nothing
// by lot. Of A (300 W) and B (150 W) only the sum can be known: n executions take n (0.3 + 0.3) J. C and D are known.
TEST(AttributionMethod, WhatAlwaysRunsTogetherIsAGroup) {
  std::mt19937_64 random(5);
  std::vector<TraceEvent> events;
  std::vector<PowerSegment> power;
  double together = 0.0;
  double c_joules = 0.0;
  for (Nanoseconds k = 0; k < 500; ++k) {
    Nanoseconds now = k * 20 * kMillisecond;
    const Nanoseconds begin = now;
    double joules = 0.0;
    const auto run = [&](OperationId operation, Nanoseconds milliseconds, double watts) {
      const Nanoseconds end = now + milliseconds * kMillisecond;
      if (operation < 4) events.push_back({now, end, 0, operation});
      joules += watts * 1e-3 * static_cast<double>(milliseconds);
      now = end;
    };
    for (std::uint64_t pairs = 1 + random() % 3; pairs > 0; --pairs) {
      run(0, 1, 300.0);
      run(1, 2, 150.0);
      together += 0.6;
    }
    const auto c = static_cast<Nanoseconds>(random() % 6);
    run(2, c, 220.0);
    c_joules += 0.22 * static_cast<double>(c);
    run(3, static_cast<Nanoseconds>(random() % 5), 120.0);
    run(4, (begin + 20 * kMillisecond - now) / kMillisecond, 60.0);
    power.push_back({begin, now, 0, Watts(joules / 0.02)});
  }
  const Attribution result = account(events, power).attribution;
  EXPECT_EQ(result.devices.at(0).method, AccountMethod::kBoth);
  ASSERT_EQ(result.groups.size(), 1u);
  EXPECT_EQ(result.operations.at(0).group, 1u);
  EXPECT_EQ(result.operations.at(1).group, 1u);
  EXPECT_EQ(result.operations.at(2).group, 0u);
  EXPECT_EQ(result.operations.at(3).group, 0u);
  EXPECT_NEAR(result.groups[0].energy.value(), together, 0.01 * together);
  EXPECT_LT(result.groups[0].error.value(), 0.02 * together);
  EXPECT_GT(result.operations[0].error, 0.1 * result.operations[0].energy);
  EXPECT_NEAR(result.operations[2].energy.value(), c_joules, 0.01 * c_joules);
}

// Operations of a second each, a reading every 100 ms: an operation has 10 readings of its own, and the regression has
// nothing to add. Read at whole periods, nothing is mixed.
TEST(AttributionMethod, LongOperationsAreSwept) {
  std::vector<TraceEvent> events;
  std::vector<PowerSegment> power;
  for (Nanoseconds i = 0; i < 60; ++i) {
    events.push_back({i * kSecond, (i + 1) * kSecond, 0, static_cast<OperationId>(i % 6)});
    for (Nanoseconds k = 0; k < 10; ++k) {
      const Nanoseconds begin = i * kSecond + k * 100 * kMillisecond;
      power.push_back({begin, begin + 100 * kMillisecond, 0, Watts(100.0 + 20.0 * static_cast<double>(i % 6))});
    }
  }
  const RegressedAttribution result = account(events, power);
  EXPECT_TRUE(result.fits.empty()) << "none was tried";
  for (const OperationShare& share : result.attribution.operations) {
    EXPECT_DOUBLE_EQ(share.energy.value(), 10.0 * (100.0 + 20.0 * share.operation));
    EXPECT_NEAR(share.error.value(), 0.0, 1e-9);
  }
}

// A counter that is late by 7 ms, more than most operations take: found to 0.1 ms, and the energies are as good as
// those of one that is not.
TEST(AttributionMethod, ACounterThatIsLateIsFound) {
  UnkindShape shape;
  shape.order = StepOrder::kMixed;
  shape.lag = 7 * kMillisecond;
  const UnkindTruth truth = make_unkind_truth(shape, 1);
  const RegressedAttribution result = account_of(truth, AccountMethod::kAuto);
  ASSERT_EQ(result.fits.size(), 1u);
  EXPECT_NEAR(result.fits[0].moved.value(), 0.007, 0.0001);
  const Coverage coverage = testing::coverage_of(shape, 2);
  EXPECT_LT(coverage.median_error(), 0.02);
}

TEST(AttributionMethod, EveryMethodConservesEnergy) {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(testing::tries(5, 1)); ++seed) {
    const testing::MadeTraces made = make_traces({.events = 3000}, seed);
    UnkindShape shape;
    shape.length = 5 * kSecond;
    shape.lag = 3 * kMillisecond;
    const UnkindTruth truth = make_unkind_truth(shape, seed);
    for (const AccountMethod method : values_of<AccountMethod>()) {
      for (const Attribution& result : {account(made.events, made.power, {.method = method}).attribution,
                                        account(truth.events, truth.readings, {.method = method}).attribution}) {
        for (const DeviceShare& device : result.devices) {
          double rows = 0.0;
          for (const OperationShare& share : result.operations) {
            EXPECT_GE(share.energy.value(), 0.0);
            EXPECT_GE(share.error.value(), 0.0) << "known";
            if (share.device == device.device) rows += share.energy.value();
          }
          const double measured = device.measured.value();
          EXPECT_NEAR((device.attributed + device.idle + device.outside).value(), measured, 1e-9 * measured);
          EXPECT_NEAR(rows, device.attributed.value(), 1e-9 * measured);
        }
      }
    }
  }
}

// Power that is drawn by lot does not depend on what runs: the sweep stands.
TEST(AttributionMethod, PowerByLotIsSwept) {
  testing::TraceShape shape;
  shape.events = 20'000;
  shape.devices = 1;
  const testing::MadeTraces made = make_traces(shape, 3);
  const Attribution result = account(made.events, made.power).attribution;
  EXPECT_EQ(result.devices.at(0).method, AccountMethod::kSweep);
  const Attribution sweep = swept(made.events, made.power);
  for (std::size_t i = 0; i < sweep.operations.size(); ++i) {
    EXPECT_DOUBLE_EQ(result.operations[i].energy.value(), sweep.operations[i].energy.value());
  }
}

TEST(AttributionMethod, NothingIsMeasuredOrNothingRan) {
  const RegressedAttribution no_power = account({{0, kSecond, 0, 0}}, {});
  ASSERT_EQ(no_power.attribution.operations.size(), 1u);
  EXPECT_EQ(no_power.attribution.operations[0].energy, Joules(0));
  const RegressedAttribution no_events = account({}, {{0, kSecond, 0, Watts(10)}}, {.method = AccountMethod::kBoth});
  EXPECT_DOUBLE_EQ(no_events.attribution.devices.at(0).idle.value(), 10.0);
  EXPECT_TRUE(account({}, {}).attribution.devices.empty());
  // Readings of 0 W, and events of no length.
  std::vector<TraceEvent> events;
  std::vector<PowerSegment> power;
  for (Nanoseconds i = 0; i < 100; ++i) {
    events.push_back({i * kMillisecond, i * kMillisecond, 0, static_cast<OperationId>(i % 3)});
    events.push_back({i * kMillisecond, i * kMillisecond + kMillisecond / 2, 0, 3 + static_cast<OperationId>(i % 2)});
    power.push_back({i * kMillisecond, (i + 1) * kMillisecond, 0, Watts(0)});
  }
  for (const AccountMethod method : values_of<AccountMethod>()) {
    for (const OperationShare& share : account(events, power, {.method = method}).attribution.operations) {
      EXPECT_DOUBLE_EQ(share.energy.value(), 0.0);
      EXPECT_FALSE(std::isnan(share.energy.value()));
    }
  }
}

// One operation of 3/4 of each reading of 1 s beside three others of 1/12 s, which take turns of which runs last for
// what is left over: m = t - A. Operation 0 has in each reading x = 3/4 and so m = 1 s * (3/4 - 9/16) = 3/16 s.
TEST(Survey, TimeInMixedReadingsCounts) {
  std::vector<TraceEvent> events;
  std::vector<PowerSegment> power;
  for (Nanoseconds k = 0; k < 12; ++k) {
    const Nanoseconds begin = k * kSecond;
    events.push_back({begin, begin + 750 * kMillisecond, 0, 0});
    events.push_back({begin + 750 * kMillisecond, begin + kSecond, 0, 1});
    power.push_back({begin, begin + kSecond, 0, Watts(100)});
  }
  MemoryEvents event_source(events);
  MemoryPower power_source(power);
  const SurveyedAttribution result = survey_attribution(event_source, power_source, {});
  ASSERT_EQ(result.devices.size(), 1u);
  // Of both: 2 * 3/16 of 1 s.
  EXPECT_NEAR(result.devices[0].mixed, 0.375, 1e-9);
  EXPECT_EQ(result.devices[0].readings, 12u);
  // The compositions do not differ, so that the spread is the prior's, 40 W. m is 12 * 3/16 = 2.25 s, the one other
  // operation is as much again: 40 W * 2.25 s * sqrt(2) = 127.3 J, times Student's t for 8 degrees of freedom, 1.860.
  EXPECT_NEAR(result.attribution.operations[0].error.value(), 127.28 * 1.860, 1.5);
}

// Tables of Student's distribution.
TEST(PowerPosterior, StudentsQuantiles) {
  EXPECT_NEAR(student_95(5), 2.015, 0.02);
  EXPECT_NEAR(student_95(10), 1.812, 0.005);
  EXPECT_NEAR(student_95(30), 1.697, 0.001);
  EXPECT_NEAR(student_95(1e9), 1.645, 0.001);
}

// Each operation alone in 400 readings, whose noise is +1 W and -1 W in turns: the mean of 400 is known to 1 W / 20,
// and all three powers are decided.
TEST(PowerPosterior, OfOperationsThatRunAlone) {
  const Eigen::Vector3d watts(60.0, 100.0, 300.0);
  const Eigen::MatrixXd products = 400.0 * Eigen::Matrix3d::Identity();
  const Eigen::VectorXd right = 400.0 * watts;
  const double squares = 400.0 * watts.squaredNorm() + 1200.0;
  const PowerPosterior posterior = infer_powers(products, right, squares, 1200.0);
  EXPECT_NEAR(posterior.noise, 1.0, 0.01);
  EXPECT_NEAR(posterior.determined, 3.0, 0.01);
  for (Eigen::Index i = 0; i < 3; ++i) {
    EXPECT_NEAR(posterior.power(i), watts(i), 0.01);
    EXPECT_NEAR(std::sqrt(posterior.covariance(i, i)), 0.05, 0.001);
  }
}

}  // namespace
}  // namespace flyball
