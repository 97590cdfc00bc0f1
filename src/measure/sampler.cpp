// Two threads. One reads: it sleeps on a futex until the next moment of a grid of periods at which a meter has
// news to give, or until a call asks for a round, and reads the meters in turn. The other looks each 0.25 s whether a
// reading hangs; then it takes that thread's shift away by a compare-and-swap and starts another. Each meter's ring
// has a mutex of its own; a window that outlasts the rings is added up by the second thread.
#include "measure/sampler.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/contain.h"
#include "base/error.h"
#include "base/futex.h"
#include "driver/patience.h"
#include "measure/cost_budget.h"
#include "measure/energy_track.h"

namespace flyball {
namespace {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC

constexpr Seconds kAfterFailure{0.1};              // of a round itself, not of a meter
constexpr Nanoseconds kLongestRest = 250'000'000;  // between two rounds, however slow the sensors

// How many readings of a dear counter look for its rhythm before that is given up for a while, in which one a second
// comes back: every 4 ms they last for 2.4 s, in which a rhythm of 150 ms is found.
constexpr double kLooks = 600.0;

Clock::time_point time_point(Nanoseconds time) { return Clock::time_point(std::chrono::nanoseconds(time)); }

// Waits until a time or a call. A condition variable would cost one more system call in every period: glibc takes its
// mutex back as one that others wait for, and has to wake them when it lets go.
class Alarm {
 public:
  void call() {
    called_.store(1);
    futex_wake(called_, 1);
  }
  void wait_until(Nanoseconds time) {
    while (called_.exchange(0) == 0 && futex_wait(called_, 0, time)) {
    }
  }

 private:
  std::atomic<std::uint32_t> called_ = 0;
};

// One meter and what it has said.
struct Slot {
  Slot(Meter m, Nanoseconds period, std::size_t capacity) : meter(std::move(m)), track(period, capacity) {}

  Meter meter;
  // Used by the thread that reads:
  Nanoseconds asked_again_at = 0;  // after a failure
  Nanoseconds quiet_until = 0;     // the sensor's next change is not due, or its last too recent for the budget
  Nanoseconds due_at = 0;          // a round is made for it then
  bool fine = false;               // a counter that may be read less often
  Nanoseconds spent = 0;           // processor time of the latest reading; 0 of fine counters, and without a budget
  Nanoseconds cost = 0;            // the same in the mean
  Nanoseconds read_at = 0;
  bool dear = false;
  double looks = kLooks;  // readings of a dear counter that may still look for its rhythm
  bool given_up = false;  // until half of them are there again
  std::atomic<bool> answering = true;

  mutable std::mutex mutex;  // guards all below
  EnergyTrack track;
  unsigned failures_in_row = 0;
  std::int64_t periods = 1;  // between two readings
  Nanoseconds rest = 0;      // the same, of a dear counter
  std::size_t readings = 0;
  std::size_t late = 0;
  std::size_t failed = 0;
  std::string failure;
  Nanoseconds failing_since = 0;
};

// What one reading thread is doing, for the supervisor.
struct Shift {
  enum State { kIdle, kReading, kAbandoned };
  std::atomic<int> state = kIdle;
  std::atomic<Nanoseconds> since = 0;
  std::atomic<std::size_t> meter = 0;
  bool finished = false;  // guarded by Core::mutex
};

struct Window {
  Nanoseconds begin = 0;
  Nanoseconds counted_until = 0;
  std::optional<Nanoseconds> end;
  std::vector<IntervalEnergy> so_far;
};

// Shared by the sampler and its threads, so that a thread that hangs in a driver can outlive the sampler.
struct Core {
  std::vector<std::unique_ptr<Slot>> slots;
  Nanoseconds period = 0;
  Nanoseconds history = 0;
  double most_cost = 0.0;
  Alarm alarm;                             // for the thread that reads
  std::atomic<Nanoseconds> asked_for = 0;  // the latest time for which energy was asked

