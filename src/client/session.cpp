// A session has three threads beside the training's. The training thread only try_locks the session's mutex: a
// schedule, or a step to report, that it cannot hand over now goes with a later step. The reporter evaluates the sweep
// and, like the listener, speaks with the server (session_server.cpp).
#include "client/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/contain.h"
#include "base/error.h"
#include "base/monotonic_time.h"
#include "client/session_schedule.h"

namespace flyball {
namespace {

constexpr Seconds kLeastHistory{60.0};        // of the counter
constexpr Seconds kMostHistory{600.0};        // enough for five iterations of a large model
constexpr double kMostSamples = 150'000;      // that it may take: 6 MB
constexpr std::size_t kMostStepsWaiting = 4;  // to be reported
constexpr Seconds kLeastHandover{1e-6};       // a shorter one counts for nothing
constexpr double kLeastWaiting = 0.01;        // least share of waiting to know what it draws
constexpr std::uint64_t kLeastChanges = 3;    // least clock changes to know how long one takes
constexpr double kSettled = 1.5;              // times of the median clock change, after which it has taken hold

}  // namespace

StragglerNotice straggler_notice(int id, Seconds delay, double degree) {
  if (!(delay >= Seconds(0)) || !(degree >= 1.0)) {
    throw UsageError("a straggler's delay is at least 0 s and its degree at least 1");
  }
  StragglerNotice notice;
  if (id >= 0) {
    notice.straggler = id;
  } else {
    notice.straggler = std::string("outside");
  }
  notice.degree = degree;
  notice.delay = delay;
  return notice;
}

Session::Session(SessionOptions options, SessionGpu gpu)
    : options_(std::move(options)),
      clocks_(gpu.clocks),
      held_back_(std::move(gpu.held_back)),
      history_(std::clamp(kMostSamples * options_.sampling_period, kLeastHistory, kMostHistory)),
      sampler_({gpu.meter}, {options_.sampling_period, history_, most_cost_at(options_.sampling_period)}) {
  check_options(options_);
  if (gpu.sink) {
    ClockController::Options controller = options_.controller;
    controller.on_change = [this](const std::string& failure) {
      notice(failure.empty() ? "clocks are set again" : "clocks are at their default, training goes on: " + failure);
    };
    controller_ = std::make_unique<ClockController>(std::move(gpu.sink), std::move(controller));
  }
  own_rank_ = options_.rank;
  for (const Megahertz clock : clocks_) own_rank_.clocks_mhz.push_back(static_cast<int>(std::lround(clock.value())));
  // Names that everybody uses are known before the first step.
  for (const char* name : {"forward", "backward"}) (void)types_.number_of(name);
  if (has_server()) {
    const std::string& registration = options_.registration_token;
    reporting_.emplace(options_.server, options_.job.token, Seconds(0), options_.ca_file,
                       registration.empty() ? default_registration_token() : registration);
    listening_.emplace(options_.server, options_.job.token, kSchedulePoll, options_.ca_file);
  }
  if (options_.given) {
    take(options_.given->schedule, options_.given->power_limit);
  } else if (options_.profile && controller_ && !clocks_.empty()) {
    profile_again();
  }
  reporter_ = std::thread([this] { report(); });
  if (has_server()) listener_ = std::thread([this] { listen(); });
}

Session::~Session() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (listening_) listening_->interrupt();
  timeline_.reset();  // which asks the controller
  if (controller_) controller_->release();
  if (listener_.joinable()) listener_.join();
  {
    std::unique_lock lock(mutex_);
    listener_gone_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, duration_of(kFarewell), [this] { return reporter_gone_; });
  }
  if (reporting_) reporting_->interrupt();
  reporter_.join();
  controller_.reset();
  tell_savings();
}

void Session::notice(const std::string& words) {
  if (!options_.notice) return;
  const std::scoped_lock lock(noticing_);
  (void)contained("a session's notice", [&] { options_.notice(words); });  // the program's own function, in our threads
}

