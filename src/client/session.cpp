#include "client/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "client/instruction_types.h"
#include "client/monotonic_time.h"
#include "client/plan_server.h"

namespace flyball {
namespace {

constexpr Seconds kPoll{30.0};       // of the server, for a schedule
constexpr Seconds kFirstRetry{0.1};  // of the server
constexpr Seconds kLongestRetry{3.0};
constexpr Seconds kLongestSettling{3.0};                    // of the counter, at a window's end
constexpr auto kLookAgain = std::chrono::milliseconds(50);  // while the sweep goes on

// What to set, computation by computation.
struct Schedule {
  RankSchedule plan;
  std::array<std::vector<std::uint32_t>, kMostInstructionTypes> clocks_mhz;  // per type, in the stage's order
};

std::string type_name(const ScheduledComputation& computation) {
  if (computation.chunk == 0) return computation.instruction;
  return fmt::format("{}.{}", computation.instruction, computation.chunk);
}

}  // namespace

std::string_view name_of(SessionPhase phase) {
  switch (phase) {
    case SessionPhase::kProfiling: return "profiling";
    case SessionPhase::kWaiting: return "waiting for a schedule";
    case SessionPhase::kRunning: return "running a schedule";
    case SessionPhase::kIdle: return "idle";
  }
  return "";
}

class Session::Impl {
 public:
  Impl(SessionOptions options, SessionGpu gpu);
  ~Impl();

  void step_begin();
  void set_speed(std::string_view type);
  void begin(std::string_view type);
  void end(std::string_view type);
  void step_end();

  void set_straggler(StragglerNotice notice);
  void profile_again();
  [[nodiscard]] SessionState state() const;
  [[nodiscard]] std::vector<Measurement> measurements() const;
  void window_begin();
  [[nodiscard]] StepsEnergy window_end();

 private:
  [[nodiscard]] bool has_server() const { return !options_.server.empty(); }
  [[nodiscard]] CounterNews counter_news(Nanoseconds after);
  void adopt_schedule();
  void notice(const std::string& words);

  // The reporter's thread: evaluates the sweep and tells the server.
  void report();
  void evaluate();
  void take(const ProfiledClock& clock);
  template <class Send>
  void send_or_drop(Send send);
  bool talk();
  // The listener's: waits for schedules.
  void listen();
  void take(RankSchedule plan);

  void server_failed(const std::string& words);
  void server_answered();
  // False when the session ends.
  bool sleep(Seconds time);

  const SessionOptions options_;
  const std::vector<Megahertz> clocks_;
  InstructionTypes types_;
  Sampler sampler_;
  std::unique_ptr<ClockController> controller_;

  // The training thread's own.
  std::shared_ptr<const Schedule> schedule_;
  std::array<std::size_t, kMostInstructionTypes> next_{};  // into the schedule, per type
  StepRecord step_;
  std::optional<std::uint16_t> open_type_;
  bool in_step_ = false;
  std::shared_ptr<OnlineProfiler> profiler_in_use_;
  std::optional<Megahertz> sweep_clock_;

  mutable std::mutex mutex_;  // never held while anybody is waited for
  std::condition_variable changed_;
  bool stop_ = false;
  std::shared_ptr<OnlineProfiler> profiler_;  // null: nothing to profile any more
  std::shared_ptr<const Schedule> newest_;
  bool joined_ = false;
  bool reachable_ = false;
  bool told_of_server_ = false;
  std::vector<MeasurementReport> reports_;  // all that were made, for a server that lost them
  std::size_t unsent_ = 0;                  // index of the first one that the server does not have
  std::int64_t next_sequence_ = 0;
  bool finish_due_ = false;  // the server is to be told that profiling is over
  std::deque<StragglerNotice> stragglers_;
  std::int64_t heard_version_ = 0;  // the last schedule that came
  SessionState state_;
  double waiting_sum_ = 0.0;
  double waiting_weight_ = 0.0;
  std::optional<Nanoseconds> window_begin_;
  std::uint64_t window_ = 0;

