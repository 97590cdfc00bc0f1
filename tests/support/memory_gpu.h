// A GPU in memory, with faults on demand: what the agent's tests set, lose, block and look at.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "driver/gpu.h"

namespace flyball::testing {

class MemoryGpu : public GpuDevice {
 public:
  static constexpr double kStandardLimit = 400.0;

  explicit MemoryGpu(std::size_t index) {
    identity_ = {index, fmt::format("GPU-memory-{}", index), "Memory GPU", fmt::format("00000000:{:02X}:00.0", index)};
  }

  // What a test sees and does. Any thread.
  struct Knobs {
    std::optional<ClockRange> sm;
    std::optional<ClockRange> memory;
    double power_limit = kStandardLimit;
    int writes = 0;
  };
  [[nodiscard]] Knobs knobs() const {
    const std::lock_guard lock(mutex_);
    return knobs_;
  }
  [[nodiscard]] bool at_default() const {
    const Knobs now = knobs();
    return !now.sm && !now.memory && now.power_limit == kStandardLimit;
  }
  // Waits for the state, at most ten seconds.
  [[nodiscard]] bool wait_until(const std::function<bool(const Knobs&)>& state) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return state(knobs_); });
  }
  [[nodiscard]] bool wait_default() const {
    return wait_until([](const Knobs& now) { return !now.sm && !now.memory && now.power_limit == kStandardLimit; });
  }

  void lose(bool lost = true) {
    const std::lock_guard lock(mutex_);
    lost_ = lost;
  }
  // As after a reset of the board.
  void come_back_with(Watts limit) {
    const std::lock_guard lock(mutex_);
    knobs_.power_limit = limit.value();
    lost_ = false;
  }
  // The next writes throw.
  void fail_writes(int count, DeviceFault fault = DeviceFault::kDriver) {
    const std::lock_guard lock(mutex_);
    failures_ = count;
    fault_ = fault;
  }
  // Writes block from now on, until set false.
  void hang(bool hanging) {
    const std::lock_guard lock(mutex_);
    hanging_ = hanging;
    changed_.notify_all();
  }
  void run_processes(std::vector<pid_t> processes) {
    const std::lock_guard lock(mutex_);
    processes_ = std::move(processes);
  }
  // As by MIG.
  void divide() { divided_ = true; }
  [[nodiscard]] bool divided() const override { return divided_; }
  // Reads block, too.
  void hang_reads(bool hanging) {
    const std::lock_guard lock(mutex_);
    hanging_reads_ = hanging;
    changed_.notify_all();
  }
  // Waits until a read is blocked.
  [[nodiscard]] bool wait_read_hanging() const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return blocked_reads_ > 0; });
  }
  // Waits until a write is blocked.
  [[nodiscard]] bool wait_hanging() const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return blocked_ > 0; });
  }

  [[nodiscard]] const GpuIdentity& identity() const override { return identity_; }
  [[nodiscard]] Watts power() const override { return checked(), Watts(100.0 + static_cast<double>(identity_.index)); }
  [[nodiscard]] std::optional<Joules> total_energy() const override { return checked(), Joules(1234.5); }
  [[nodiscard]] Megahertz sm_clock() const override {
    checked();
    const Knobs now = knobs();
    return now.sm ? now.sm->maximum : Megahertz(1410);
  }
  [[nodiscard]] Megahertz memory_clock() const override { return checked(), Megahertz(1593); }
  [[nodiscard]] double temperature_celsius() const override { return checked(), 45.0; }
  [[nodiscard]] ThrottleReason throttle_reasons() const override { return checked(), ThrottleReason::kPowerLimit; }
  [[nodiscard]] double utilisation() const override { return checked(), 0.5; }
  [[nodiscard]] std::vector<Megahertz> memory_clocks() const override {
    return checked(), std::vector{Megahertz(1593)};
  }
  [[nodiscard]] std::vector<Megahertz> sm_clocks() const override {
    return checked(), std::vector{Megahertz(1410), Megahertz(1005), Megahertz(210)};
  }
  [[nodiscard]] Watts power_limit() const override { return checked(), Watts(knobs().power_limit); }
  [[nodiscard]] PowerLimitRange power_limits() const override {
    return checked(), PowerLimitRange{Watts(100), Watts(400), Watts(kStandardLimit)};
  }
  [[nodiscard]] bool persistence() const override { return persistence_; }

  void lock_sm_clocks(ClockRange range) override {
    if (range.maximum > Megahertz(1410)) {
      throw DeviceError(DeviceFault::kInvalid, label(), "no such clock", "take one of the list");
    }
    write([&] { knobs_.sm = range; });
  }
  void reset_sm_clocks() override {
    write([&] { knobs_.sm.reset(); });
  }
  void lock_memory_clocks(ClockRange range) override {
    write([&] { knobs_.memory = range; });
  }
  void reset_memory_clocks() override {
    write([&] { knobs_.memory.reset(); });
  }
  void set_power_limit(Watts limit) override {
    write([&] { knobs_.power_limit = limit.value(); });
  }
  void set_persistence(bool enabled) override { persistence_ = enabled; }
  [[nodiscard]] std::vector<pid_t> compute_processes() const override {
    checked();
    const std::lock_guard lock(mutex_);
    return processes_;
  }

 private:
  void checked() const {
    std::unique_lock lock(mutex_);
    ++blocked_reads_;
    if (hanging_reads_) changed_.notify_all();
    changed_.wait(lock, [this] { return !hanging_reads_; });
    --blocked_reads_;
    if (lost_) throw DeviceError(DeviceFault::kLost, label(), "the GPU is lost");
  }

  template <class Change>
  void write(Change change) {
    std::unique_lock lock(mutex_);
    ++blocked_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !hanging_; });
    --blocked_;
    if (lost_) throw DeviceError(DeviceFault::kLost, label(), "the GPU is lost");
    if (failures_ > 0) {
      --failures_;
      throw DeviceError(fault_, label(), "the driver says no");
    }
    change();
    ++knobs_.writes;
    changed_.notify_all();
  }

  GpuIdentity identity_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Knobs knobs_;
  bool lost_ = false;
  bool hanging_ = false;
  bool hanging_reads_ = false;
  mutable int blocked_reads_ = 0;
  int blocked_ = 0;
  std::vector<pid_t> processes_;
  std::atomic<bool> divided_ = false;
  int failures_ = 0;
  DeviceFault fault_ = DeviceFault::kDriver;
  std::atomic<bool> persistence_{true};
};

}  // namespace flyball::testing
