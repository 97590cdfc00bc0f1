// One thread serves two queues, reads before writes, and a restore before either once it is due. A call that takes too
// long is answered with kTimeout by a timer of the loop while the thread still waits for the driver; the state is
// shared with the thread, which may outlive the object. A restore that fails is tried again after a wait that doubles,
// with all knobs of the GPU.
// The value of a power limit tells who has set it: the journal keeps the limits of which one is in force if nobody else
// has set any. A limit that is none of them is somebody else's and stays, except under a cap that begins: then it is
// what held before.
#include "agent/gpu_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "agent/change_settings.h"
#include "base/contain.h"
#include "base/monotonic_time.h"
#include "base/wall_clock.h"
#include "net/http.h"

namespace flyball {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Watts kLeastLimit{1.0};           // a smaller value is no limit, and messages may not hold it
constexpr std::size_t kMostWaiting = 1024;  // calls of one kind, for one GPU

// Returns nothing if the device does not tell its limit.
std::optional<Watts> limit_now(const GpuDevice& device) {
  try {
    const Watts now = device.power_limit();
    if (now >= kLeastLimit) return now;
  } catch (const DeviceError& error) {
    if (error.fault() != DeviceFault::kUnsupported) throw;
  }
  return std::nullopt;
}

// The power limit that would hold without a lease: the present one, but no more than the configuration says.
std::optional<Watts> limit_outside(const GpuDevice& device, const std::optional<Watts>& now,
                                   const GpuSettings& outside) {
  if (!now || !outside.power_limit) return now ? now : outside.power_limit;
  const PowerLimitRange limits = device.power_limits();  // the board would refuse a limit outside of these
  return std::min(*now, std::clamp(*outside.power_limit, limits.minimum, limits.maximum));
}

GpuSettings under(const std::optional<Cap>& cap, GpuSettings settings) {
  if (cap) settings.power_limit = std::min(cap->power_limit, settings.power_limit.value_or(cap->power_limit));
  return settings;
}

// The settings to which an entry of the journal is restored. Clocks in the entry came from the configuration of that
// time, so that the present configuration replaces them.
GpuSettings before_of(const JournalEntry& entry, const GpuSettings& outside) {
  GpuSettings before = entry.before.value_or(outside);
  if (outside.sm_clocks) before.sm_clocks = outside.sm_clocks;
  if (outside.memory_clocks) before.memory_clocks = outside.memory_clocks;
  if (outside.power_limit) {
    before.power_limit = std::min(*outside.power_limit, before.power_limit.value_or(*outside.power_limit));
  }
  return before;
}

}  // namespace

struct GpuControl::Job {
  Call call;
  Check check;
  Write write;
  Done done;
  bool is_write = false;
  SettingsChange change;
  Author author;
  std::atomic<bool> given_up{false};  // its caller was told that it took too long
  // Used in the loop's thread only:
  bool answered = false;
  EventLoop::Handle timer;
};

// Shared with the thread, which may outlive the GpuControl.
struct GpuControl::State {
  State(std::shared_ptr<GpuDevice> the_device, std::shared_ptr<const Journal> the_journal, EventLoop& the_loop,
        ControlOptions the_options, ControlEvents the_events, const GpuSettings& the_outside)
      : device(std::move(the_device)),
        journal(std::move(the_journal)),
        options(the_options),
        outside(the_outside),
        loop(&the_loop),
        events(std::make_shared<const ControlEvents>(std::move(the_events))) {}

  void post(std::function<void()> action) {
    const std::lock_guard lock(loop_mutex);
    if (loop != nullptr) loop->post(std::move(action));
  }

  void finish(const std::shared_ptr<Job>& job, const std::exception_ptr& error) {
    post([job, error] {
      if (std::exchange(job->answered, true)) return;
      job->timer.reset();
      job->done(error);
    });
  }

  void run_job(const std::shared_ptr<Job>& job);
  void follow(Ending how);
  bool try_restore();
  void bring_back_limit();
  void journal_change(const Job& job);
  [[nodiscard]] std::optional<Watts> limit_before(const std::optional<Watts>& now) const;
  void note_made(const Job& job);
  void keep_cap(const std::optional<Cap>& was);
  [[nodiscard]] std::vector<Watts> as_set(std::optional<Watts> limit) const;
  [[nodiscard]] bool may_be_ours(Watts limit) const;
  [[nodiscard]] bool may_be_reset(Watts limit) const;
  [[nodiscard]] bool touches(Knob knob) const;
  void forget_set_limits();
  void write_entry();

