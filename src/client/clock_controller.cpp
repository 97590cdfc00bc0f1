// The caller stores clock and time in one atomic word; the control thread polls it every half millisecond while
// settings come, and otherwise sleeps on a futex. Counters are written by one thread each, or hardly ever by two, so
// that no locked instruction is needed. A refusal by the sink brings the device back to its default and is tried again
// after a wait that doubles.
#include "client/clock_controller.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <exception>

#include "base/contain.h"
#include "base/futex.h"
#include "base/monotonic_time.h"

namespace flyball {
namespace {

constexpr unsigned kClockBits = 20;
constexpr std::uint64_t kClockMask = (1u << kClockBits) - 1;
constexpr std::uint64_t kTimeMask = (std::uint64_t{1} << (64 - kClockBits)) - 1;
// Stands for no request: set() takes no such clock, and set_limit() no such limit.
constexpr std::uint64_t kNothing = ~std::uint64_t{0};

std::uint64_t whole_mhz(Megahertz clock) noexcept { return static_cast<std::uint64_t>(clock.value()) & kClockMask; }

}  // namespace

std::uint64_t ClockController::pack(Megahertz clock, Nanoseconds time) noexcept {
  return whole_mhz(clock) | static_cast<std::uint64_t>(time) << kClockBits;
}

Megahertz ClockController::clock_of(std::uint64_t word) noexcept {
  return Megahertz(static_cast<double>(word & kClockMask));
}

Nanoseconds ClockController::age_of(std::uint64_t word, Nanoseconds now) noexcept {
  return static_cast<Nanoseconds>((static_cast<std::uint64_t>(now) - (word >> kClockBits)) & kTimeMask);
}

Nanoseconds ClockController::until(std::uint64_t word, Nanoseconds now) noexcept {
  const std::uint64_t left = ((word >> kClockBits) - static_cast<std::uint64_t>(now)) & kTimeMask;
  return left > kTimeMask / 2 ? 0 : static_cast<Nanoseconds>(left);
}

ClockController::ClockController(std::unique_ptr<ClockSink> sink, Options options)
    : sink_(std::move(sink)),
      options_(std::move(options)),
      barriers_by_system_(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0) {
  assert(sink_ && options_.poll_period > Seconds(0));
  thread_ = std::thread([this] { run(); });
}

ClockController::~ClockController() {
  stop_.store(true);
  wake();
  thread_.join();
}

void ClockController::set(Megahertz clock) noexcept {
  // Hardly ever do two threads write these counters at once: a load and a store are cheaper than a locked addition.
  calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const std::uint64_t mhz = whole_mhz(clock);
  // A clock that is to come is forgotten before the request is written, and then the request is written anew in any
  // case, so that ask_when_due() finds either no such clock or a request that is not the one before.
  const bool comes = coming_.load(std::memory_order_acquire) != 0;
  if (comes) coming_.store(0);
  // The newest request is looked at itself, so that threads agree on what would be a repetition of it.
  if (!comes && mhz == (request_.load(std::memory_order_relaxed) & kClockMask)) {
    repeated_.store(repeated_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return;
  }
  const std::uint64_t word = pack(clock, monotonic_now());
  if (barriers_by_system_) {
    request_.store(word, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    request_.store(word);
  }
  if (resting_.load()) wake();
}

void ClockController::set_at(Megahertz clock, Nanoseconds moment) noexcept {
  coming_.store(pack(clock, moment));
  if (resting_.load()) wake();
}

// In the control thread, with the request as it was before this call. Returns whether a clock has come due and is asked
// for now.
bool ClockController::ask_when_due(std::uint64_t request, Nanoseconds now) noexcept {
  std::uint64_t coming = coming_.load();
  if (coming == 0 || until(coming, now) > 0) return false;
  const Megahertz clock = clock_of(coming);
  const bool asked = clock != clock_of(request) && request_.compare_exchange_strong(request, pack(clock, now));
  coming_.compare_exchange_strong(coming, 0);
  if (asked) came_due_.store(came_due_.load() + 1);
  return asked;
}

void ClockController::set_limit(Watts limit) noexcept {
  limit_request_.store(static_cast<std::uint64_t>(std::llround(limit.value() * 1e3)));
  if (resting_.load()) wake();
}

// Stands between the control thread's store of "I rest" and its last look at the request, so that either this thread
// sees the request or the caller sees that it rests. The system's barrier makes this thread pay for both, rarely: the
// caller's store need not wait for its cache line. Without it, the accesses of both sides are sequentially consistent.
void ClockController::order() const noexcept {
  if (barriers_by_system_) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

Nanoseconds ClockController::held_since(Megahertz clock) const noexcept {
  const std::uint64_t held = held_.load(std::memory_order_acquire);
  if (unsettled_.load(std::memory_order_acquire) || (held & kClockMask) != whole_mhz(clock)) return 0;
  const Nanoseconds now = monotonic_now();
  return std::max<Nanoseconds>(now - age_of(held, now), 1);
}

ClockControllerState ClockController::state() const {
  const std::scoped_lock lock(mutex_);
  ClockControllerState state = state_;
  state.calls = calls_.load();
  state.repeated = repeated_.load();
  const std::uint64_t changes = state.calls + came_due_.load() - std::min(state.calls, state.repeated);
  state.overtaken = changes - std::min(changes, state.overtaken + state.applied);
  state.requested = clock_of(request_.load());
  state.held = clock_of(held_.load());
  const std::uint64_t limit = limit_brought_.load();
  state.limit = Watts(limit == kNothing ? 0.0 : static_cast<double>(limit) * 1e-3);
  return state;
}

// Until the next look for a request.
void ClockController::pause(Nanoseconds now) const {
  const std::uint64_t coming = coming_.load();
  const Seconds due = to_seconds(std::max<Nanoseconds>(0, coming == 0 ? kSecond : until(coming, now)));
  pause(std::min(options_.poll_period, due));
}

void ClockController::pause(Seconds time) {
  const timespec duration = to_timespec(to_nanoseconds(time));
  clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, nullptr);
}

// Not for ever, because a lost lease is to be noticed even while nothing is asked for.
void ClockController::rest() {
  const std::uint32_t wakes = wakes_.load();
  resting_.store(true);
  order();
  if (is_brought(request_.load(), limit_request_.load()) && !stop_.load()) {
    const std::uint64_t coming = coming_.load();
    const Nanoseconds now = monotonic_now();
    const Nanoseconds due = coming == 0 ? kSecond : until(coming, now);
    futex_wait(wakes_, wakes, now + std::clamp<Nanoseconds>(due, 0, to_nanoseconds(options_.check_period)));
  }
  resting_.store(false);
}

void ClockController::wake() noexcept {
  wakes_.fetch_add(1);
  futex_wake(wakes_, 1);
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

void ClockController::bring_limit(std::uint64_t milliwatts) {
  if (milliwatts > 0) {
    sink_->hold_limit(Watts(static_cast<double>(milliwatts) * 1e-3));
  } else {
    sink_->release_limit();
  }
  limit_brought_.store(milliwatts);
}

bool ClockController::is_brought(std::uint64_t word, std::uint64_t milliwatts) const {
  return word == brought_.load(std::memory_order_relaxed) &&
         milliwatts == limit_brought_.load(std::memory_order_relaxed);
}

// Returns nothing on success, else why it failed. Exceptions end here, in the thread's body; on_change is told of a
// refusal.
std::string ClockController::attempt(std::uint64_t word, std::uint64_t milliwatts) {
  try {
    if (milliwatts != limit_brought_.load()) bring_limit(milliwatts);
    if (word != brought_.load()) {
      bring(word);
      brought_.store(word);
    }
    return {};
  } catch (const std::exception& error) {
    return *error.what() ? error.what() : "the clock could not be set";
  }
}

// What cannot be reached cannot be released from here: the agent ends the lease by itself, and on a device that is set
// directly there is nobody left to tell.
void ClockController::release_all() {
  const auto try_to = [](const auto& release) {
    try {
      release();
    } catch (const std::exception&) {
      // As above.
    }
  };
  try_to([&] { sink_->release(); });
  if (limit_brought_.load() != 0) try_to([&] { sink_->release_limit(); });
  held_.store(pack(Megahertz(0), monotonic_now()));
}

void ClockController::give_up(const std::string& failure) {
  if (limit_request_.load() != 0) limit_brought_.store(kNothing);
  release_all();
  brought_.store(kNothing);
  next_try_ = monotonic_now() + to_nanoseconds(retry_);
  retry_ = std::min(retry_ * 2.0, options_.longest_retry);
  bool tell = false;
  {
    const std::scoped_lock lock(mutex_);
    ++state_.failed;
    tell = state_.working;
    state_.working = false;
    state_.failure = failure;
  }
  if (tell) tell_of(failure);
}

void ClockController::tell_of(const std::string& failure) const {
  if (options_.on_change) (void)contained("a clock's listener", [&] { options_.on_change(failure); });
}

void ClockController::run() {
  pthread_setname_np(pthread_self(), "flyball-clock");
  prctl(PR_SET_TIMERSLACK, 1UL);  // the standard 50 us would be a good part of the period
  retry_ = options_.first_retry;
  Nanoseconds last_news = monotonic_now();
  Nanoseconds last_check = last_news;
  while (!stop_.load(std::memory_order_relaxed)) {
    const std::uint64_t word = request_.load(std::memory_order_acquire);
    const std::uint64_t milliwatts = limit_request_.load(std::memory_order_acquire);
    const Nanoseconds now = monotonic_now();
    if (ask_when_due(word, now)) continue;
    if (is_brought(word, milliwatts)) {
      if (now - last_check > to_nanoseconds(options_.check_period)) {
        last_check = now;
        const bool holds = clock_of(word) > Megahertz(0) || milliwatts > 0;
        if (const std::string lost = sink_->lost(); !lost.empty() && holds) {
          give_up(lost);
          continue;
        }
      }
      if (now - last_news > to_nanoseconds(options_.rest_after)) {
        rest();
      } else {
        pause(now);
      }
      continue;
    }
    last_news = now;
    if (now < next_try_) {
      // The newest setting waits. The pause is short, since stopping must not take as long as the longest retry.
      pause(std::max(options_.poll_period, Seconds(0.002)));
      continue;
    }
    if (const std::string failure = attempt(word, milliwatts); !failure.empty()) {
      give_up(failure);
      continue;
    }
    retry_ = options_.first_retry;
    bool tell = false;
    {
      const std::scoped_lock lock(mutex_);
      tell = !state_.working;
      state_.working = true;
    }
    if (tell) tell_of({});
  }
  release_all();
}

}  // namespace flyball
