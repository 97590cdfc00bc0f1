// Whether iterations take what their schedule promises, as a session sees it. The rules themselves are tested without
// real time (loop/promise_test.cpp).
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "client/session_fixture.h"

namespace flyball {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class SessionPromiseTest : public SessionTest {
 protected:
  SessionPromiseTest() {
    server_.start();
    SessionOptions chosen = options(true);
    chosen.profile = false;
    open(chosen);
  }

  // A schedule that promises the time of maximum clocks and sets this one.
  static RankSchedule promising(int mhz, bool at_maximum = false) {
    RankSchedule schedule;
    schedule.max_clock_time = Seconds(1);
    schedule.at_maximum = at_maximum;
    schedule.computations = {
        {"forward", 0, 0, mhz}, {"backward", 0, 0, mhz}, {"forward", 1, 0, mhz}, {"backward", 1, 0, mhz}};
    return schedule;
  }

  // Trains until the server has heard of this version's promise. Returns the last report.
  PromiseReport reported(std::int64_t version, double milliseconds = 1.0) {
    std::optional<PromiseReport> last;
    const auto heard = [&] {
      return server_.look([&](const JobServer& server) {
        if (!server.promises.empty() && server.promises.back().version == version) last = server.promises.back();
        return last.has_value();
      });
    };
    EXPECT_TRUE(train_until(heard, milliseconds));
    return last.value_or(PromiseReport{});
  }
};

// At 400 MHz a step of 6 ms takes 15: after one or two of them the clocks are at their default, and stay there while
// the ranks measure what maximum clocks take, for the rest of the version.
TEST_F(SessionPromiseTest, ClocksThatMakeStepsTooLongAreGivenUp) {
  server_.publish(promising(400));
  const PromiseReport broken = reported(1);
  EXPECT_TRUE(broken.slower);
  EXPECT_LE(broken.iterations, 10);
  EXPECT_GT(broken.at_maximum, Seconds(0.006));
  EXPECT_GT(broken.time, broken.at_maximum);
  EXPECT_THAT(notices(), Contains(HasSubstr("longer than promised")));
  EXPECT_EQ(session_->state().promise, PromiseVerdict::kSlower);
  ASSERT_TRUE(train_until([&] { return gpu_.at_default(); }));
  (void)gpu_.take_history();
  for (int i = 0; i < 20; ++i) step();
  EXPECT_TRUE(gpu_.take_history().empty());

  server_.publish(promising(400, true));
  const PromiseReport measured = reported(2);
  EXPECT_FALSE(measured.slower);
  EXPECT_EQ(measured.iterations, 10);
  EXPECT_GT(measured.time, Seconds(0.006));
  EXPECT_TRUE(gpu_.take_history().empty());
  EXPECT_EQ(session_->state().promise, PromiseVerdict::kUnknown);
}

// A user whose server is away is told why the clocks are at their default, once; the server is told when it is back.
TEST_F(SessionPromiseTest, TheUserIsToldAlsoWhileTheServerIsAway) {
  server_.publish(promising(1000));
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 1; }));
  server_.stop();
  for (int i = 0; i < 20; ++i) step();  // the first of these measure what maximum clocks take
  slowness_ = 2.0;                      // three times as long would be taken for a stall
  const auto told = [&] {
    const auto all = notices();
    return std::count_if(all.begin(), all.end(), [](const std::string& words) {
      return words.find("longer than promised") != std::string::npos &&
             words.find("will be told when it answers") != std::string::npos;
    });
  };
  ASSERT_TRUE(train_until([&] { return told() > 0; }));
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(told(), 1);
}

// What the driver says of a clock that is lower than asked for goes to the server with the broken promise.
TEST_F(SessionPromiseTest, WhatThrottlesIsSaid) {
  {
    const std::scoped_lock lock(mutex_);
    throttled_ = "thermal";
  }
  server_.publish(promising(400));
  EXPECT_EQ(reported(1).cause, "its GPU is throttled: thermal");
  EXPECT_THAT(notices(), Contains(HasSubstr("its GPU is throttled: thermal")));
}

// After a sweep, the last backward of each step becomes three times as long: the backwards of a step take twice their
// time. Nothing is said of a step whose clocks are given up in its middle, as a busy machine may cause it.
TEST_F(SessionPromiseTest, AnOperationThatTakesLongerThanInItsProfileIsNamed) {
  session_.reset();
  open(options(true));
  ASSERT_TRUE(train_until_swept());
  for (std::int64_t version = 1; version <= 100; ++version) {
    server_.publish(promising(1000));
    if (reported(version, 5.0).slower) continue;
    PromiseReport last;
    while (!last.slower) {
      session_->step_begin();
      for (int microbatch = 0; microbatch < 2; ++microbatch) {
        compute("forward", 5.0);
        slowness_ = microbatch == 1 ? 3.0 : 1.0;
        compute("backward", 10.0);
        slowness_ = 1.0;
      }
      session_->step_end();
      (void)server_.look([&](const JobServer& server) { return last = server.promises.back(), true; });
    }
    if (last.cause.empty()) continue;
    EXPECT_THAT(last.cause, HasSubstr("backward takes"));
    return;
  }
  FAIL() << "no step told it";
}

// The clock is the highest, so that only a busy machine makes these steps longer: one version of many is kept.
TEST_F(SessionPromiseTest, ClocksThatKeepThePromiseStay) {
  for (std::int64_t version = 1; version <= 100; ++version) {
    server_.publish(promising(1000));
    const PromiseReport report = reported(version, 5.0);
    if (report.slower) {
      server_.publish(promising(1000, true));
      (void)reported(++version, 5.0);
      continue;
    }
    EXPECT_EQ(report.iterations, 10);
    EXPECT_EQ(session_->state().promise, PromiseVerdict::kKept);
    EXPECT_GT(session_->state().at_maximum, Seconds(0.006));
    EXPECT_FALSE(gpu_.at_default());
    // The clock is the default's, and so is what these iterations take.
    const RankSavings savings = session_->state().savings;
    EXPECT_GE(savings.iterations, 10);
    EXPECT_NEAR(savings.energy / savings.energy_at_maximum, 1.0, 0.2);
    return;
  }
  FAIL() << "no version was kept";
}

// All becomes ten times as long, and maximum clocks are measured before the server knows that a straggler is why. A
// schedule that allows for the straggler is compared with what they took before it.
TEST_F(SessionPromiseTest, AStragglersIterationsAreNotWhatMaximumClocksTake) {
  RankSchedule usual = promising(1000);
  server_.publish(usual);
  const PromiseReport before = reported(1);
  slowness_ = 10.0;
  server_.publish(promising(1000, true));
  EXPECT_GT(reported(2).at_maximum, 4.0 * before.at_maximum);
  server_.publish(usual);
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 3; }));
  usual.allowed_time = 10.0 * usual.max_clock_time;
  server_.publish(usual);
  EXPECT_LT(reported(4).at_maximum, 3.0 * before.at_maximum);
}

// Without `max_clock_time` (an older server) nothing is promised.
TEST_F(SessionPromiseTest, WhatPromisesNothingIsNotGivenUp) {
  RankSchedule schedule = promising(400);
  schedule.max_clock_time = {};
  server_.publish(schedule);
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 1; }));
  for (int i = 0; i < 30; ++i) step();
  EXPECT_EQ(gpu_.clock(), 400);
  EXPECT_EQ(session_->state().promise, PromiseVerdict::kUnknown);
}

}  // namespace
}  // namespace flyball