// --- the training thread ---------------------------------------------------------------------------------------------

void Session::adopt_schedule() {
  // The lock is held for moments only. If it is taken just now, the next step adopts the schedule.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return guard_step();
  // Ranks that have agreed on an order run it by its newest clocks, even if a schedule in another one has come
  // meanwhile.
  const auto fits = [this](const auto& schedule) { return schedule && schedule->plan.order == order_in_use_; };
  if (!in_order_ || !newest_ || fits(newest_)) {
    schedule_ = newest_;
  } else if (!fits(schedule_)) {
    schedule_ = in_order_;
  }
  const std::int64_t before = guard_.version();
  guard_step();
  const RankSchedule none;
  const RankSchedule& plan = had_clocks_ ? schedule_->plan : none;
  state_.schedule_version = plan.version;
  state_.schedule_point = plan.point;
  state_.planned_time = plan.iteration_time;
  state_.planned_energy = plan.iteration_energy;
  state_.straggler_power = plan.straggler_power;
  state_.reconfiguring = plan.report_steps;
  state_.order = order_in_use_;
  if (guard_.version() != before) state_.promise = PromiseVerdict::kUnknown;
  profiler_in_use_ = profiler_;
  probe_in_use_ = probe_;
  watch_.adopt(newest_times_, step_count_);
}

void Session::step_begin() {
  if (in_step_) throw UsageError("step_begin: the step before has not ended; call step_end first");
  in_step_ = true;
  const bool had_clocks = sets_clocks_;
  adopt_schedule();
  if (sets_clocks_) {
    for (std::size_t type = 0; type < types_.count(); ++type) {
      const std::vector<std::uint32_t>& clocks = schedule_->clocks_mhz[type];
      upcoming_[type] = {clocks.data(), clocks.data() + clocks.size()};
    }
  }
  position_ = 0;
  step_.spans.clear();
  asked_.clear();
  led_ = {};
  const bool swept = sweeps();
  probe_request_ = probe_in_use_ ? probe_in_use_->step_begin() : std::nullopt;
  sweep_clock_ = profiler_in_use_ && !probe_request_ ? profiler_in_use_->step_begin() : std::nullopt;
  if (timeline_) begin_timeline(swept || had_clocks);
  begin_watching_stream();
  begin_wanted();
  if (controller_ && sweep_clock_) controller_->set(*sweep_clock_);
  // Nobody asked for the clock that the sweep set last; a schedule sets its own.
  const bool not_asked_for = swept || (had_clocks && !sets_clocks_);
  if (controller_ && not_asked_for && !sweeps()) controller_->release();
  if (!sets_clocks_) ask_for(0);
  set_power_limit();
  step_.begin = monotonic_now();
}

// Takes the clock of the next computation of that type from the schedule; nothing where none is to be asked for.
std::optional<Megahertz> Session::next_clock(std::string_view type) {
  if (sweeps() || !sets_clocks_ || !controller_) return std::nullopt;
  const auto number = types_.find(type);
  if (!number) return std::nullopt;  // the schedule has no such computation
  Upcoming& upcoming = upcoming_[*number];
  if (upcoming.next == upcoming.end || given_up_late()) return std::nullopt;
  const std::uint32_t mhz = *upcoming.next++;
  ++position_;
  if (mhz > 0) ask_for(mhz);
  return mhz > 0 ? std::optional(Megahertz(mhz)) : std::nullopt;
}

void Session::set_speed(std::string_view type) {
  if (const auto clock = next_clock(type)) controller_->set(*clock);
}

void Session::set_next_speed() {
  if (sets_clocks_ && position_ < schedule_->types.size()) set_speed(types_.name(schedule_->types[position_]));
}

std::uint16_t Session::open(std::string_view type) {
  if (open_type_) throw UsageError(fmt::format("begin {}: {} has not ended", type, types_.name(*open_type_)));
  const auto known = types_.find(type);
  open_type_ = known ? *known : types_.number_of(type);
  return *open_type_;
}