  std::mutex mutex;  // guards all below
  std::condition_variable round_done;
  bool stopping = false;
  std::uint64_t requested = 0;
  std::uint64_t served = 0;
  Nanoseconds served_at = 0;
  int waiting = 0;
};

// Returns when a dear counter is read again: as its rhythm allows, and as seldom while no rhythm could be found.
Nanoseconds plan_dear(Slot& slot, Nanoseconds read_at, Nanoseconds interval) {
  const Nanoseconds due = slot.track.plan(interval);
  slot.looks = std::min(kLooks, slot.looks + to_seconds(read_at - slot.read_at).value());
  if (!slot.track.sparse()) slot.looks -= 1.0;
  slot.given_up = slot.looks < (slot.given_up ? kLooks / 2.0 : 1.0);
  return slot.track.sparse() || !slot.given_up ? due : read_at + interval;
}

// When a meter is read again that has just been read. A fine counter that the budget puts off is read in others'
// rounds, too, once a quarter of its time is over. Since next_due() waits for such a round for as long, there is no
// round that it would miss every time. Half a period is taken off to meet the grid of periods.
void plan_next(Slot& slot, Nanoseconds read_at, Nanoseconds period, std::int64_t periods, Nanoseconds dear_interval) {
  slot.fine =
      slot.periods > 1 || slot.given_up ? slot.track.changes_at_every_reading() : slot.track.finer_than_period();
  slot.periods = slot.fine ? periods : 1;
  slot.dear = !slot.fine && slot.cost > kDearReading;
  slot.rest = 0;
  if (slot.periods > 1) {
    slot.due_at = read_at + slot.periods * period - period / 2;
    slot.quiet_until = read_at + slot.periods * period / 4 - period / 2;
  } else if (slot.dear) {
    slot.due_at = slot.quiet_until = plan_dear(slot, read_at, dear_interval);
    if (slot.track.sparse() || slot.given_up) slot.rest = slot.due_at - read_at;
  } else {
    slot.due_at = slot.quiet_until = slot.track.plan();
  }
  slot.read_at = read_at;
}

// A dear counter that told nothing yet of the time that somebody asked for is read after its next change.
void plan_for_asked(Slot& slot, Nanoseconds asked_for, Nanoseconds now) {
  const std::lock_guard lock(slot.mutex);
  if (!slot.track.sparse() || slot.track.settled(asked_for)) return;
  slot.due_at = slot.quiet_until = std::min(slot.due_at, slot.track.told_of(asked_for, now));
}

bool passed_over(const Slot& slot, bool regular, Nanoseconds now) {
  return !slot.answering.load(std::memory_order_relaxed) || now < slot.asked_again_at ||
         (regular && now < slot.quiet_until);
}

Nanoseconds cost_of_dear(const Core& core) {
  Nanoseconds cost = 0;
  for (const auto& slot : core.slots) cost += slot->dear ? slot->cost : 0;
  return cost;
}

// `due` is when a regular reading should come, or 0 for one that is asked for. Returns false if this thread was given
// up meanwhile: it must end at once.
bool read_meter(Core& core, std::size_t index, Shift& shift, Nanoseconds due, const CostBudget& budget) {
  Slot& slot = *core.slots[index];
  const bool weighed = budget.limited() && !slot.fine;
  const Nanoseconds spent_before = weighed ? read_clock(CLOCK_THREAD_CPUTIME_ID) : 0;
  const Nanoseconds begin = Sampler::now();
  shift.meter.store(index, std::memory_order_relaxed);
  shift.since.store(begin, std::memory_order_relaxed);
  shift.state.store(Shift::kReading, std::memory_order_release);
  MeterReading reading;
  std::string failure;
  bool failed = false;
  try {
    reading = slot.meter.read();
  } catch (const std::exception& error) {
    failed = true;
    failure = error.what();
  }
  const Nanoseconds end = Sampler::now();
  int reading_state = Shift::kReading;
  if (!shift.state.compare_exchange_strong(reading_state, Shift::kIdle)) {
    const std::lock_guard lock(slot.mutex);
    ++slot.failed;
    if (slot.failures_in_row == 0) slot.failing_since = begin;
    slot.failure = slot.meter.label + ": the driver's call did not return for a while";
    slot.answering.store(true);  // but what it said is of no known time
    return false;
  }
  slot.spent = weighed ? read_clock(CLOCK_THREAD_CPUTIME_ID) - spent_before : 0;
  slot.cost += (std::min(slot.spent, 2 * slot.cost + kDearReading / 4) - slot.cost) / 8;  // one that is held up is none
  const Nanoseconds dear_interval = budget.limited() ? budget.dear_interval(cost_of_dear(core)) : 0;
  const std::lock_guard lock(slot.mutex);
  if (failed) {
    slot.failure = std::move(failure);
    ++slot.failed;
    if (slot.failures_in_row == 0) slot.failing_since = begin;
    slot.asked_again_at = end + std::min(core.period << std::min(slot.failures_in_row, 12u), kSecond);
    ++slot.failures_in_row;
    return true;
  }
  slot.failures_in_row = 0;
  ++slot.readings;
  if (due != 0 && begin > due + core.period && !slot.dear) ++slot.late;  // a dear one's change has long been there
  slot.track.add(begin + (end - begin) / 2, reading, end - begin);
  plan_next(slot, begin, core.period, budget.periods(), dear_interval);
  return true;
}

// The first time of the grid of periods after `now` at which a meter has something to say. A meter that the budget puts
// off waits a quarter of its time longer if others' next round is then.
Nanoseconds next_due(Core& core, Nanoseconds due, Nanoseconds now) {
  Nanoseconds needed = now + kLongestRest;
  Nanoseconds put_off = needed;
  Nanoseconds patience = 0;
  for (const auto& slot : core.slots) {
    if (!slot->answering) continue;
    if (slot->dear) plan_for_asked(*slot, core.asked_for, now);
    const Nanoseconds wanted = std::max(slot->asked_again_at, slot->due_at);
    if (slot->periods == 1) {
      needed = std::min(needed, wanted);
    } else if (wanted < put_off) {
      put_off = wanted;
      patience = slot->periods * core.period / 4;
    }
  }
  const Nanoseconds wanted = needed <= put_off + patience ? needed : put_off;
  const Nanoseconds rounds = (std::max(wanted, now + 1) - due + core.period - 1) / core.period;
  return due + rounds * core.period;
}

void keep_reading(Core& core, Shift& shift) {
  Nanoseconds due = Sampler::now();
  CostBudget budget(core.most_cost, core.period, due);
  while (true) {
    core.alarm.wait_until(due);
    const Nanoseconds woken = Sampler::now();
    const bool regular = woken >= due;
    std::unique_lock lock(core.mutex);
    if (core.stopping) return;
    const std::uint64_t request = core.requested;
    lock.unlock();
    if (!regular && request == core.served) {
      due = next_due(core, due, woken);
      continue;
    }
    bool needed = !regular;
    Nanoseconds dear = 0;
    for (std::size_t i = 0; i < core.slots.size(); ++i) {
      Slot& slot = *core.slots[i];
      if (passed_over(slot, regular, woken)) continue;
      if (!read_meter(core, i, shift, regular ? due : 0, budget)) return;
      needed = needed || !slot.fine;
      if (slot.dear) dear += slot.spent;
    }
    const Nanoseconds now = Sampler::now();
    budget.count_round(needed, regular ? woken - due : 0, dear);
    if (budget.look_is_due(now)) budget.look(now, read_clock(CLOCK_THREAD_CPUTIME_ID));
    if (!regular) core.asked_for = now;
    // Rounds that were missed are not made up for; those to come keep their times.
    due = next_due(core, due, now);
    lock.lock();
    core.served = request;
    core.served_at = now;
    if (core.waiting > 0) core.round_done.notify_all();
  }
}

void add_to(IntervalEnergy& sum, const IntervalEnergy& part) {
  sum.energy += part.energy;
  sum.peak = std::max(sum.peak, part.peak);
  sum.samples += part.samples;
  sum.sensor_period = part.sensor_period;
  if (part.source != EnergySource::kCounter) sum.source = part.source;
  sum.complete = sum.complete && part.complete;
}

}  // namespace

class Sampler::Impl {
 public:
  Impl(std::vector<Meter> meters, const Options& options) : core_(std::make_shared<Core>()) {
    if (!(options.period >= kLeastSamplingPeriod && options.period.value() <= 60.0)) {
      throw UsageError(fmt::format("a sampling period must be from {} ms to 60 s, not {} s",
                                   kLeastSamplingPeriod.value() * 1e3, options.period.value()));
    }
    if (!(options.most_cost >= 0.0)) {
      throw UsageError(fmt::format("sampling may cost a share of a processor, not {}", options.most_cost));
    }
    core_->period = to_nanoseconds(options.period);
    core_->most_cost = options.most_cost;
    core_->history = std::max(to_nanoseconds(options.history), std::max(kSecond, 64 * core_->period));
    const auto capacity = static_cast<std::size_t>(core_->history / core_->period) + 1;
    for (Meter& meter : meters) {
      core_->slots.push_back(std::make_unique<Slot>(std::move(meter), core_->period, capacity));
    }
    const SignalsBlocked blocked;
    start_reading();
    supervisor_ = std::thread([this] { supervise(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(core_->mutex);
      core_->stopping = true;
      core_->alarm.call();
      core_->round_done.notify_all();
      stop_supervisor_.notify_all();
    }
    supervisor_.join();
    std::unique_lock lock(core_->mutex);
    ++core_->waiting;
    const bool finished = core_->round_done.wait_for(lock, std::chrono::duration<double>(kHangLimit.value()),
                                                     [&] { return shift_->finished; });
    lock.unlock();
    if (!reader_.joinable()) return;
    if (finished) {
      reader_.join();
    } else {
      shift_->state.store(Shift::kAbandoned);
      reader_.detach();
    }
  }

  Nanoseconds sample_now() {
    std::unique_lock lock(core_->mutex);
    const std::uint64_t request = ++core_->requested;
    core_->alarm.call();
    ++core_->waiting;
    const auto longest = std::chrono::duration<double>(2.0 * kHangLimit.value()) * (core_->slots.size() + 1);
    const bool done = core_->round_done.wait_for(lock, longest, [&] { return core_->served >= request; });
    --core_->waiting;
    return done ? core_->served_at : Sampler::now();
  }

  bool settle(Nanoseconds time, Seconds longest) {
    const Nanoseconds until = Sampler::now() + to_nanoseconds(longest);
    if (core_->asked_for < time) {
      core_->asked_for = time;
      core_->alarm.call();
    }
    std::unique_lock lock(core_->mutex);
    ++core_->waiting;
    bool settled = false;
    while (true) {
      lock.unlock();
      settled = std::all_of(core_->slots.begin(), core_->slots.end(), [&](const auto& slot) {
        constexpr unsigned kLost = 3;
        if (!slot->answering) return true;
        const std::lock_guard guard(slot->mutex);
        return slot->failures_in_row >= kLost || slot->track.settled(time);
      });
      lock.lock();
      if (settled || Sampler::now() >= until) break;
      core_->round_done.wait_until(lock, time_point(until));
    }
    --core_->waiting;
    return settled;
  }

  [[nodiscard]] std::uint64_t open_window(Nanoseconds begin) {
    Window window;
    window.begin = begin;
    window.counted_until = begin;
    window.so_far.resize(core_->slots.size());
    const std::lock_guard lock(windows_mutex_);
    windows_.emplace(++last_window_, std::move(window));
    return last_window_;
  }

  void end_window(std::uint64_t number, Nanoseconds end) {
    const std::lock_guard lock(windows_mutex_);
    const auto found = windows_.find(number);
    if (found == windows_.end() || found->second.end) {
      throw UsageError("this measured window was not begun or has ended before");
    }
    found->second.end = std::max(end, found->second.begin);
  }

  [[nodiscard]] std::vector<IntervalEnergy> close_window(std::uint64_t number) {
    const std::lock_guard lock(windows_mutex_);
    const auto found = windows_.find(number);
    if (found == windows_.end() || !found->second.end) {
      throw UsageError("this measured window has not ended, or was read before");
    }
    const Nanoseconds end = *found->second.end;
    count(found->second, end);
    std::vector<IntervalEnergy> result = std::move(found->second.so_far);
    const Seconds length = to_seconds(end - found->second.begin);
    for (IntervalEnergy& energy : result) {
      if (length > Seconds(0)) energy.mean = energy.energy / length;
      energy.peak = std::max(energy.peak, energy.mean);
    }
    windows_.erase(found);
    return result;
  }

  [[nodiscard]] const Slot& slot(std::size_t meter) const { return *core_->slots.at(meter); }
  [[nodiscard]] std::size_t size() const { return core_->slots.size(); }
  [[nodiscard]] Seconds period() const { return to_seconds(core_->period); }

 private:
  void start_reading() {
    shift_ = std::make_shared<Shift>();
    reader_ = std::thread([core = core_, shift = shift_] {
      pthread_setname_np(pthread_self(), "flyball-sampler");
      // A round that fails for another reason than its meter, memory for one, is not the last.
      while (!contained("the sampler", [&] { keep_reading(*core, *shift); })) {
        std::this_thread::sleep_for(std::chrono::duration<double>(kAfterFailure.value()));
      }
      const std::lock_guard lock(core->mutex);
      shift->finished = true;
      core->round_done.notify_all();
    });
  }

  void supervise() {
    pthread_setname_np(pthread_self(), "flyball-watch");
    const Nanoseconds limit = to_nanoseconds(kHangLimit);
    Nanoseconds next = Sampler::now() + limit;
    std::unique_lock lock(core_->mutex);
    while (!core_->stopping) {
      stop_supervisor_.wait_until(lock, time_point(next), [&] { return core_->stopping; });
      if (core_->stopping) return;
      lock.unlock();
      next = Sampler::now() + limit;
      (void)contained("the sampler", [&] {
        if (reader_.joinable()) next = std::min(next, give_up_on_a_hanging_meter());
        if (!reader_.joinable()) replace_reader();
        count_old_parts_of_windows();
      });
      lock.lock();
    }
  }

  // Returns when to look again. A reading that has begun by now is looked after at its limit, so that looking once per
  // limit finds every one that hangs in time.
  Nanoseconds give_up_on_a_hanging_meter() {
    const Nanoseconds limit = to_nanoseconds(kHangLimit);
    const Nanoseconds now = Sampler::now();
    int state = Shift::kReading;
    if (shift_->state.load(std::memory_order_acquire) != Shift::kReading) return now + limit;
    const Nanoseconds since = shift_->since.load(std::memory_order_relaxed);
    if (now - since <= limit) return since + limit + 1;
    Slot& slot = *core_->slots[shift_->meter.load(std::memory_order_relaxed)];
    slot.answering.store(false);
    if (!shift_->state.compare_exchange_strong(state, Shift::kAbandoned)) {
      slot.answering.store(true);  // it came back just now
    } else {
      reader_.detach();
    }
    return now + limit;
  }

  void replace_reader() {
    try {
      start_reading();
    } catch (const std::system_error&) {
      // No thread can be made now; the next round of supervision tries again.
    }
  }

  void count_old_parts_of_windows() {
    const Nanoseconds now = Sampler::now();
    const std::lock_guard lock(windows_mutex_);
    for (auto& [number, window] : windows_) {
      if (now - window.counted_until > core_->history / 2) count(window, now - core_->history / 4);
    }
  }

  void count(Window& window, Nanoseconds until) {
    until = std::min(until, window.end.value_or(until));
    if (until <= window.counted_until && window.counted_until > window.begin) return;
    for (std::size_t i = 0; i < core_->slots.size(); ++i) {
      const Slot& slot = *core_->slots[i];
      const std::lock_guard lock(slot.mutex);
      add_to(window.so_far[i], slot.track.energy_between(window.counted_until, until));
    }
    window.counted_until = std::max(window.counted_until, until);
  }

  std::shared_ptr<Core> core_;
  // Used by the supervisor, but for construction and destruction:
  std::shared_ptr<Shift> shift_;
  std::thread reader_;
  std::thread supervisor_;
  std::condition_variable stop_supervisor_;  // with core_->mutex

  std::mutex windows_mutex_;  // guards all below; taken before a slot's
  std::map<std::uint64_t, Window> windows_;
  std::uint64_t last_window_ = 0;
};

Sampler::Sampler(std::vector<Meter> meters, Options options)
    : impl_(std::make_unique<Impl>(std::move(meters), options)) {}
Sampler::~Sampler() = default;

std::size_t Sampler::meter_count() const { return impl_->size(); }

MeterState Sampler::state(std::size_t meter) const {
  const Slot& slot = impl_->slot(meter);
  MeterState state;
  state.label = slot.meter.label;
  state.answering = slot.answering;
  const std::lock_guard lock(slot.mutex);
  state.source = slot.track.source();
  state.sensor_period = slot.track.sensor_period();
  state.readings = slot.readings;
  state.reading_period = std::max(impl_->period() * static_cast<double>(slot.periods), to_seconds(slot.rest));
  state.late = slot.late;
  state.failed = slot.failed;
  state.failure = slot.failure;
  state.failing_since = slot.failing_since;
  if (!state.answering) state.failure = slot.meter.label + ": the driver's call has not returned";
  state.latest = slot.track.latest();
  return state;
}

IntervalEnergy Sampler::energy_between(std::size_t meter, Nanoseconds begin, Nanoseconds end) const {
  const Slot& slot = impl_->slot(meter);
  const std::lock_guard lock(slot.mutex);
  return slot.track.energy_between(begin, end);
}

Nanoseconds Sampler::sample_now() { return impl_->sample_now(); }
bool Sampler::settle(Nanoseconds time, Seconds longest) { return impl_->settle(time, longest); }

std::vector<PowerSample> Sampler::samples_since(std::size_t meter, Nanoseconds after) const {
  const Slot& slot = impl_->slot(meter);
  const std::lock_guard lock(slot.mutex);
  return slot.track.samples_since(after);
}

std::vector<PowerSample> Sampler::changes_since(std::size_t meter, Nanoseconds after) const {
  const Slot& slot = impl_->slot(meter);
  const std::lock_guard lock(slot.mutex);
  return slot.track.changes_since(after);
}

std::uint64_t Sampler::open_window(Nanoseconds begin) { return impl_->open_window(begin); }
void Sampler::end_window(std::uint64_t window, Nanoseconds end) { impl_->end_window(window, end); }
std::vector<IntervalEnergy> Sampler::close_window(std::uint64_t window) { return impl_->close_window(window); }

double most_cost_at(Seconds period) { return period == kDefaultSamplingPeriod ? usual_sampling_cost() : 0.0; }

Sampler::Options sampling_at(std::optional<Seconds> period) {
  Sampler::Options options;
  if (period) {
    options.period = *period;
  } else {
    options.most_cost = usual_sampling_cost();
  }
  return options;
}

}  // namespace flyball
