#include "client/clock_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/monotonic_time.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Waits, for half a minute at most.
template <class Condition>
bool comes_true(const Condition& condition) {
  const Nanoseconds deadline = monotonic_now() + 30'000'000'000;
  while (!condition()) {
    if (monotonic_now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// Whether so many settings come to have reached the device.
bool comes_to_apply(const ClockController& controller, std::uint64_t settings) {
  return comes_true([&] { return controller.state().applied == settings; });
}

// Limits of power are told as this and the limit in watts.
constexpr double kLimits = 100'000;

// What a sink was told, 0 for a release (kLimits for that of a limit). It can be made to wait and to refuse.
class Device {
 public:
  void told(double mhz) {
    std::unique_lock lock(mutex_);
    ++calls_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    if (refusing_ && mhz > 0 && mhz != kLimits) throw SystemError("the driver refused");
    history_.push_back(mhz);
    changed_.notify_all();
  }

  void close() { set(open_, false); }
  void open() { set(open_, true); }
  void refuse(bool refusing) { set(refusing_, refusing); }
  void lose() { set(losing_, true); }
  [[nodiscard]] bool take_loss() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(losing_, false);
  }

  [[nodiscard]] bool wait_for_calls(int calls) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return calls_ >= calls; });
  }
  // Until it was told at least this, in this order.
  [[nodiscard]] bool wait_for(std::vector<double> history) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] {
      return history_.size() >= history.size() && std::equal(history.begin(), history.end(), history_.begin());
    });
  }
  [[nodiscard]] std::vector<double> history() {
    const std::scoped_lock lock(mutex_);
    return history_;
  }

 private:
  void set(bool& flag, bool value) {
    const std::scoped_lock lock(mutex_);
    flag = value;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  bool refusing_ = false;
  bool losing_ = false;
  int calls_ = 0;
  std::vector<double> history_;
};

class DeviceSink : public ClockSink {
 public:
  explicit DeviceSink(Device& device) : device_(device) {}
  void hold(Megahertz clock) override {
    device_.told(clock.value());
    lost_ = {};
  }
  void release() override { device_.told(0); }
  void hold_limit(Watts limit) override { device_.told(kLimits + limit.value()); }
  void release_limit() override { device_.told(kLimits); }
  [[nodiscard]] std::string lost() const override {
    if (device_.take_loss()) lost_ = "the lease has ended";
    return lost_;
  }

 private:
  Device& device_;
  mutable std::string lost_;
};

TEST(ClockController, BringsASettingToTheDeviceAndReleasesItAtTheEnd) {
  Device device;
  {
    ClockController controller(std::make_unique<DeviceSink>(device));
    const Nanoseconds before = monotonic_now();
    controller.set(Megahertz(1200));
    ASSERT_TRUE(comes_to_apply(controller, 1));
    EXPECT_THAT(device.history(), ElementsAre(1200));
    EXPECT_GE(controller.held_since(Megahertz(1200)), before);
    EXPECT_EQ(controller.held_since(Megahertz(1100)), 0);
    EXPECT_EQ(controller.state().ages.count(), 1u);
  }
  EXPECT_THAT(device.history(), ElementsAre(1200, 0));
}

TEST(ClockController, DropsRepeatedSettings) {
  Device device;
  ClockController controller(std::make_unique<DeviceSink>(device));
  for (int i = 0; i < 1000; ++i) controller.set(Megahertz(900));
  ASSERT_TRUE(comes_to_apply(controller, 1));
  EXPECT_THAT(device.history(), ElementsAre(900));
  EXPECT_EQ(controller.state().calls, 1000u);
  EXPECT_EQ(controller.state().repeated, 999u);
}

// While the device is busy with the first setting, only the newest of the later ones is kept.
TEST(ClockController, NewestWins) {
  Device device;
  device.close();
  ClockController controller(std::make_unique<DeviceSink>(device));
  controller.set(Megahertz(1000));
  ASSERT_TRUE(device.wait_for_calls(1));
  for (int mhz = 1001; mhz <= 1100; ++mhz) controller.set(Megahertz(mhz));
  device.open();
  ASSERT_TRUE(device.wait_for({1000, 1100}));
  ASSERT_TRUE(comes_to_apply(controller, 2));
  EXPECT_EQ(controller.state().overtaken, 99u);
  EXPECT_EQ(controller.state().applied, 2u);
}

// A device that does not answer holds up the control thread, not the caller: a million calls return meanwhile.
TEST(ClockController, NeverWaitsForTheDevice) {
  Device device;
  device.close();
  ClockController controller(std::make_unique<DeviceSink>(device));
  controller.set(Megahertz(1));
  ASSERT_TRUE(device.wait_for_calls(1));
  for (int i = 0; i < 1'000'000; ++i) controller.set(Megahertz(500 + i % 2));
  EXPECT_THAT(device.history(), ElementsAre());
  EXPECT_EQ(controller.held_since(Megahertz(1)), 0);
  device.open();
  ASSERT_TRUE(comes_to_apply(controller, 2));
  EXPECT_THAT(device.history(), ElementsAre(1, 501));
}