  // Each is used by one of the threads alone, but for interrupting it.
  std::optional<PlanServer> reporting_;
  std::optional<PlanServer> listening_;

  std::mutex noticing_;
  std::thread reporter_;
  std::thread listener_;
};

Session::Impl::Impl(SessionOptions options, SessionGpu gpu)
    : options_(std::move(options)),
      clocks_(gpu.clocks),
      sampler_({gpu.meter}, {options_.sampling_period, Seconds(60)}) {
  if (has_server() && (options_.job.id.empty() || options_.job.token.empty())) {
    throw UsageError("a session with a server needs the job's id and token, the same on every rank");
  }
  if (gpu.sink) {
    ClockController::Options controller = options_.controller;
    controller.on_change = [this](const std::string& failure) {
      notice(failure.empty() ? "clocks are set again" : "clocks are at their default, training goes on: " + failure);
    };
    controller_ = std::make_unique<ClockController>(std::move(gpu.sink), std::move(controller));
  }
  // Names that everybody uses are known before the first step.
  for (const char* name : {"forward", "backward"}) (void)types_.number_of(name);
  if (has_server()) {
    reporting_.emplace(options_.server, options_.job.token);
    listening_.emplace(options_.server, options_.job.token, kPoll);
  }
  if (options_.profile && controller_ && !clocks_.empty()) profile_again();
  reporter_ = std::thread([this] { report(); });
  if (has_server()) listener_ = std::thread([this] { listen(); });
}

Session::Impl::~Impl() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (reporting_) reporting_->interrupt();
  if (listening_) listening_->interrupt();
  controller_.reset();
  reporter_.join();
  if (listener_.joinable()) listener_.join();
}

void Session::Impl::notice(const std::string& words) {
  if (!options_.notice) return;
  const std::scoped_lock lock(noticing_);
  options_.notice(words);
}

// --- the training thread ---------------------------------------------------------------------------------------------

void Session::Impl::adopt_schedule() {
  // The lock is held for moments only; should it be taken just now, the next step adopts.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  if (schedule_ != newest_) {
    schedule_ = newest_;
    state_.schedule_version = schedule_->plan.version;
    state_.schedule_point = schedule_->plan.point;
    state_.planned_time = schedule_->plan.iteration_time;
    state_.planned_energy = schedule_->plan.iteration_energy;
  }
  profiler_in_use_ = profiler_;
}

void Session::Impl::step_begin() {
  if (in_step_) throw UsageError("step_begin: the step before has not ended; call step_end first");
  in_step_ = true;
  adopt_schedule();
  next_.fill(0);
  step_.spans.clear();
  const bool swept = sweep_clock_.has_value();
  sweep_clock_ = profiler_in_use_ ? profiler_in_use_->step_begin() : std::nullopt;
  if (controller_ && sweep_clock_) controller_->set(*sweep_clock_);
  // What the sweep set last is nobody's wish; a schedule sets its own.
  if (controller_ && swept && !sweep_clock_) controller_->release();
  step_.begin = monotonic_now();
}

void Session::Impl::set_speed(std::string_view type) {
  if (sweep_clock_ || !schedule_ || !controller_) return;
  const auto number = types_.find(type);
  if (!number) return;  // the schedule has no such computation
  const std::vector<std::uint32_t>& clocks = schedule_->clocks_mhz[*number];
  std::size_t& next = next_[*number];
  if (next >= clocks.size()) return;
  const std::uint32_t mhz = clocks[next++];
  if (mhz > 0) controller_->set(Megahertz(mhz));
}

void Session::Impl::begin(std::string_view type) {
  if (open_type_) throw UsageError(fmt::format("begin {}: {} has not ended", type, types_.name(*open_type_)));
  const auto known = types_.find(type);
  open_type_ = known ? *known : types_.number_of(type);
  step_.spans.push_back({*open_type_, monotonic_now(), 0});
}