  std::shared_ptr<GpuDevice> device;
  std::shared_ptr<const Journal> journal;
  ControlOptions options;
  const GpuSettings outside;

  std::mutex loop_mutex;
  EventLoop* loop;  // null once the control is gone
  std::shared_ptr<const ControlEvents> events;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> reads;  // guarded by mutex, as are the next nine
  std::deque<std::shared_ptr<Job>> writes;
  std::optional<JournalEntry> found;  // in the journal at the start, not yet restored
  std::optional<Ending> ending;       // not yet followed
  std::optional<Cap> shown_cap;
  bool restore_wanted = false;
  Clock::time_point restore_due;
  std::shared_ptr<Job> current;
  bool stopping = false;
  bool ended = false;

  std::atomic<std::int64_t> call_since{0};

  // Used in the control's thread only (before it starts: in the loop's):
  bool journalled = false;
  bool is_found = false;  // an earlier agent touched these knobs, and the board may have been reset since
  std::string holder;     // as in the journal
  std::vector<Knob> touched;
  GpuSettings before;  // of the knobs touched
  // The limits that the lease set, as in the journal. Without a value it is unknown who set the present limit.
  std::optional<std::vector<Watts>> set_limits = std::vector<Watts>();
  std::optional<Watts> lost_limit;  // as in the journal, like the next
  std::optional<Cap> cap;
  bool cap_is_new = false;   // not yet set on the board
  bool names_limit = false;  // whether the entry on disk has either
  Seconds retry{0};
};

bool GpuControl::State::may_be_ours(Watts limit) const {
  if (!set_limits || (before.power_limit && same_limit(limit, *before.power_limit))) return true;
  if (cap && same_limit(limit, cap->power_limit)) return true;
  return std::any_of(set_limits->begin(), set_limits->end(), [&](Watts set) { return same_limit(limit, set); });
}

bool GpuControl::State::touches(Knob knob) const {
  return std::find(touched.begin(), touched.end(), knob) != touched.end();
}

// What the power limit would be without the lease. A limit that somebody else has set during the lease stays when the
// lease ends.
std::optional<Watts> GpuControl::State::limit_before(const std::optional<Watts>& now) const {
  return touches(Knob::kPowerLimit) && (!now || may_be_ours(*now)) ? before.power_limit
                                                                   : limit_outside(*device, now, outside);
}

void GpuControl::State::journal_change(const Job& job) {
  JournalEntry entry{device->identity().uuid, touched, job.author.holder, before, set_limits, lost_limit, cap};
  for (const Knob knob : job.change.knobs()) {
    const bool is_new = !touches(knob);
    if (is_new) entry.knobs.push_back(knob);
    if (is_new && knob == Knob::kSmClocks) entry.before->sm_clocks = outside.sm_clocks;
    if (is_new && knob == Knob::kMemoryClocks) entry.before->memory_clocks = outside.memory_clocks;
    if (knob != Knob::kPowerLimit) continue;
    const std::optional<Watts> now = limit_now(*device);
    entry.before->power_limit = limit_before(now);
    entry.set_limits.emplace();
    if (now) entry.set_limits->push_back(*now);
    if (job.change.power_limit && *job.change.power_limit) entry.set_limits->push_back(**job.change.power_limit);
    if (job.change.lost_power_limit) entry.lost_limit = *job.change.lost_power_limit;
    const bool lifts = job.author.may_end_cap && (job.change.power_limit || !entry.lost_limit);
    if (lifts || (now && !may_be_ours(*now))) entry.cap.reset();
  }
  if (job.check) job.check(*device, under(entry.cap, *entry.before));
  const bool known = entry.knobs.size() == touched.size() && *entry.before == before && set_limits &&
                     entry.lost_limit == lost_limit && entry.cap == cap &&
                     std::all_of(entry.set_limits->begin(), entry.set_limits->end(),
                                 [this](Watts limit) { return may_be_ours(limit); });
  if (journalled && known) return;
  journal->write(entry);
  journalled = true;
  names_limit = entry.lost_limit || entry.cap;
  holder = std::move(entry.holder);
  touched = std::move(entry.knobs);
  before = *entry.before;
  set_limits = std::move(entry.set_limits);
  lost_limit = entry.lost_limit;
  cap = std::move(entry.cap);
}

// What counts as ours once `limit` is set: what the board rounded it to does, too.
std::vector<Watts> GpuControl::State::as_set(std::optional<Watts> limit) const {
  std::vector<Watts> limits;
  if (limit) limits.push_back(*limit);
  try {
    const std::optional<Watts> told = limit_now(*device);
    if (told && !(limit && same_limit(*told, *limit))) limits.push_back(*told);
  } catch (const DeviceError&) {
    // The limit was set all the same, and its caller is told so.
  }
  return limits;
}

