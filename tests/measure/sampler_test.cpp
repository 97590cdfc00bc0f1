// The thread: other meters go on when one throws or hangs, windows outlive the ring, destruction ends.
#include "measure/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "driver/device_error.h"
#include "support/expect_error.h"

namespace flyball::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// 100 W since the machine began, renewed at every reading.
MeterReading hundred_watts() { return {std::nullopt, Watts(100) * to_seconds(Sampler::now())}; }
Meter steady(const char* label = "GPU:0") { return {label, hundred_watts}; }

// Until it is true; false after a minute.
bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 12'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

bool has_samples(const Sampler& sampler, std::size_t meter, std::size_t count, Nanoseconds after = 0) {
  return comes_true([&] { return sampler.samples_since(meter, after).size() >= count; });
}

// A driver whose call does not return until it is told to.
class HangingDriver {
 public:
  [[nodiscard]] Meter meter() const {
    return {"GPU:9", [state = state_] {
              std::unique_lock lock(state->mutex);
              ++state->calls;
              state->changed.wait(lock, [&] { return !state->hangs; });
              return hundred_watts();
            }};
  }
  void hang(bool hangs) const {
    const std::lock_guard lock(state_->mutex);
    state_->hangs = hangs;
    state_->changed.notify_all();
  }
  [[nodiscard]] int calls() const {
    const std::lock_guard lock(state_->mutex);
    return state_->calls;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool hangs = false;
    int calls = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

TEST(Sampler, MeasuresAWindowOfASteadyLoad) {
  Sampler sampler({steady(), steady("CPU:0")});
  ASSERT_TRUE(has_samples(sampler, 1, 20));
  const Nanoseconds begin = sampler.sample_now();
  ASSERT_TRUE(has_samples(sampler, 1, 50, begin));
  const Nanoseconds end = sampler.sample_now();
  EXPECT_TRUE(sampler.settle(end, Seconds(60)));
  for (std::size_t meter = 0; meter < sampler.meter_count(); ++meter) {
    const IntervalEnergy window = sampler.energy_between(meter, begin, end);
    EXPECT_NEAR(window.mean.value(), 100.0, 1.0);
    EXPECT_NEAR(window.energy.value(), 100.0 * to_seconds(end - begin).value(), to_seconds(end - begin).value());
    EXPECT_TRUE(window.complete);
    EXPECT_GE(window.samples, 50u);
  }
  EXPECT_EQ(sampler.state(1).label, "CPU:0");
}

TEST(Sampler, ReadsAtOnceWhenAsked) {
  Sampler sampler({steady()}, {Seconds(30.0), Seconds(60.0)});
  ASSERT_TRUE(has_samples(sampler, 0, 1));
  const Nanoseconds before = Sampler::now();
  const Nanoseconds done = sampler.sample_now();
  EXPECT_GE(done, before);
  EXPECT_LT(to_seconds(done - before), Seconds(25));  // not the next regular reading
  EXPECT_THAT(sampler.samples_since(0, before), SizeIs(1));
}

TEST(Sampler, KeepsItsPeriodWithoutDrift) {
  Sampler sampler({steady()});
  ASSERT_TRUE(has_samples(sampler, 0, 200));
  const std::vector<PowerSample> samples = sampler.samples_since(0, 0);
  // However late single readings are on a busy machine, the regular ones lie behind multiples of 4 ms.
  const Nanoseconds length = samples.back().time - samples.front().time;
  EXPECT_LE(static_cast<double>(samples.size() - 1), to_seconds(length).value() / 0.004 + 1.0);
  for (std::size_t i = 1; i < samples.size(); ++i) ASSERT_GT(samples[i].time, samples[i - 1].time);
}

// A counter that is renewed every 100 ms, beside one that is not: the first is read a few times per change, the second
// every 4 ms.
TEST(Sampler, ReadsASlowSensorWhenItsNextChangeIsDue) {
  const auto readings = std::make_shared<std::atomic<int>>(0);
  const Meter slow{"GPU:0", [readings] {
                     ++*readings;
                     const Nanoseconds renewed = Sampler::now() / 100'000'000 * 100'000'000;
                     return MeterReading{std::nullopt, Watts(100) * to_seconds(renewed)};
                   }};
  for (const bool alone : {true, false}) {
    Sampler sampler(alone ? std::vector<Meter>{slow} : std::vector<Meter>{slow, steady("CPU:0")});
    ASSERT_TRUE(comes_true([&] { return sampler.changes_since(0, 0).size() >= 20; }));
    const int before = *readings;
    const Nanoseconds begin = Sampler::now();
    ASSERT_TRUE(comes_true([&] { return sampler.changes_since(0, begin).size() >= 20; }));
    const double changes = to_seconds(Sampler::now() - begin).value() / 0.1;
    EXPECT_LE(*readings - before, 0.7 * 25.0 * changes);  // on a quiet machine 2 of 25
    if (!alone) EXPECT_GT(sampler.samples_since(1, begin).size(), static_cast<std::size_t>(*readings - before));
    const Nanoseconds asked = sampler.sample_now();
    EXPECT_EQ(sampler.state(0).failed, 0u);
    EXPECT_LE(asked - sampler.samples_since(0, 0).back().time, 50'000'000) << "and whenever somebody asks";
  }
}

TEST(Sampler, CountsAMeterThatThrowsAndGoesOnWithTheOthers) {
  auto fails = std::make_shared<std::atomic<bool>>(true);
  Sampler sampler({{"GPU:0",
                    [fails] {
                      if (*fails) throw DeviceError(DeviceFault::kLost, "GPU:0", "fell off the bus");
                      return hundred_watts();
                    }},
                   steady("GPU:1")});
  ASSERT_TRUE(has_samples(sampler, 1, 100));
  const MeterState broken = sampler.state(0);
  EXPECT_GE(broken.failed, 1u);
  EXPECT_LE(broken.failed, 50u);  // asked less and less often
  EXPECT_THAT(broken.failure, HasSubstr("device lost: fell off the bus"));
  EXPECT_FALSE(broken.latest.has_value());
  EXPECT_EQ(sampler.state(1).failed, 0u);
  *fails = false;
  EXPECT_TRUE(has_samples(sampler, 0, 3)) << "a device that came back is read again";
}

TEST(Sampler, GoesOnWithTheOthersWhenAMeterHangs) {
  const HangingDriver driver;
  Sampler sampler({steady("GPU:0"), driver.meter(), steady("GPU:2")});
  ASSERT_TRUE(has_samples(sampler, 1, 5));
  driver.hang(true);
  ASSERT_TRUE(comes_true([&] { return !sampler.state(1).answering; }));
  EXPECT_THAT(sampler.state(1).failure, HasSubstr("has not returned"));
  const int calls = driver.calls();
  const Nanoseconds since = Sampler::now();
  EXPECT_TRUE(has_samples(sampler, 0, 50, since));
  EXPECT_TRUE(has_samples(sampler, 2, 50, since));
  EXPECT_GE(sampler.sample_now(), since);
  EXPECT_EQ(driver.calls(), calls) << "a driver that hangs is not asked again";
  driver.hang(false);
  EXPECT_TRUE(has_samples(sampler, 1, 5, since));
  EXPECT_TRUE(sampler.state(1).answering);
}

TEST(Sampler, EndsWhileAMeterHangs) {
  const HangingDriver driver;
  driver.hang(true);
  {
    Sampler sampler({driver.meter()});
    ASSERT_TRUE(comes_true([&] { return driver.calls() == 1; }));
  }
  {
    Sampler sampler({driver.meter()});
    ASSERT_TRUE(comes_true([&] { return !sampler.state(0).answering; }));
  }
  driver.hang(false);  // lets the two threads go
}

TEST(Sampler, AddsUpAWindowThatIsLongerThanItsHistory) {
  Sampler sampler({steady()}, {Seconds(0.002), Seconds(1.0)});
  ASSERT_TRUE(has_samples(sampler, 0, 20));
  const Nanoseconds begin = sampler.sample_now();
  const std::uint64_t window = sampler.open_window(begin);
  ASSERT_TRUE(comes_true([&] { return Sampler::now() - begin > 2'500'000'000; }));
  const Nanoseconds end = sampler.sample_now();
  EXPECT_FALSE(sampler.energy_between(0, begin, end).complete) << "the ring has lost the beginning";
  ASSERT_TRUE(sampler.settle(end, Seconds(60)));
  expect_usage_error([&] { return sampler.close_window(window); }, "has not ended");
  sampler.end_window(window, end);
  expect_usage_error([&] { sampler.end_window(window, end); }, "has ended before");
  const std::vector<IntervalEnergy> energy = sampler.close_window(window);
  ASSERT_THAT(energy, SizeIs(1));
  EXPECT_NEAR(energy[0].mean.value(), 100.0, 0.5);
  EXPECT_GE(energy[0].peak, energy[0].mean);
  EXPECT_TRUE(energy[0].complete);
  expect_usage_error([&] { return sampler.close_window(window); }, "was read before");
}

TEST(Sampler, RefusesPeriodsThatAreNone) {
  for (const double period : {0.0, -1.0, 1e-6, 61.0, std::nan("")}) {
    expect_usage_error([&] { Sampler({steady()}, {Seconds(period), Seconds(60)}); }, "a sampling period must be");
  }
}

TEST(Sampler, IsIdleWithoutMeters) {
  Sampler sampler({});
  EXPECT_GT(sampler.sample_now(), 0);
  EXPECT_TRUE(sampler.settle(Sampler::now(), Seconds(1)));
}

}  // namespace
}  // namespace flyball::testing