void Session::Impl::end(std::string_view type) {
  const Nanoseconds now = monotonic_now();
  if (!open_type_ || types_.name(*open_type_) != type) {
    throw UsageError(fmt::format("end {}: it has not begun", type));
  }
  step_.spans.back().end = now;
  open_type_.reset();
}

void Session::Impl::step_end() {
  const Nanoseconds now = monotonic_now();
  if (!in_step_) throw UsageError("step_end: no step has begun");
  if (open_type_) throw UsageError(fmt::format("step_end: {} has not ended", types_.name(*open_type_)));
  in_step_ = false;
  step_.end = now;
  const Nanoseconds begin = step_.begin;
  bool news = false;
  if (profiler_in_use_ && sweep_clock_) {
    step_.in_effect = controller_->held_since(*sweep_clock_);
    const std::size_t usual = step_.spans.size();
    profiler_in_use_->step_end(std::exchange(step_, {}));
    step_.spans.reserve(usual);
    news = true;
  }
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) {
      ++state_.steps;
      state_.last_step = to_seconds(now - begin) * options_.time_scale;
    }
  }
  if (news) changed_.notify_all();
}

// --- the reporter ----------------------------------------------------------------------------------------------------

CounterNews Session::Impl::counter_news(Nanoseconds after) {
  CounterNews news;
  for (const PowerSample& sample : sampler_.changes_since(0, after))
    news.changes.push_back({sample.time, sample.energy});
  // A counter that does not move any more must not hold the sweep up for ever.
  const Nanoseconds given_up = monotonic_now() - to_nanoseconds(kLongestSettling);
  news.settled = news.changes.empty() ? given_up : std::max(given_up, news.changes.back().time);
  return news;
}

void Session::Impl::take(const ProfiledClock& clock) {
  MeasurementReport report;
  report.rank = options_.rank.rank;
  for (std::size_t type = 0; type < clock.activity.types.size(); ++type) {
    const InstructionEstimate& found = clock.activity.types[type];
    if (found.samples == 0 || !(found.energy > Joules(0))) continue;
    report.measurements.push_back({types_.name(type), clock.clock, found.time * options_.time_scale, found.energy,
                                   static_cast<std::int64_t>(found.samples)});
  }
  const std::scoped_lock lock(mutex_);
  const double weight = clock.activity.waiting_share;
  waiting_sum_ += weight * clock.activity.waiting.value() / options_.time_scale;
  waiting_weight_ += weight;
  if (report.measurements.empty()) return;
  report.sequence = next_sequence_++;
  reports_.push_back(std::move(report));
}

void Session::Impl::evaluate() {
  std::shared_ptr<OnlineProfiler> profiler;
  {
    const std::scoped_lock lock(mutex_);
    profiler = profiler_;
  }
  if (!profiler) return;
  for (const ProfiledClock& clock :
       profiler->evaluate([this](Nanoseconds after) { return counter_news(after); }, types_.count())) {
    take(clock);
  }
  const SweepProgress progress = profiler->progress();
  const std::scoped_lock lock(mutex_);
  if (profiler != profiler_) return;
  state_.sweep = progress;
  if (!progress.finished) return;
  profiler_.reset();
  finish_due_ = true;
}

// What the server calls bad is told and dropped: sent again it would be no better, and nothing behind it would ever go out.
template <class Send>
void Session::Impl::send_or_drop(Send send) {
  try {
    send();
  } catch (const ServerRefusal& refusal) {
    if (refusal.status() != 400 && refusal.status() != 422) throw;
    notice(std::string("the planning server does not take this, it is left out: ") + refusal.what());
  }
}