// Called after the change was made. The limit before it no longer counts as ours, or an operator who sets that value
// would be taken for us.
void GpuControl::State::note_made(const Job& job) {
  if (!job.change.power_limit) return;
  std::vector<Watts> limits = as_set(*job.change.power_limit);
  if (set_limits == limits) return;
  set_limits = std::move(limits);
  try {
    write_entry();
  } catch (const JournalError&) {
    // The entry on disk still names the limit in force, besides the one before.
  }
}

// Called after a change of the power limit that failed: a cap that it was to end still holds, unless the board is at
// another limit now.
void GpuControl::State::keep_cap(const std::optional<Cap>& was) {
  if (cap || !was) return;
  try {
    const std::optional<Watts> now = limit_now(*device);
    if (!now || !same_limit(*now, was->power_limit)) return;
  } catch (const DeviceError& error) {
    if (error.fault() != DeviceFault::kLost) return;  // a lost board has not taken the change
  }
  cap = was;
  try {
    write_entry();
  } catch (const JournalError&) {
    // It is written again when the lease ends.
  }
}

void GpuControl::State::write_entry() {
  journal->write({device->identity().uuid, touched, holder, before, set_limits, lost_limit, cap});
  names_limit = lost_limit || cap;
}

// A lost GPU comes back with its driver's own limit, perhaps to another agent, which must not take that limit for one
// that somebody else has set.
void GpuControl::State::forget_set_limits() {
  if (!std::exchange(set_limits, std::nullopt) || !journalled) return;
  try {
    write_entry();
  } catch (const JournalError&) {
    // The next agent still knows the board's standard limit (may_be_reset).
  }
}

// A board that was reset, or whose driver was loaded anew, while no agent ran is at its standard limit. If that is
// above the limit before, the limit before is restored, although an operator may have raised it to just the standard:
// setting that again is better than losing a cap.
bool GpuControl::State::may_be_reset(Watts limit) const {
  if (!is_found || !before.power_limit) return false;
  const Watts standard = device->power_limits().standard;
  return standard > *before.power_limit && same_limit(limit, standard);
}

void GpuControl::State::follow(Ending how) {
  if (how == Ending::kLost && lost_limit) {
    cap = Cap{*lost_limit, holder, Seconds(now_seconds())};
    cap_is_new = true;
  } else if (how == Ending::kLifted || (how == Ending::kReleased && lost_limit)) {
    cap.reset();
  }
  lost_limit.reset();
  if (!cap || touches(Knob::kPowerLimit)) return;
  // The cap is of another boot: what stands now was set since then.
  touched.push_back(Knob::kPowerLimit);
  set_limits.emplace();
  cap_is_new = true;
}

// Sets the power limit that is to hold without a lease. One that somebody else has set stays, since an operator has
// chosen it for a reason; it ends a cap, but under one that only begins it is what held before.
void GpuControl::State::bring_back_limit() {
  const std::optional<Watts> now = set_limits ? limit_now(*device) : std::nullopt;
  bool others = now && !may_be_ours(*now) && !may_be_reset(*now);
  if (others && cap_is_new) {
    before.power_limit = limit_outside(*device, now, outside);
    others = false;
  }
  if (cap && (others || under(cap, before) == before)) cap.reset();
  if (!cap && others) return post([all = events, limit = *now] { all->limit_left(limit); });
  if (!cap) return bring_back(*device, Knob::kPowerLimit, before);
  if (!now || !same_limit(*now, cap->power_limit)) bring_back(*device, Knob::kPowerLimit, under(cap, before));
  set_limits = as_set(cap->power_limit);
  cap_is_new = false;
}

void GpuControl::State::run_job(const std::shared_ptr<Job>& job) {
  if (job->given_up) return;
  const std::optional<Cap> held_cap = job->change.power_limit ? cap : std::nullopt;
  std::exception_ptr error;
  // Whatever the driver or the disk says is handed to the caller.
  try {
    if (job->is_write) journal_change(*job);
    if (job->call) job->call(*device);
    if (job->check && !job->is_write) {
      const std::optional<Watts> now = limit_now(*device);
      GpuSettings held = before;
      held.power_limit = limit_before(now);
      job->check(*device, now && !may_be_ours(*now) ? held : under(cap, held));
    }
    if (job->write) job->write(*device, under(cap, before));
    if (job->write) note_made(*job);
  } catch (const DeviceError& caught) {
    error = std::current_exception();
    if (caught.fault() == DeviceFault::kLost) {
      forget_set_limits();
      post([all = events, caught] { all->lost(caught); });
    }
  } catch (...) {
    error = std::current_exception();
  }
  if (error) keep_cap(held_cap);
  {
    const std::lock_guard lock(mutex);
    shown_cap = cap;  // before the caller hears of it, and asks
  }
  finish(job, error);
}

