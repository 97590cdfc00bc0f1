// What is left of a cap by changes that fail, and by ends that come while others are undone. A GPU in memory.
#include "agent/gpu_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "agent/change_settings.h"
#include "agent/journal.h"
#include "sim/simulated.h"
#include "support/memory_gpu.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using testing::MemoryGpu;
using testing::TempFolder;
using testing::wait_until;

// The control of a board at 400 W, its loop in a thread.
class GpuControlTest : public ::testing::Test {
 protected:
  GpuControlTest() : loop_thread_([this] { loop_.run(); }) { start(); }
  ~GpuControlTest() override {
    gpu_->hang(false);
    in_loop([this] { control_.reset(); });
    loop_.stop();
    loop_thread_.join();
  }

  void start(const GpuSettings& outside = {}) {
    in_loop([&] {
      control_.reset();
      control_ = std::make_unique<GpuControl>(
          gpu_, journal_, loop_, ControlOptions{.call_timeout = Seconds(30)},
          ControlEvents{[] {}, [](const std::string&) {}, [](const DeviceError&) {}, [](Watts) {}}, outside);
    });
  }
  void in_loop(const std::function<void()>& action) {
    std::promise<void> done;
    loop_.post([&] {
      action();
      done.set_value();
    });
    done.get_future().wait();
  }
  // Throws what the call is answered with.
  void change(const SettingsChange& change) {
    std::promise<void> done;
    const auto write = [change](GpuDevice& device, const GpuSettings& before) {
      SettingsChange applied;
      change_settings(device, change, before, applied);
    };
    in_loop([&] {
      control_->write(change, {"ann", true}, {}, write, [&done](const std::exception_ptr& error) {
        error ? done.set_exception(error) : done.set_value();
      });
    });
    done.get_future().get();
  }
  void set_limit(Watts limit) {
    SettingsChange made;
    made.power_limit = limit;
    change(made);
  }
  void state_lost_limit(Watts limit) {
    SettingsChange stated;
    stated.lost_power_limit = limit;
    change(stated);
  }
  void restore(Ending how) {
    in_loop([&] { control_->restore(how); });
  }
  [[nodiscard]] bool becomes_restored() const {
    return wait_until([&] { return !control_->restoring(); });
  }
  void leave_cap(Watts limit) {
    state_lost_limit(limit);
    restore(Ending::kLost);
    ASSERT_TRUE(becomes_restored());
    ASSERT_EQ(cap(), limit);
    ASSERT_EQ(power(), limit);
  }
  [[nodiscard]] Watts power() const { return Watts(gpu_->knobs().power_limit); }
  [[nodiscard]] std::optional<Watts> cap() const {
    const std::optional<Cap> now = control_->cap();
    return now ? std::optional(now->power_limit) : std::nullopt;
  }
  [[nodiscard]] JournalEntry entry() const { return journal_->read().entries.at(0); }

  TempFolder folder_;
  std::shared_ptr<MemoryGpu> gpu_ = std::make_shared<MemoryGpu>(0);
  std::shared_ptr<const Journal> journal_ = std::make_shared<Journal>(folder_ / "state");
  EventLoop loop_;
  std::thread loop_thread_;
  std::unique_ptr<GpuControl> control_;
};

TEST_F(GpuControlTest, AnEndWhileAnotherIsFollowedDoesNotStandForTheNext) {
  leave_cap(Watts(180));
  gpu_->hang(true);
  restore(Ending::kLifted);
  ASSERT_TRUE(gpu_->wait_hanging());
  restore(Ending::kLifted);  // the cap is still shown
  gpu_->hang(false);
  ASSERT_TRUE(becomes_restored());
  EXPECT_EQ(power(), Watts(400));
  leave_cap(Watts(160));
}

TEST_F(GpuControlTest, ALimitThatTheDriverRefusesEndsNoCap) {
  leave_cap(Watts(180));
  gpu_->fail_writes(1);
  EXPECT_THROW(set_limit(Watts(200)), DeviceError);
  EXPECT_EQ(cap(), Watts(180));
  EXPECT_TRUE(entry().cap.has_value());
  restore(Ending::kReleased);
  ASSERT_TRUE(becomes_restored());
  EXPECT_EQ(cap(), Watts(180));
  EXPECT_EQ(power(), Watts(180));
  set_limit(Watts(200));
  EXPECT_EQ(cap(), std::nullopt);
}

// Somebody sets 300 W under the lease, which is above what the configuration says holds without one.
TEST_F(GpuControlTest, ACapThatTheConfigurationMakesNeedlessLeavesTheBoardAtTheConfigurationsLimit) {
  GpuSettings outside;
  outside.power_limit = Watts(160);
  start(outside);
  state_lost_limit(Watts(180));
  set_limit(Watts(150));
  gpu_->come_back_with(Watts(300));
  restore(Ending::kLost);
  ASSERT_TRUE(becomes_restored());
  EXPECT_EQ(power(), Watts(160));
  EXPECT_EQ(cap(), std::nullopt);
}

// Its agent may be killed at that moment, and the next one takes a lease in the journal for one whose holder was lost.
TEST_F(GpuControlTest, TheJournalNamesNoCapWhileAReleaseIsUndone) {
  state_lost_limit(Watts(180));
  set_limit(Watts(200));
  EXPECT_EQ(entry().lost_limit, Watts(180));
  gpu_->hang(true);
  restore(Ending::kReleased);
  ASSERT_TRUE(gpu_->wait_hanging());
  EXPECT_EQ(entry().lost_limit, std::nullopt);
  EXPECT_EQ(entry().before->power_limit, Watts(400));
}

}  // namespace
}  // namespace flyball