// Tells the server what it does not know yet. False where nothing was left to tell.
bool Session::Impl::talk() {
  PlanServer& server = *reporting_;
  std::unique_lock lock(mutex_);
  if (!joined_) {
    lock.unlock();
    const RankRegistered registered = server.join(options_.job, [this] {
      RankRequest rank = options_.rank;
      for (const Megahertz clock : clocks_) rank.clocks_mhz.push_back(static_cast<int>(std::lround(clock.value())));
      return rank;
    }());
    lock.lock();
    joined_ = true;
    // What the server already has: of this session after it was away, or of a rank of ours that died before.
    unsent_ = 0;
    while (unsent_ < reports_.size() && reports_[unsent_].sequence <= registered.last_sequence) ++unsent_;
    if (reports_.empty()) next_sequence_ = std::max(next_sequence_, registered.last_sequence + 1);
    // A server that did not know this rank counts its schedules anew.
    if (registered.created) heard_version_ = 0;
    lock.unlock();
    changed_.notify_all();
    return true;
  }
  if (unsent_ < reports_.size()) {
    const MeasurementReport report = reports_[unsent_];
    lock.unlock();
    send_or_drop([&] { (void)server.send(options_.job.id, report); });
    lock.lock();
    ++unsent_;
    return true;
  }
  if (finish_due_) {
    lock.unlock();
    server.finish_profiling(options_.job.id, options_.rank.rank);
    lock.lock();
    finish_due_ = false;
    return true;
  }
  if (!stragglers_.empty()) {
    const StragglerNotice straggler = stragglers_.front();
    lock.unlock();
    send_or_drop([&] { (void)server.set_straggler(options_.job.id, straggler); });
    lock.lock();
    stragglers_.pop_front();
    return true;
  }
  return false;
}

void Session::Impl::report() {
  Nanoseconds next_try = 0;
  Seconds retry = kFirstRetry;
  while (true) {
    evaluate();
    bool more = false;
    if (reporting_ && monotonic_now() >= next_try) {
      // The thread's body: failures are told and tried again, never the training's.
      try {
        more = talk();
        retry = kFirstRetry;
        if (more) server_answered();
      } catch (const Error& error) {
        server_failed(error.what());
        next_try = monotonic_now() + to_nanoseconds(retry);
        retry = std::min(retry * 2.0, kLongestRetry);
      }
    }
    std::unique_lock lock(mutex_);
    if (stop_) return;
    if (!more) changed_.wait_for(lock, kLookAgain);
  }
}

void Session::Impl::server_failed(const std::string& words) {
  bool tell = false;
  {
    const std::scoped_lock lock(mutex_);
    if (stop_) return;
    // Whoever comes back may have forgotten us.
    joined_ = false;
    reachable_ = false;
    tell = !std::exchange(told_of_server_, true);
  }
  if (tell) notice("the planning server cannot be used for now, training goes on: " + words);
}

void Session::Impl::server_answered() {
  bool tell = false;
  {
    const std::scoped_lock lock(mutex_);
    reachable_ = true;
    tell = std::exchange(told_of_server_, false);
  }
  if (tell) notice("the planning server answers again");
}

// --- the listener ----------------------------------------------------------------------------------------------------

bool Session::Impl::sleep(Seconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::nanoseconds(to_nanoseconds(time)), [&] { return stop_; });
}

void Session::Impl::take(RankSchedule plan) {
  const auto schedule = std::make_shared<Schedule>();
  for (const ScheduledComputation& computation : plan.computations) {
    const std::uint16_t type = types_.number_of(type_name(computation));
    schedule->clocks_mhz[type].push_back(static_cast<std::uint32_t>(std::max(0, computation.clock_mhz)));
  }
  schedule->plan = std::move(plan);
  const std::scoped_lock lock(mutex_);
  heard_version_ = schedule->plan.version;
  newest_ = schedule;
}

