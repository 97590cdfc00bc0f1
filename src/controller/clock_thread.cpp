// One condition variable for the order and for the end; an order that comes during an adjustment is not missed.
#include "controller/clock_thread.h"

#include <algorithm>

#include "base/contain.h"
#include "base/monotonic_time.h"
#include "base/wall_clock.h"

namespace flyball {
namespace {

constexpr Seconds kWhileSettling{0.05};

}  // namespace

ClockThread::ClockThread(Controller& controller, Seconds period) : controller_(controller), period_(period) {
  controller_.on_order([this] {
    {
      const std::lock_guard lock(mutex_);
      ordered_ = true;
    }
    changed_.notify_all();
  });
  thread_ = std::thread([this] { work(); });
}

ClockThread::~ClockThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ClockThread::work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    ordered_ = false;
    lock.unlock();
    bool is_settling = false;
    (void)contained("the clocks' thread", [&] { is_settling = controller_.adjust(Seconds(now_seconds())); });
    lock.lock();
    const Seconds pause = is_settling ? std::min(kWhileSettling, period_) : period_;
    changed_.wait_for(lock, duration_of(pause), [this] { return ordered_ || stopping_; });
  }
}

}  // namespace flyball