// The training's thread and the driver's: what the device holds in the end is what was asked for last.
TEST(ClockController, TwoThreadsMayAsk) {
  Device device;
  ClockController controller(std::make_unique<DeviceSink>(device));
  const auto ask = [&](int first) {
    for (int i = 0; i < 20'000; ++i) controller.set(Megahertz(first + i % 7));
  };
  std::thread other([&] { ask(1000); });
  ask(500);
  other.join();
  controller.set(Megahertz(1200));
  EXPECT_TRUE(comes_true([&] { return controller.held_since(Megahertz(1200)) > 0; }));
  EXPECT_EQ(device.history().back(), 1200);
}

TEST(ClockController, WakesAfterResting) {
  Device device;
  ClockController::Options options;
  options.rest_after = Seconds(0);
  ClockController controller(std::make_unique<DeviceSink>(device), options);
  std::vector<double> expected;
  for (int i = 1; i <= 200; ++i) {
    controller.set(Megahertz(i));
    ASSERT_TRUE(comes_to_apply(controller, static_cast<std::uint64_t>(i))) << i;
    expected.push_back(i);
  }
  EXPECT_EQ(device.history(), expected);
}

// The second clock is to come in 20 ms, and comes no sooner.
TEST(ClockController, AsksForAClockThatIsToComeWhenItsMomentHasCome) {
  Device device;
  ClockController controller(std::make_unique<DeviceSink>(device));
  controller.set(Megahertz(900));
  ASSERT_TRUE(comes_to_apply(controller, 1));
  const Nanoseconds moment = monotonic_now() + 20'000'000;
  controller.set_at(Megahertz(700), moment);
  ASSERT_TRUE(comes_to_apply(controller, 2));
  EXPECT_GE(controller.held_since(Megahertz(700)), moment);
  controller.set(Megahertz(700));  // which holds already
  EXPECT_EQ(controller.state().repeated, 1u);
  EXPECT_EQ(controller.state().overtaken, 0u);
  EXPECT_THAT(device.history(), ElementsAre(900, 700));
}

// Whether its moment is over or to come.
TEST(ClockController, AClockThatIsToComeEndsARest) {
  Device device;
  ClockController::Options options;
  options.rest_after = Seconds(0);
  ClockController controller(std::make_unique<DeviceSink>(device), options);
  for (int i = 1; i <= 20; ++i) {
    controller.set_at(Megahertz(i), monotonic_now() + Nanoseconds{5'000'000} * (i % 2));
    ASSERT_TRUE(comes_to_apply(controller, static_cast<std::uint64_t>(i))) << i;
  }
}

// Whoever asks for a clock, be it the present one, forgets the one that is to come; of two that are to come the newer
// one replaces the other.
TEST(ClockController, AClockThatIsToComeGivesWayToWhatIsAskedForMeanwhile) {
  Device device;
  ClockController controller(std::make_unique<DeviceSink>(device));
  controller.set(Megahertz(900));
  ASSERT_TRUE(comes_to_apply(controller, 1));
  const Nanoseconds far = monotonic_now() + 3600 * kSecond;
  controller.set_at(Megahertz(700), far);
  controller.set(Megahertz(900));
  controller.set_at(Megahertz(600), far);
  controller.set_at(Megahertz(800), monotonic_now() + 5'000'000);
  EXPECT_TRUE(comes_true([&] { return controller.held_since(Megahertz(800)) > 0; }));
  std::vector<double> history = device.history();
  history.erase(std::unique(history.begin(), history.end()), history.end());
  EXPECT_THAT(history, ElementsAre(900, 800));
}

// Refused half-way: the clock goes to the default, is told of once, and the newest setting is tried until it holds.
TEST(ClockController, ReleasesWhenRefusedAndRecovers) {
  Device device;
  std::mutex mutex;
  std::vector<std::string> told;
  ClockController::Options options;
  options.first_retry = Seconds(0.001);
  options.longest_retry = Seconds(0.002);
  options.on_change = [&](const std::string& failure) {
    const std::scoped_lock lock(mutex);
    told.push_back(failure);
  };
  ClockController controller(std::make_unique<DeviceSink>(device), options);
  controller.set(Megahertz(1200));
  ASSERT_TRUE(comes_to_apply(controller, 1));
  device.refuse(true);
  controller.set(Megahertz(1100));
  ASSERT_TRUE(device.wait_for({1200, 0, 0, 0}));  // three refusals, each followed by a release
  EXPECT_FALSE(controller.state().working);
  EXPECT_THAT(controller.state().failure, HasSubstr("the driver refused"));
  EXPECT_EQ(controller.held_since(Megahertz(1200)), 0);
  EXPECT_EQ(controller.held_since(Megahertz(1100)), 0);
  controller.set(Megahertz(1050));
  device.refuse(false);
  ASSERT_TRUE(comes_true([&] { return controller.held_since(Megahertz(1050)) > 0; }));
  EXPECT_EQ(device.history().back(), 1050);
  EXPECT_TRUE(comes_true([&] { return controller.state().working; }));
  const std::scoped_lock lock(mutex);
  EXPECT_EQ(told.front(), "the driver refused");
}

// Even while it rests: what was held is brought again, although nobody asks for anything.
TEST(ClockController, BringsALostClockBack) {
  Device device;
  ClockController::Options options;
  options.rest_after = Seconds(0);
  options.check_period = Seconds(0.01);
  options.first_retry = Seconds(0.001);
  ClockController controller(std::make_unique<DeviceSink>(device), options);
  controller.set(Megahertz(1200));
  ASSERT_TRUE(device.wait_for({1200}));
  device.lose();
  ASSERT_TRUE(device.wait_for({1200, 0, 1200}));
  EXPECT_EQ(controller.state().failed, 1u);
  EXPECT_THAT(controller.state().failure, HasSubstr("the lease has ended"));
}

TEST(AgeHistogram, PercentilesBoundTheTrueOnesByNinePercent) {
  AgeHistogram ages;
  EXPECT_EQ(ages.percentile(0.5), 0);
  for (int i = 1; i <= 1000; ++i) ages.record(Nanoseconds{10'000} * i);  // 10 us to 10 ms
  EXPECT_EQ(ages.count(), 1000u);
  for (const double share : {0.01, 0.5, 0.9, 0.99}) {
    const double exact = share * 1000 * 10'000;
    EXPECT_GE(static_cast<double>(ages.percentile(share)), exact * 0.999);
    EXPECT_LE(static_cast<double>(ages.percentile(share)), exact * 1.095);
  }
  EXPECT_EQ(ages.percentile(1.0), 10'000'000);
  EXPECT_EQ(ages.largest(), 10'000'000);
}

TEST(AgeHistogram, TakesWhatIsOutsideItsRange) {
  AgeHistogram ages;
  ages.record(-5);
  ages.record(0);
  EXPECT_EQ(ages.percentile(1.0), 0);
  ages.record(Nanoseconds{1} << 60);
  EXPECT_EQ(ages.largest(), Nanoseconds{1} << 60);
  EXPECT_GT(ages.percentile(1.0), 200'000'000'000);
}

// A limit goes to the device beside clocks, and what held before is back at the end.
TEST(ClockController, BringsALimitOfPowerAndGivesItBack) {
  Device device;
  {
    ClockController controller(std::make_unique<DeviceSink>(device));
    controller.set_limit(Watts(250));
    ASSERT_TRUE(device.wait_for({kLimits + 250}));
    controller.set(Megahertz(900));
    ASSERT_TRUE(device.wait_for({kLimits + 250, 900}));
    ASSERT_TRUE(comes_to_apply(controller, 1));  // clocks alone
    EXPECT_EQ(controller.state().limit, Watts(250));
    controller.set_limit(Watts(0));
    ASSERT_TRUE(device.wait_for({kLimits + 250, 900, kLimits}));
    controller.set_limit(Watts(200));
    ASSERT_TRUE(device.wait_for({kLimits + 250, 900, kLimits, kLimits + 200}));
  }
  EXPECT_THAT(device.history(), ElementsAre(kLimits + 250, 900, kLimits, kLimits + 200, 0, kLimits));
}

// Where the device refuses one of them, both go back and are tried again.
TEST(ClockController, ClocksAndLimitHoldTogetherOrNotAtAll) {
  Device device;
  ClockController::Options options;
  options.first_retry = Seconds(0.005);
  options.longest_retry = Seconds(0.01);
  ClockController controller(std::make_unique<DeviceSink>(device), options);
  controller.set(Megahertz(900));
  ASSERT_TRUE(device.wait_for({900}));
  device.refuse(true);
  controller.set_limit(Watts(250));
  ASSERT_TRUE(comes_true([&] { return !controller.state().working; }));
  EXPECT_EQ(controller.state().limit, Watts(0));
  EXPECT_EQ(controller.held_since(Megahertz(900)), 0);
  device.refuse(false);
  ASSERT_TRUE(
      comes_true([&] { return controller.state().limit == Watts(250) && controller.state().held > Megahertz(0); }));
  const std::vector<double> history = device.history();
  EXPECT_EQ(history[1], 0);
  EXPECT_EQ(history[2], kLimits);
  EXPECT_EQ(history[history.size() - 2], kLimits + 250);
  EXPECT_EQ(history.back(), 900);
}

// A lease that is lost takes both back, also where only a limit holds.
TEST(ClockController, ALimitIsBroughtAgainAfterALostLease) {
  Device device;
  ClockController::Options options;
  options.first_retry = Seconds(0.005);
  options.check_period = Seconds(0.001);
  ClockController controller(std::make_unique<DeviceSink>(device), options);
  controller.set_limit(Watts(250));
  ASSERT_TRUE(device.wait_for({kLimits + 250}));
  device.lose();
  ASSERT_TRUE(comes_true([&] { return device.history().back() == kLimits + 250 && device.history().size() > 2; }));
}

}  // namespace
}  // namespace flyball
