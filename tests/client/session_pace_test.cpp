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
