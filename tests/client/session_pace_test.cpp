// What a session tells of a GPU that computes slower than it was profiled, and of its own end. The test that finds it
// is tested without real time (pace_watch_test.cpp).
#include <gmock/gmock.h>

#include "client/computing_times.h"
#include "client/session_fixture.h"

namespace flyball {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class SessionPaceTest : public SessionTest {
 protected:
  std::atomic<bool> hot_{false};
};

// Between two clocks by cycles: 10 s at 100 MHz are 1,000 million, 4 s at 300 MHz 1,200 million, so that at 200 MHz it
// is 1,100 million, or 5.5 s.
TEST(ComputingTimes, AreThoseOfTheClocksOrBetweenThem) {
  ComputingTimes times;
  times.add(1, Megahertz(100), Seconds(9));
  times.add(1, Megahertz(100), Seconds(10));
  times.add(1, Megahertz(300), Seconds(4));
  EXPECT_EQ(times.at(1, Megahertz(100)), Seconds(10));
  EXPECT_EQ(times.at(1, Megahertz(300)), Seconds(4));
  EXPECT_NEAR(times.at(1, Megahertz(200)).value(), 5.5, 1e-12);
  EXPECT_EQ(times.at(1, Megahertz(99)), Seconds(0));
  EXPECT_EQ(times.at(1, Megahertz(301)), Seconds(0));
  EXPECT_EQ(times.at(0, Megahertz(100)), Seconds(0));
}

// First ones of 9 s, and what is not known apart takes what all do.
TEST(ComputingTimes, AreApartForFirstMicrobatches) {
  ComputingTimes times;
  times.add(1, Megahertz(100), Seconds(10));
  times.add(1, Megahertz(100), Seconds(9), Microbatches::kFirst);
  EXPECT_EQ(times.at(1, Megahertz(100)), Seconds(10));
  EXPECT_EQ(times.at(1, Megahertz(100), Microbatches::kFirst), Seconds(9));
  EXPECT_EQ(times.at(1, Megahertz(100), Microbatches::kLast), Seconds(10));
}

// A server that knows first and last microbatches gets them in every report; an earlier one, which refuses them, gets
// all else, and after the first refusal nothing of them.
TEST_F(SessionPaceTest, AnEarlierServerGetsWhatItKnows) {
  microbatches_ = 4;
  const auto own_names = [&] {
    int count = 0;
    server_.look([&](const JobServer& heard) {
      for (const MeasurementReport& report : heard.reports) {
        for (const InstructionMeasurement& one : report.measurements) count += is_own_name(one.instruction) ? 1 : 0;
      }
      return true;
    });
    return count;
  };
  server_.start();
  open(options(true));
  ASSERT_TRUE(train_until([&] { return server_.look([](const JobServer& heard) { return heard.profiled; }); }, 2.0));
  EXPECT_GE(own_names(), 4);
  session_.reset();
  server_.knows_own_names = false;
  server_.forget();
  open(options(true));
  ASSERT_TRUE(train_until([&] { return server_.look([](const JobServer& heard) { return heard.profiled; }); }, 2.0));
  EXPECT_EQ(own_names(), 0);
  server_.look([](const JobServer& heard) {
    EXPECT_GE(heard.reports.size(), 2u);
    EXPECT_EQ(heard.refused, 1);
    return true;
  });
}

// Computations of 4 and 8 ms take four times as long, and then what they took before. The GPU says that it is hot.
TEST_F(SessionPaceTest, ASlowGpuAndItsRecoveryAreTold) {
  server_.start();
  SessionGpu gpu;
  gpu.clocks = {Megahertz(1000), Megahertz(900)};
  gpu.sink = std::make_unique<FakeSink>(gpu_);
  gpu.meter = {"GPU:0", [this] { return gpu_.read(); }};
  gpu.held_back = [this] { return std::string(hot_.load() ? "thermal" : ""); };
  session_ = std::make_unique<Session>(options(true), std::move(gpu));
  ASSERT_TRUE(train_until_swept());
  server_.publish({900, 900, 900, 900});
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 1; }));
  for (int i = 0; i < 40; ++i) step(4.0);
  const auto told = [&](auto condition) {
    return train_until(
        [&] {
          return server_.look(
              [&](const JobServer& heard) { return !heard.paces.empty() && condition(heard.paces.back()); });
        },
        4.0);
  };
  hot_ = true;
  slowness_ = 4.0;
  ASSERT_TRUE(told([](const PaceReport& report) { return report.slowdown > 2.0; }));
  PaceReport slow;
  server_.look([&](const JobServer& heard) {
    slow = heard.paces.back();
    return true;
  });
  EXPECT_GT(slow.since, 40);
  EXPECT_EQ(slow.cause, PaceCause::kThrottled);
  EXPECT_EQ(slow.detail, "thermal");
  ASSERT_TRUE(train_until([&] { return session_->state().steps > 0 && !notices().empty(); }));
  slowness_ = 1.0;
  ASSERT_TRUE(told([](const PaceReport& report) { return report.slowdown == 1.0; }));
  EXPECT_THAT(notices(), Contains(HasSubstr("times as long as it did when it was profiled")));
}