void Session::begin(std::string_view type) {
  const std::uint16_t number = open(type);
  if (controller_ && is_probed(step_.spans.size())) controller_->set(probe_request_->clock);
  step_.spans.push_back({number, monotonic_now(), 0});
  note_asked(step_.spans.back());
  led_ = led_by(number);
  if (led_.mhz > 0) controller_->set_at(Megahertz(led_.mhz), step_.spans.back().begin + led_.later);
}

void Session::close(std::string_view type) {
  if (!open_type_ || types_.name(*open_type_) != type) {
    throw UsageError(fmt::format("end {}: it has not begun", type));
  }
  open_type_.reset();
}

void Session::end(std::string_view type) {
  const Nanoseconds now = monotonic_now();
  close(type);
  step_.spans.back().end = now;
}

void Session::step_end() {
  const Nanoseconds now = monotonic_now();
  if (!in_step_) throw UsageError("step_end: no step has begun");
  if (open_type_) throw UsageError(fmt::format("step_end: {} has not ended", types_.name(*open_type_)));
  in_step_ = false;
  step_.end = now;
  const Nanoseconds begin = step_.begin;
  ++step_count_;
  bool news = false;
  std::optional<StepReport> executed;
  std::optional<OrderReport> other;
  std::optional<PromiseReport> promise = promise_report(begin, now);
  const bool measured = !timeline_ || fetch_moments();
  if (!sweeps() && has_server()) watch_pace();
  end_watching_stream();
  const Computing computing = promise && promise->slower && measured ? compare_with_sweep() : Computing();
  if (sweeps()) {
    step_.in_effect = measured ? controller_->held_since(probe_request_ ? probe_request_->clock : *sweep_clock_) : 0;
    if (measured) executed = swept_step();
    const std::size_t usual = step_.spans.size();
    StepRecord step = std::exchange(step_, {});
    probe_request_ ? probe_in_use_->step_end(std::move(step)) : profiler_in_use_->step_end(std::move(step));
    step_.spans.reserve(usual);
    news = true;
  } else {
    executed = measured && schedule_ && schedule_->plan.report_steps ? executed_step() : wanted_step();
    if (has_server()) other = other_order();
  }
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) {
      state_.steps = static_cast<std::uint64_t>(step_count_);
      state_.last_step = to_seconds(now - begin) * options_.time_scale;
      if (executed) {
        if (steps_.size() == kMostStepsWaiting) steps_.pop_front();
        steps_.push_back(std::move(*executed));
        news = true;
      }
      if (promise) {
        if (promise->slower || had_clocks_) {
          state_.promise = promise->slower ? PromiseVerdict::kSlower : PromiseVerdict::kKept;
        }
        state_.at_maximum = promise->at_maximum;
        if (promises_.size() == kMostStepsWaiting) promises_.pop_front();
        promises_.push_back({*promise, stretches_.take(), computing});
        news = true;
      }
      news = hand_over_pace() || news;
      if (other) {
        other_order_ = std::move(other);
        news = true;
      }
    }
  }
  if (news) changed_.notify_all();
}

bool Session::measures_step() const { return sweeps() || (sets_clocks_ && schedule_->plan.report_steps); }

// The step that has just ended, where the server wants it and it ran just what the schedule says. The times are those
// of this machine's clock; other ranks' may be set differently.
std::optional<StepReport> Session::executed_step() const {
  if (!sets_clocks_ || !schedule_->plan.report_steps || !ran_as_planned()) return std::nullopt;
  return times_of_step(schedule_->plan.version);
}

// The same of a step of the sweep, for handovers. Only the first pipeline's times tell something, but all ranks ask.
std::optional<StepReport> Session::swept_step() const {
  if (!finds_handovers_ || !has_server() || !sweep_clock_ || options_.job.stages < 2) return std::nullopt;
  const bool measured = std::any_of(step_.spans.begin(), step_.spans.end(), [this](const InstructionSpan& span) {
    const std::string& name = types_.name(span.type);
    return name.starts_with("p2p") || name.starts_with("receive");
  });
  if (measured) return std::nullopt;
  if (options_.rank.dp_rank != 0 || options_.rank.tp_rank != 0)
    return StepReport{options_.rank.rank, 0, step_count_, {}, {}};
  return times_of_step(0);
}

