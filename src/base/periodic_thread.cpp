// One condition variable for both, waking and the end; what comes during a turn is not missed.
#include "base/periodic_thread.h"

#include <utility>

#include "base/contain.h"
#include "base/monotonic_time.h"

namespace flyball {

PeriodicThread::PeriodicThread(std::string_view where, Seconds period, std::function<Seconds()> turn)
    : where_(where), period_(period), turn_(std::move(turn)), thread_([this] { work(); }) {}

PeriodicThread::~PeriodicThread() {
  stop();
  thread_.join();
}

void PeriodicThread::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void PeriodicThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

void PeriodicThread::work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    woken_ = false;
    lock.unlock();
    Seconds pause = period_;
    (void)contained(where_, [&] { pause = turn_(); });
    lock.lock();
    changed_.wait_for(lock, duration_of(pause), [this] { return woken_ || stopping_; });
  }
}

}  // namespace flyball