// All computations take 1.3 times as long; the server wants backwards to be measured again, at three clocks. What the
// session measured is scaled at once and measured then, and of nothing else.
TEST_F(SessionPaceTest, WhatHasDriftedIsMeasuredAgain) {
  server_.start();
  open(options(true));
  ASSERT_TRUE(train_until_swept());
  const std::vector<InstructionMeasurement> before = session_->measurements();
  server_.publish({900, 900, 900, 900});
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 1; }));
  slowness_ = 1.3;
  const auto heard = [&](auto condition) { return train_until([&] { return server_.look(condition); }, 4.0); };
  ASSERT_TRUE(heard([](const JobServer& one) {
    return !one.paces.empty() && one.paces.back().operations.size() == 2 &&
           one.paces.back().cause == PaceCause::kComputation;
  }));
  std::size_t known = 0;
  double ratio = 0.0;
  server_.look([&](const JobServer& one) {
    known = one.reports.size();
    for (const DriftedOperation& drifted : one.paces.back().operations) {
      if (drifted.instruction == "backward") ratio = drifted.ratio;
    }
    return true;
  });
  EXPECT_GT(ratio, 1.15);
  (void)gpu_.take_history();
  RankSchedule order;
  for (int i = 0; i < 2; ++i) {
    for (const char* type : {"forward", "backward"}) order.computations.push_back({type, i, 0, 900});
  }
  order.remeasure = RemeasureOrder{2, {"backward"}, {1000, 900, 800}};
  server_.publish(order);
  // All that was measured comes once scaled, and once more with what was measured again.
  std::vector<std::vector<InstructionMeasurement>> sent;
  ASSERT_TRUE(heard([&](const JobServer& one) {
    sent.clear();
    for (std::size_t i = known; i < one.reports.size(); ++i) {
      if (one.reports[i].begins_sweep) sent.emplace_back();
      if (sent.empty()) continue;
      const auto& measured = one.reports[i].measurements;
      sent.back().insert(sent.back().end(), measured.begin(), measured.end());
    }
    return sent.size() == 2 && sent.back().size() == before.size();
  }));
  ASSERT_EQ(sent.front().size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool drifted = before[i].instruction == "backward";
    EXPECT_NEAR(sent[0][i].time / before[i].time, drifted ? ratio : 1.0, 1e-9);
    EXPECT_NEAR(sent[0][i].energy / before[i].energy, drifted ? ratio : 1.0, 1e-9);
    EXPECT_EQ(sent[1][i].clock, before[i].clock);
    if (!drifted) {
      EXPECT_EQ(sent[1][i].time, before[i].time);
      EXPECT_EQ(sent[1][i].energy, before[i].energy);
    } else if (before[i].clock == Megahertz(900)) {
      EXPECT_NE(sent[1][i].time, sent[0][i].time);
      EXPECT_GT(sent[1][i].time / before[i].time, 1.1);
    }
  }
  for (const double mhz : gpu_.take_history()) EXPECT_TRUE(mhz == 0 || (mhz >= 800 && mhz <= 1000)) << mhz;
  // The order is followed once.
  for (int i = 0; i < 20; ++i) step(4.0);
  EXPECT_EQ(session_->state().phase, SessionPhase::kRunning);
  EXPECT_THAT(notices(), Contains(HasSubstr("backward takes")));
}

// To a server that refuses what it does not know of drifts, the same is told without them, and nothing is left out.
TEST_F(SessionPaceTest, AnEarlierServerHearsOfPacesWithoutDrifts) {
  server_.knows_drifts = false;
  server_.start();
  SessionGpu gpu;
  gpu.clocks = {Megahertz(1000), Megahertz(900)};
  gpu.sink = std::make_unique<FakeSink>(gpu_);
  gpu.meter = {"GPU:0", [this] { return gpu_.read(); }};
  session_ = std::make_unique<Session>(options(true), std::move(gpu));
  ASSERT_TRUE(train_until_swept());
  server_.publish({900, 900, 900, 900});
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 1; }));
  for (int i = 0; i < 40; ++i) step(4.0);
  slowness_ = 1.3;
  std::size_t told = 0;
  ASSERT_TRUE(train_until(
      [&] {
        return server_.look([&](const JobServer& heard) {
          if (heard.refused == 0) told = heard.paces.size();
          return heard.refused > 0 && heard.paces.size() > told;
        });
      },
      4.0));
  EXPECT_THAT(notices(), ::testing::Not(Contains(HasSubstr("it is left out"))));
}

TEST_F(SessionPaceTest, ItsEndIsTold) {
  server_.start();
  open(options(true));
  ASSERT_TRUE(server_.wait_for([](const JobServer& heard) { return heard.joins > 0; }));
  ASSERT_TRUE(train_until([&] { return session_->state().server_reachable; }));
  session_.reset();
  EXPECT_TRUE(server_.look([](const JobServer& heard) { return heard.ended == 1; }));
}

// A server that is away is not waited for.
TEST_F(SessionPaceTest, ItsEndWaitsForNoServer) {
  open(options(true));
  step();
  const Nanoseconds begin = monotonic_now();
  session_.reset();
  EXPECT_LT(to_seconds(monotonic_now() - begin), Seconds(30));
}

}  // namespace
}  // namespace flyball