void Session::Impl::listen() {
  Seconds retry = kFirstRetry;
  while (true) {
    std::int64_t version = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || joined_; });
      if (stop_) return;
      version = heard_version_;
    }
    // The thread's body, as above.
    try {
      if (auto plan = listening_->schedule(options_.job.id, options_.rank.rank, version, kPoll)) {
        take(std::move(*plan));
      }
      retry = kFirstRetry;
      server_answered();
    } catch (const Error& error) {
      server_failed(error.what());
      if (!sleep(retry)) return;
      retry = std::min(retry * 2.0, kLongestRetry);
    }
  }
}

// --- anybody ---------------------------------------------------------------------------------------------------------

void Session::Impl::set_straggler(StragglerNotice notice) {
  if (!has_server()) throw UsageError("set_straggler: this session has no server to tell");
  {
    const std::scoped_lock lock(mutex_);
    stragglers_.push_back(std::move(notice));
  }
  changed_.notify_all();
}

void Session::Impl::profile_again() {
  if (!controller_ || clocks_.empty()) throw UsageError("there are no clocks to profile");
  OnlineProfiler::Options sweep = options_.sweep;
  sweep.settle = to_nanoseconds(options_.settle / options_.time_scale);
  auto profiler = std::make_shared<OnlineProfiler>(clocks_, sweep);
  const std::scoped_lock lock(mutex_);
  state_.sweep = profiler->progress();
  profiler_ = std::move(profiler);
}

SessionState Session::Impl::state() const {
  const std::scoped_lock lock(mutex_);
  SessionState state = state_;
  state.server_reachable = reachable_;
  state.waiting_power = Watts(waiting_weight_ > 0.0 ? waiting_sum_ / waiting_weight_ : 0.0);
  if (profiler_) {
    state.phase = SessionPhase::kProfiling;
  } else if (state.schedule_version > 0) {
    state.phase = SessionPhase::kRunning;
  } else {
    state.phase = has_server() ? SessionPhase::kWaiting : SessionPhase::kIdle;
  }
  if (controller_) state.clocks = controller_->state();
  return state;
}

std::vector<Measurement> Session::Impl::measurements() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Measurement> all;
  for (const MeasurementReport& report : reports_) {
    all.insert(all.end(), report.measurements.begin(), report.measurements.end());
  }
  return all;
}

void Session::Impl::window_begin() {
  const std::scoped_lock lock(mutex_);
  if (window_begin_) throw UsageError("a window is open already; end it first");
  window_begin_ = monotonic_now();
  window_ = sampler_.open_window(*window_begin_);
}

StepsEnergy Session::Impl::window_end() {
  const Nanoseconds end = monotonic_now();
  Nanoseconds begin = 0;
  std::uint64_t window = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (!window_begin_) throw UsageError("no window is open; begin one first");
    begin = *std::exchange(window_begin_, std::nullopt);
    window = window_;
  }
  sampler_.end_window(window, end);
  sampler_.settle(end, kLongestSettling);
  const std::vector<IntervalEnergy> energies = sampler_.close_window(window);
  return {to_seconds(end - begin) * options_.time_scale, energies.front().energy};
}

// --- the shell -------------------------------------------------------------------------------------------------------

Session::Session(SessionOptions options, SessionGpu gpu)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(gpu))) {}
Session::~Session() = default;
void Session::step_begin() { impl_->step_begin(); }
void Session::set_speed(std::string_view type) { impl_->set_speed(type); }
void Session::begin(std::string_view type) { impl_->begin(type); }
void Session::end(std::string_view type) { impl_->end(type); }
void Session::step_end() { impl_->step_end(); }
void Session::set_straggler(StragglerNotice notice) { impl_->set_straggler(std::move(notice)); }
void Session::profile_again() { impl_->profile_again(); }
SessionState Session::state() const { return impl_->state(); }
std::vector<Measurement> Session::measurements() const { return impl_->measurements(); }
void Session::window_begin() { impl_->window_begin(); }
StepsEnergy Session::window_end() { return impl_->window_end(); }

}  // namespace flyball