StepReport Session::times_of_step(std::int64_t version) const {
  StepReport report{options_.rank.rank, version, step_count_, {}, {}};
  report.begin.reserve(step_.spans.size());
  report.end.reserve(step_.spans.size());
  for (const InstructionSpan& span : step_.spans) {
    // Operations of constant time have no clock of their own.
    if (version > 0 ? schedule_->clocks_mhz[span.type].empty() : !is_computation(types_.name(span.type))) continue;
    report.begin.push_back(to_seconds(span.begin - step_.begin) * options_.time_scale);
    report.end.push_back(to_seconds(span.end - step_.begin) * options_.time_scale);
  }
  return report;
}

// --- the reporter ----------------------------------------------------------------------------------------------------

CounterNews Session::counter_news(Nanoseconds after) {
  CounterNews news;
  for (const PowerSample& sample : sampler_.changes_since(0, after))
    news.changes.push_back({sample.time, sample.energy});
  // Energy up to a moment is known once the counter has changed twice since (Sampler::energy_between). A counter that
  // does not move any more must not hold the sweep up for ever.
  const Nanoseconds given_up = monotonic_now() - to_nanoseconds(kLongestSettling);
  const std::size_t count = news.changes.size();
  const Nanoseconds last_but_one = count > 1 ? news.changes[count - 2].time : count == 1 ? after : 0;
  news.settled = std::max(given_up, last_but_one);
  news.whole = [this](Nanoseconds begin, Nanoseconds end) { return counted_whole(begin, end); };
  return news;
}

// Whether the counter told the energy from one moment to another. Of a long step only the end can be checked, since the
// sampler remembers no more.
bool Session::counted_whole(Nanoseconds begin, Nanoseconds end) const {
  begin = std::max(begin, monotonic_now() - to_nanoseconds(history_ - kLongestSettling));
  if (begin >= end) return true;
  const IntervalEnergy counted = sampler_.energy_between(0, begin, end);
  return counted.complete && counted.source != EnergySource::kFrozenCounter;
}

void Session::take(const ProfiledClock& clock, const std::shared_ptr<OnlineProfiler>& profiler) {
  if (!clock.complete) {
    notice(fmt::format("the energy at {:.0f} MHz was not told whole, {}", clock.clock.value(),
                       clock.again ? "it is measured again" : "this clock is left out of the profile"));
    return;
  }
  MeasurementReport report;
  report.rank = options_.rank.rank;
  report.measurements = measurements_of(
      clock, [this](std::size_t type) { return types_.name(type); }, options_.time_scale);
  const double weight = clock.activity.waiting_share;
  const Watts waiting = clock.activity.waiting / options_.time_scale;
  const bool plausible = waiting >= Watts(kLeastWaitingWatts) && waiting <= Watts(kMostWaitingWatts);
  if (!report.measurements.empty() && weight >= kLeastWaiting && plausible) {
    report.measurements.push_back({"waiting", clock.clock, Seconds(1), waiting * Seconds(1), 1});
  }
  const std::scoped_lock lock(mutex_);
  if (profiler != profiler_) return;  // the clock is of a sweep that has been given up
  if (remeasuring_) {
    for (const InstructionMeasurement& one : report.measurements) {
      const auto& wanted = remeasuring_->instructions;
      if (std::find(wanted.begin(), wanted.end(), common_name(one.instruction)) != wanted.end()) {
        remeasuring_->measured.push_back(one);
      }
    }
    return;
  }
  waiting_sum_ += weight * waiting.value();
  waiting_weight_ += weight;
  if (report.measurements.empty()) return;
  slowest_measured_ = reports_.empty() ? clock.clock : std::min(slowest_measured_, clock.clock);
  report.sequence = next_sequence_++;
  report.begins_sweep = reports_.empty();
  reports_.push_back(std::move(report));
}

