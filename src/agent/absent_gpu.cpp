// One thread for each refused GPU calls its driver's `open` until it succeeds, with two seconds between a refusal and
// the next question. The device and its thread share their state by a shared_ptr, so that a thread that hangs in the
// driver is detached and outlives the device.
#include "agent/absent_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "driver/patience.h"

namespace flyball {
namespace {

constexpr std::chrono::seconds kAskAgain{2};  // after an answer that was a refusal

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Shared with the thread that asks, which may hang and outlive the device.
struct Opening {
  explicit Opening(const RefusedGpu& gpu) : open(gpu.open), why(first_line(gpu.why.what())) {}

  const std::function<std::shared_ptr<GpuDevice>()> open;

  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::string why;
  std::shared_ptr<GpuDevice> opened;  // once set, never changed
  bool asking = true;                 // the driver has been asked and has not answered
  bool stopping = false;
};

void keep_asking(Opening& opening) {
  std::unique_lock lock(opening.mutex);
  while (!opening.stopping && !opening.opened) {
    opening.asking = true;
    lock.unlock();
    std::shared_ptr<GpuDevice> opened;
    std::string why;
    // A refusal is an answer to keep, not an error.
    try {
      opened = opening.open();
    } catch (const std::exception& error) {
      why = first_line(error.what());
    }
    lock.lock();
    opening.asking = false;
    opening.opened = std::move(opened);
    opening.why = std::move(why);
    if (!opening.opened) opening.changed.wait_for(lock, kAskAgain, [&] { return opening.stopping; });
  }
}

class AbsentGpu final : public GpuDevice {
 public:
  explicit AbsentGpu(const RefusedGpu& gpu) : opening_(std::make_shared<Opening>(gpu)) {
    placeholder_.index = gpu.index;
    placeholder_.name = "not opened";
    thread_ = start_aside(std::packaged_task<void()>([opening = opening_] { keep_asking(*opening); }));
  }
  ~AbsentGpu() override {
    std::unique_lock lock(opening_->mutex);
    opening_->stopping = true;
    opening_->changed.notify_all();
    const bool may_hang = opening_->asking;
    lock.unlock();
    if (may_hang) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }
  AbsentGpu(const AbsentGpu&) = delete;
  AbsentGpu& operator=(const AbsentGpu&) = delete;

  const GpuIdentity& identity() const override {
    const std::lock_guard lock(opening_->mutex);
    return opening_->opened ? opening_->opened->identity() : placeholder_;
  }
  Watts power() const override { return gpu().power(); }
  std::optional<Joules> total_energy() const override { return gpu().total_energy(); }
  std::vector<TimedPower> power_samples(Nanoseconds after) const override { return gpu().power_samples(after); }
  Megahertz sm_clock() const override { return gpu().sm_clock(); }
  Megahertz memory_clock() const override { return gpu().memory_clock(); }
  double temperature_celsius() const override { return gpu().temperature_celsius(); }
  ThrottleReason throttle_reasons() const override { return gpu().throttle_reasons(); }
  double utilisation() const override { return gpu().utilisation(); }
  std::vector<Megahertz> memory_clocks() const override { return gpu().memory_clocks(); }
  std::vector<Megahertz> sm_clocks() const override { return gpu().sm_clocks(); }
  Watts power_limit() const override { return gpu().power_limit(); }
  PowerLimitRange power_limits() const override { return gpu().power_limits(); }
  bool persistence() const override { return gpu().persistence(); }
  bool divided() const override { return gpu().divided(); }
  std::vector<pid_t> compute_processes() const override { return gpu().compute_processes(); }
  void lock_sm_clocks(ClockRange range) override { gpu().lock_sm_clocks(range); }
  void reset_sm_clocks() override { gpu().reset_sm_clocks(); }
  void lock_memory_clocks(ClockRange range) override { gpu().lock_memory_clocks(range); }
  void reset_memory_clocks() override { gpu().reset_memory_clocks(); }
  void set_power_limit(Watts limit) override { gpu().set_power_limit(limit); }
  void set_persistence(bool enabled) override { gpu().set_persistence(enabled); }
  ThrottleAccess throttle_access() const override { return gpu().throttle_access(); }

 private:
  GpuDevice& gpu() const {
    const std::lock_guard lock(opening_->mutex);
    if (opening_->opened) return *opening_->opened;
    throw DeviceError(DeviceFault::kLost, fmt::format("GPU:{}", placeholder_.index),
                      "not opened since the agent started: " + opening_->why, "the agent keeps asking its driver");
  }

  GpuIdentity placeholder_;
  std::shared_ptr<Opening> opening_;
  std::thread thread_;
};

}  // namespace

std::vector<std::shared_ptr<GpuDevice>> with_absent_gpus(std::vector<std::shared_ptr<GpuDevice>> gpus,
                                                         const std::vector<RefusedGpu>& refused) {
  for (const RefusedGpu& gpu : refused) gpus.push_back(std::make_shared<AbsentGpu>(gpu));
  std::sort(gpus.begin(), gpus.end(),
            [](const auto& a, const auto& b) { return a->identity().index < b->identity().index; });
  return gpus;
}

}  // namespace flyball