// Returns true when nothing is left to do, or nothing can be done.
bool GpuControl::State::try_restore() {
  if (journalled && names_limit && !lost_limit && !cap) {
    try {
      write_entry();  // the next agent, too, is to set no cap
    } catch (const JournalError&) {
      // The next attempt writes it, if this one leaves the entry there.
    }
  }
  std::string failure;
  std::vector<Knob> left;
  // Resets come first: with some drivers the reset of one clock resets the other, too.
  std::stable_partition(touched.begin(), touched.end(), [this](Knob knob) { return !names(before, knob); });
  for (const Knob knob : touched) {
    try {
      // No driver tells who locked the clocks, or whether they are locked. A lock of ours must not stay, so that a lock
      // which an operator has made since goes with it. Clocks that the configuration names are locked again.
      knob == Knob::kPowerLimit ? bring_back_limit() : bring_back(*device, knob, before);
    } catch (const DeviceError& error) {
      if (error.fault() == DeviceFault::kLost) {
        forget_set_limits();
        // Its locks are lost with it. The journal's entry stays for when the GPU comes back.
        post([all = events, error] { all->lost(error); });
        return true;
      }
      if (error.fault() == DeviceFault::kUnsupported) {  // then it was never set either
        if (knob == Knob::kPowerLimit) cap.reset();
        continue;
      }
      left.push_back(knob);
      failure = error.what();
    }
  }
  try {
    if (left.empty()) {
      is_found = false;
      before.sm_clocks.reset();
      before.memory_clocks.reset();
      if (!cap) {
        touched.clear();
        before = {};
        set_limits.emplace();
        if (journalled) journal->remove(device->identity().uuid, names_limit);
        journalled = names_limit = false;
      } else {
        touched = {Knob::kPowerLimit};
        write_entry();
      }
    }
  } catch (const JournalError& error) {
    failure = error.what();
  }
  // If one knob failed, all are tried again, since one reset may undo another's work.
  if (failure.empty()) return true;
  post([all = events, failure] { all->restore_failed(failure); });
  return false;
}

void GpuControl::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    const auto restore_is_due = [&] { return state->restore_wanted && Clock::now() >= state->restore_due; };
    const auto something_to_do = [&] {
      return restore_is_due() || !state->reads.empty() || (!state->restore_wanted && !state->writes.empty()) ||
             (state->stopping && !state->restore_wanted);
    };
    if (!something_to_do()) {
      if (state->restore_wanted) {
        const auto due = state->restore_due;
        state->changed.wait_until(lock, due);
      } else {
        state->changed.wait(lock);
      }
      continue;
    }
    if (restore_is_due()) {
      if (state->found) {
        const JournalEntry entry = *std::exchange(state->found, std::nullopt);
        state->touched = entry.knobs;
        state->holder = entry.holder;
        state->is_found = true;
        state->before = before_of(entry, state->outside);
        state->set_limits = entry.set_limits;
        if (entry.set_limits && entry.before && entry.before->power_limit) {
          state->set_limits->push_back(*entry.before->power_limit);  // a reset under the lease has left this limit
        }
        state->lost_limit = entry.lost_limit;
        state->cap = entry.cap;
        state->names_limit = entry.lost_limit || entry.cap;
        state->journalled = true;
      }
      if (state->ending) state->follow(*std::exchange(state->ending, std::nullopt));
      lock.unlock();
      state->call_since = monotonic_now();
      bool done = false;
      (void)contained("a GPU's control", [&] { done = state->try_restore(); });
      state->call_since = 0;
      lock.lock();
      state->shown_cap = state->cap;
      if (done && (state->found || state->ending)) {
        state->restore_due = Clock::now();  // an entry was found, or another lease ended, meanwhile
      } else if (done) {
        state->restore_wanted = false;
        state->retry = Seconds(0);
        state->post([all = state->events] { all->restored(); });
      } else {
        state->retry = std::min(std::max(state->options.first_retry, 2 * state->retry), state->options.last_retry);
        state->restore_due = Clock::now() + duration_of(state->retry);
      }
    } else if (!state->reads.empty() || (!state->restore_wanted && !state->writes.empty())) {
      auto& queue = state->reads.empty() ? state->writes : state->reads;
      const std::shared_ptr<Job> job = queue.front();
      queue.pop_front();
      state->current = job;
      lock.unlock();
      state->call_since = monotonic_now();
      (void)contained("a GPU's control", [&] { state->run_job(job); });
      state->call_since = 0;
      lock.lock();
      state->current.reset();
    } else {
      break;  // the control is stopping, and nothing is left
    }
  }
  state->ended = true;
  state->changed.notify_all();
}

