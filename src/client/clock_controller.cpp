#include "client/clock_controller.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <exception>

#include "client/monotonic_time.h"

namespace flyball {
namespace {

constexpr unsigned kClockBits = 20;
constexpr std::uint64_t kClockMask = (1u << kClockBits) - 1;
constexpr std::uint64_t kTimeMask = (std::uint64_t{1} << (64 - kClockBits)) - 1;

}  // namespace

std::uint64_t ClockController::pack(Megahertz clock, Nanoseconds time) noexcept {
  const auto mhz = static_cast<std::uint64_t>(clock.value() + 0.5) & kClockMask;
  return mhz | static_cast<std::uint64_t>(time) << kClockBits;
}

Megahertz ClockController::clock_of(std::uint64_t word) noexcept {
  return Megahertz(static_cast<double>(word & kClockMask));
}

Nanoseconds ClockController::age_of(std::uint64_t word, Nanoseconds now) noexcept {
  return static_cast<Nanoseconds>((static_cast<std::uint64_t>(now) - (word >> kClockBits)) & kTimeMask);
}

ClockController::ClockController(std::unique_ptr<ClockSink> sink, Options options)
    : sink_(std::move(sink)), options_(std::move(options)) {
  assert(sink_ && options_.poll_period > Seconds(0));
  thread_ = std::thread([this] { run(); });
}

ClockController::~ClockController() {
  stop_.store(true);
  wakes_.fetch_add(1);
  wakes_.notify_all();
  thread_.join();
}

void ClockController::set(Megahertz clock) noexcept {
  // One thread at a time writes these counters: a load and a store are cheaper than a locked addition.
  calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const std::uint64_t last = request_.load(std::memory_order_relaxed);
  if ((last & kClockMask) == (pack(clock, 0) & kClockMask)) {
    repeated_.store(repeated_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return;
  }
  // Sequentially consistent, like rest(): either the control thread sees the request or this sees that it rests.
  request_.store(pack(clock, monotonic_now()));
  if (resting_.load()) {
    wakes_.fetch_add(1);
    wakes_.notify_one();
  }
}

Nanoseconds ClockController::held_since(Megahertz clock) const noexcept {
  const std::uint64_t held = held_.load(std::memory_order_acquire);
  if (unsettled_.load(std::memory_order_acquire) || (held & kClockMask) != (pack(clock, 0) & kClockMask)) return 0;
  const Nanoseconds now = monotonic_now();
  return std::max<Nanoseconds>(now - age_of(held, now), 1);
}

ClockControllerState ClockController::state() const {
  const std::scoped_lock lock(mutex_);
  ClockControllerState state = state_;
  state.calls = calls_.load();
  state.repeated = repeated_.load();
  const std::uint64_t changes = state.calls - std::min(state.calls, state.repeated);
  state.overtaken = changes - std::min(changes, state.overtaken + state.applied);
  state.requested = clock_of(request_.load());
  state.held = clock_of(held_.load());
  return state;
}

bool ClockController::wait_until_applied(Seconds limit) const {
  const Nanoseconds deadline = monotonic_now() + to_nanoseconds(limit);
  while (brought_.load() != request_.load()) {
    if (monotonic_now() > deadline) return false;
    pause(options_.poll_period);
  }
  return true;
}

void ClockController::pause(Seconds time) const {
  const Nanoseconds length = to_nanoseconds(time);
  const timespec duration{static_cast<time_t>(length / 1'000'000'000), static_cast<long>(length % 1'000'000'000)};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, nullptr);
}

void ClockController::rest() {
  const std::uint32_t wakes = wakes_.load();
  resting_.store(true);
  if (request_.load() == brought_.load() && !stop_.load()) wakes_.wait(wakes);
  resting_.store(false);
}

void ClockController::bring(std::uint64_t word) {
  unsettled_.store(true);
  if (const Megahertz clock = clock_of(word); clock > Megahertz(0)) {
    sink_->hold(clock);
  } else {
    sink_->release();
  }
  const Nanoseconds now = monotonic_now();
  held_.store(pack(clock_of(word), now));
  unsettled_.store(false, std::memory_order_release);
  const std::scoped_lock lock(mutex_);
  ++state_.applied;
  state_.ages.record(age_of(word, now));
}

void ClockController::run() {
  pthread_setname_np(pthread_self(), "flyball-clock");
  prctl(PR_SET_TIMERSLACK, 1UL);  // the standard 50 us would be a good part of the period
  Nanoseconds last_news = monotonic_now();
  Nanoseconds next_try = 0;
  Seconds retry = options_.first_retry;
  bool working = true;
  while (!stop_.load(std::memory_order_relaxed)) {
    const std::uint64_t word = request_.load(std::memory_order_acquire);
    const Nanoseconds now = monotonic_now();
    if (word == brought_.load(std::memory_order_relaxed)) {
      if (now - last_news > to_nanoseconds(options_.rest_after)) {
        rest();
        last_news = monotonic_now();
      } else {
        pause(options_.poll_period);
      }
      continue;
    }
    last_news = now;
    if (now < next_try) {
      // The newest setting stays where it is; stopping must not take as long as the longest retry.
      pause(std::max(options_.poll_period, Seconds(0.002)));
      continue;
    }
    // The thread's body is where its exceptions end: a refusal is told to whoever asked to be told.
    std::string failure;
    try {
      bring(word);
      brought_.store(word);
    } catch (const std::exception& error) {
      failure = *error.what() ? error.what() : "the clock could not be set";
    }
    if (failure.empty()) {
      retry = options_.first_retry;
      if (!working) {
        working = true;
        {
          const std::scoped_lock lock(mutex_);
          state_.working = true;
        }
        if (options_.on_change) options_.on_change({});
      }
      continue;
    }
    try {
      sink_->release();
    } catch (const std::exception&) {
      // What cannot be reached cannot be released from here; the agent ends the lease by itself.
    }
    held_.store(pack(Megahertz(0), monotonic_now()));
    next_try = monotonic_now() + to_nanoseconds(retry);
    retry = std::min(retry * 2.0, options_.longest_retry);
    {
      const std::scoped_lock lock(mutex_);
      ++state_.failed;
      state_.working = false;
      state_.failure = failure;
    }
    if (working && options_.on_change) options_.on_change(failure);
    working = false;
  }
  try {
    sink_->release();
  } catch (const std::exception&) {
    // As above; on a device of our own there is nobody left to tell.
  }
  held_.store(pack(Megahertz(0), monotonic_now()));
}

}  // namespace flyball