void Session::evaluate() {
  if (outran_device_.load() && !std::exchange(told_of_outrunning_, true)) {
    notice("a step is not measured: step_end was called before the GPU had done its computations; wait for it first");
  }
  follow_order();
  std::shared_ptr<OnlineProfiler> profiler;
  {
    const std::scoped_lock lock(mutex_);
    profiler = profiler_;
  }
  if (!profiler) return;
  for (const ProfiledClock& clock :
       profiler->evaluate([this](Nanoseconds after) { return counter_news(after); }, types_.count())) {
    take(clock, profiler);
  }
  const SweepProgress progress = profiler->progress();
  const std::scoped_lock lock(mutex_);
  if (profiler != profiler_) return;
  if (remeasuring_) {
    state_.sweep = progress;
    state_.sweep.finished = progress.finished || state_.steps > remeasuring_->most_steps;
    if (state_.sweep.finished) finish_remeasuring();
    return;
  }
  if (progress.finished && !probe_ && !reports_.empty() && slowest_measured_ < clocks_.front()) {
    probe_ = std::make_shared<ChangeProbe>(clocks_.front(), slowest_measured_);
  }
  state_.sweep = progress;
  state_.sweep.finished = progress.finished && (!probe_ || probe_->finished());
  if (!state_.sweep.finished) return;
  if (auto constant = constant_measurements(); !constant.empty()) {
    reports_.push_back({options_.rank.rank, next_sequence_++, std::move(constant)});
  }
  newest_times_ = measured_times();
  profiler_.reset();
  probe_.reset();
  finish_due_ = !reports_.empty();
}

// Under the mutex.
std::shared_ptr<const ComputingTimes> Session::measured_times() const {
  const auto times = std::make_shared<ComputingTimes>();
  const Seconds settle = options_.settle / options_.time_scale;
  times->set_settling(settle, Seconds(0));
  for (const MeasurementReport& report : reports_) {
    for (const InstructionMeasurement& one : report.measurements) {
      const Seconds time = one.time / options_.time_scale;
      if (one.instruction == "clock_change") {
        times->set_settling(std::min(settle, kSettled * time), std::min(settle, time));
      } else if (const auto type = types_.find(common_name(one.instruction))) {
        const std::string_view name(one.instruction);
        const PaceOf kind = value_named<PaceOf>(name.substr(0, name.find('.'))).value_or(PaceOf::kComputing);
        kind == PaceOf::kComputing ? times->add(*type, one.clock, time, microbatches_of(name))
                                   : times->add_transfer(*type, kind, time);
      }
    }
  }
  return times;
}

// What belongs to no clock of the sweep. Under the mutex.
std::vector<InstructionMeasurement> Session::constant_measurements() const {
  std::vector<InstructionMeasurement> all;
  if (reports_.empty()) return all;
  if (const auto time = change_time()) {
    // The energy has to be above zero, and counts for nothing.
    all.push_back({"clock_change", Megahertz(0), *time * options_.time_scale, Joules(1.0), 1});
  }
  // The GPU waits meanwhile, and draws by its clock what it draws then.
  const Watts waiting(waiting_weight_ > 0.0 ? waiting_sum_ / waiting_weight_ : kLeastWaitingWatts);
  const auto add = [&](const char* name, Seconds time, std::int64_t count) {
    if (count == 0 || time < kLeastHandover) return;
    all.push_back({name, clocks_.front(), time, waiting * time, count});
  };
  add("receive", handovers_.receive, handovers_.receives);
  add("receive_back", handovers_.receive_back, handovers_.receives_back);
  return all;
}