GpuControl::GpuControl(std::shared_ptr<GpuDevice> device, std::shared_ptr<const Journal> journal, EventLoop& loop,
                       ControlOptions options, ControlEvents events, const GpuSettings& outside)
    : loop_(loop),
      options_(options),
      state_(
          std::make_shared<State>(std::move(device), std::move(journal), loop, options, std::move(events), outside)) {
  thread_ = std::thread([state = state_] { run(state); });
}

GpuControl::~GpuControl() {
  {
    const std::lock_guard lock(state_->loop_mutex);
    state_->loop = nullptr;
  }
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->restore_wanted = false;
  state_->reads.clear();
  state_->writes.clear();
  if (state_->current) state_->current->timer.reset();  // its thread may outlive the loop
  state_->changed.notify_all();
  const bool ended = state_->changed.wait_for(lock, duration_of(options_.call_timeout), [&] { return state_->ended; });
  lock.unlock();
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void GpuControl::submit(std::shared_ptr<Job> job, bool is_read) {
  job->timer = loop_.after(options_.call_timeout, [weak = std::weak_ptr(job), state = state_, most = options_] {
    const auto late = weak.lock();
    if (!late || std::exchange(late->answered, true)) return;
    late->given_up = true;
    {
      const std::lock_guard lock(state->mutex);
      std::erase(state->reads, late);
      std::erase(state->writes, late);
    }
    late->done(std::make_exception_ptr(
        DeviceError(DeviceFault::kTimeout, state->device->label(),
                    fmt::format("the driver has not answered in {} s", most.call_timeout.value()),
                    "wait until it does, or restart the machine; other GPUs are not affected")));
  });
  const std::lock_guard lock(state_->mutex);
  auto& queue = is_read ? state_->reads : state_->writes;
  if (queue.size() >= kMostWaiting) {
    state_->finish(
        job, std::make_exception_ptr(HttpError(503, fmt::format("{} calls wait for the driver of {} already; try again",
                                                                queue.size(), state_->device->label()))));
    return;
  }
  queue.push_back(std::move(job));
  state_->changed.notify_all();
}

void GpuControl::write(const SettingsChange& change, Author author, Check check, Write call, Done done) {
  auto job = std::make_shared<Job>();
  job->check = std::move(check);
  job->write = std::move(call);
  job->done = std::move(done);
  job->is_write = true;
  job->change = change;
  job->author = std::move(author);
  submit(std::move(job), false);
}

void GpuControl::read(Call call, Done done) {
  auto job = std::make_shared<Job>();
  job->call = std::move(call);
  job->done = std::move(done);
  submit(std::move(job), true);
}

void GpuControl::read_before(Check look, Done done) {
  auto job = std::make_shared<Job>();
  job->check = std::move(look);
  job->done = std::move(done);
  submit(std::move(job), true);
}

void GpuControl::restore(Ending ending) {
  std::deque<std::shared_ptr<Job>> dropped;
  {
    const std::lock_guard lock(state_->mutex);
    dropped.swap(state_->writes);
    // A lease that came after the one whose end is still to be followed has not written anything.
    if (!state_->ending || ending == Ending::kLifted) state_->ending = ending;
    state_->restore_wanted = true;
    state_->restore_due = Clock::now();
    state_->changed.notify_all();
  }
  for (const auto& job : dropped) {
    state_->finish(job, std::make_exception_ptr(HttpError(409, "the lease ended before the setting was made")));
  }
}

void GpuControl::restore_found(const JournalEntry& entry) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->found = entry;
  }
  restore(Ending::kLost);
}

bool GpuControl::restoring() const {
  const std::lock_guard lock(state_->mutex);
  return state_->restore_wanted;
}

std::optional<Cap> GpuControl::cap() const {
  const std::lock_guard lock(state_->mutex);
  return state_->shown_cap;
}

Seconds GpuControl::call_age() const {
  const std::int64_t since = state_->call_since;
  return since == 0 ? Seconds(0) : to_seconds(monotonic_now() - since);
}

}  // namespace flyball