// What a clock change took in this sweep: until computations showed it or, where they did not, until the driver had
// answered (the median, since a busy machine makes some late). Under the mutex.
std::optional<Seconds> Session::change_time() const {
  if (reports_.empty()) return std::nullopt;
  if (const auto shown = probe_ ? probe_->delay() : std::nullopt; shown && *shown > Seconds(0)) return shown;
  const AgeHistogram ages = controller_->state().ages;
  if (ages.count() < kLeastChanges) return std::nullopt;
  return to_seconds(ages.percentile(0.5));
}

// --- any thread ------------------------------------------------------------------------------------------------------

void Session::set_straggler(StragglerNotice notice) {
  if (!has_server()) throw UsageError("set_straggler: this session has no server to tell");
  {
    const std::scoped_lock lock(mutex_);
    stragglers_.push_back(std::move(notice));
  }
  changed_.notify_all();
}

void Session::set_memory(std::int64_t microbatch_bytes, std::int64_t activation_bytes) {
  if (microbatch_bytes < 0 || activation_bytes < 0) throw UsageError("set_memory: bytes are at least 0");
  {
    const std::scoped_lock lock(mutex_);
    if (own_rank_.microbatch_bytes == microbatch_bytes && own_rank_.activation_bytes == activation_bytes) return;
    own_rank_.microbatch_bytes = microbatch_bytes;
    own_rank_.activation_bytes = activation_bytes;
    joined_ = false;
  }
  changed_.notify_all();
}

void Session::profile_again() {
  if (!controller_ || clocks_.empty()) throw UsageError("there are no clocks to profile");
  OnlineProfiler::Options sweep = options_.sweep;
  sweep.settle = to_nanoseconds(options_.settle / options_.time_scale);
  sweep.least_readings = OnlineProfiler::kEnoughReadings;
  auto profiler = std::make_shared<OnlineProfiler>(clocks_, sweep);
  const std::scoped_lock lock(mutex_);
  state_.sweep = profiler->progress();
  profiler_ = std::move(profiler);
  probe_.reset();
  remeasuring_.reset();
  newest_times_.reset();
  reports_.clear();
  handovers_ = {};
  waiting_sum_ = waiting_weight_ = 0.0;
  finish_due_ = false;
}

SessionState Session::state() const {
  const std::scoped_lock lock(mutex_);
  SessionState state = state_;
  state.server_reachable = reachable_;
  state.waiting_power = Watts(waiting_weight_ > 0.0 ? waiting_sum_ / waiting_weight_ : 0.0);
  if (profiler_) {
    state.phase = SessionPhase::kProfiling;
  } else if (state.schedule_version > 0) {
    state.phase = SessionPhase::kRunning;
  } else {
    state.phase = has_plan_to_wait_for() ? SessionPhase::kWaiting : SessionPhase::kIdle;
  }
  if (controller_) state.clocks = controller_->state();
  state.clock_age_p50 = to_seconds(state.clocks.ages.percentile(0.5));
  state.clock_age_p99 = to_seconds(state.clocks.ages.percentile(0.99));
  return state;
}

std::vector<InstructionMeasurement> Session::measurements() const {
  const std::scoped_lock lock(mutex_);
  std::vector<InstructionMeasurement> all;
  for (const MeasurementReport& report : reports_) {
    all.insert(all.end(), report.measurements.begin(), report.measurements.end());
  }
  return all;
}

std::string Session::profile_csv() const {
  std::vector<InstructionMeasurement> all = measurements();
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.instruction < b.instruction; });
  std::string csv = "stage,instruction,frequency,time,energy\n";
  for (const InstructionMeasurement& one : all) {
    csv += fmt::format("{},{},{:.0f},{:.7g},{:.7g}\n", options_.rank.pp_rank, one.instruction, one.clock.value(),
                       one.time.value(), one.energy.value());
  }
  return csv;
}

std::vector<ScheduledComputation> Session::schedule() const {
  const std::scoped_lock lock(mutex_);
  return newest_ ? newest_->plan.computations : std::vector<ScheduledComputation>();
}

}  // namespace flyball
