// What a session's own threads say to the planning server and hear from it. The reporter sends what the server does not
// know yet, one thing at a time, reports before everything else. The listener asks for the next schedule by long
// polling. After any failure the rank joins again, since a server that was restarted may not know it, and reports are
// numbered above those that the server has.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/contain.h"
#include "base/error.h"
#include "base/monotonic_time.h"
#include "base/utf8.h"
#include "base/wall_clock.h"
#include "client/clock_sinks.h"
#include "client/session_schedule.h"

namespace flyball {
namespace {

constexpr Seconds kFirstRetry{0.1};  // of the server
constexpr Seconds kLongestRetry{3.0};
constexpr Seconds kToldAfter{2.0};                          // that a rank cannot profile itself
constexpr auto kLookAgain = std::chrono::milliseconds(50);  // while the sweep goes on

// The guard gives up what is surely too long, so that noise may leave a plan in force that is longer than promised.
bool is_within_promise(const PromiseReport& report, const RankSchedule& schedule) {
  const double ratio = schedule.allowed_time / schedule.max_clock_time;
  return report.time <= (1.0 + kPromiseTolerance) * ratio * report.at_maximum;
}

std::string words_of_kept(const PromiseReport& report) {
  std::string words = fmt::format("the plan keeps its promise: iterations take {:.4g} s, at maximum clocks {:.4g} s",
                                  report.time.value(), report.at_maximum.value());
  if (const RankSavings& savings = report.savings; savings.iterations > 0) {
    const auto count = static_cast<double>(savings.iterations);
    words += fmt::format("; this GPU takes {:.4g} J for one, at maximum clocks {:.4g} J",
                         savings.energy.value() / count, savings.energy_at_maximum.value() / count);
  }
  return words;
}

// `next` is what becomes of the plan.
std::string words_of_broken(const PromiseReport& report, std::string_view next) {
  const std::string why = report.cause.empty() ? "" : "; " + report.cause;
  if (report.at_maximum == Seconds(0)) {
    return fmt::format(
        "iterations by the plan take {:.4g} s, longer than promised inside the limits on power; it stays in force, and "
        "{}{}",
        report.time.value(), next, why);
  }
  return fmt::format(
      "iterations by the plan take {:.4g} s, longer than promised; at maximum clocks they take {:.4g} s: clocks are at "
      "their default, and {}{}",
      report.time.value(), report.at_maximum.value(), next, why);
}

std::string type_name(const ScheduledComputation& computation) {
  if (computation.chunk == 0) return computation.instruction;
  return fmt::format("{}.{}", computation.instruction, computation.chunk);
}

// In one line, for logs: errors say in a second one how to mend them.
std::string cause_text(std::string words) {
  for (std::size_t end = 0; (end = words.find('\n', end)) != std::string::npos;) {
    const std::size_t next = words.find_first_not_of(" \n", end);
    words.replace(end, std::min(next, words.size()) - end, "; ");
  }
  return std::string(cut_between_characters(words, kLongestCause));
}

// A server that does not answer, or is of an earlier version, is not told.
void tell_unprofiled(const SessionOptions& options, const std::string& cause) {
  RankRequest rank = options.rank;
  rank.unprofiled_cause = cause_text(cause);
  rank.unprofiled_since = Seconds(now_seconds());
  try {
    const std::string& registration = options.registration_token;
    PlanServer(options.server, options.job.token, Seconds(0), options.ca_file,
               registration.empty() ? default_registration_token() : registration)
        .join(options.job, rank);
  } catch (const Error&) {
    // As above: what the caller has to report is worse.
  }
}

}  // namespace

SessionGpu open_session_gpu(const SessionOptions& options) {
  try {
    return open_session_gpu(options.gpu);
  } catch (const SystemError& error) {
    if (!options.server.empty()) tell_unprofiled(options, fmt::format("its GPU cannot be used: {}", error.what()));
    throw;
  }
}

// A message that the server calls bad is told to the user and dropped. Sent again, it would be refused again, and would
// hold up all that follows.
template <class Send>
void Session::send_or_drop(Send send) {
  try {
    send();
  } catch (const ServerRefusal& refusal) {
    if (refusal.status() != 400 && refusal.status() != 422) throw;
    notice(std::string("the planning server does not take this, it is left out: ") + refusal.what());
  }
}

// A server of an earlier version refuses what it does not know. What `leave_out` leaves of a message, if it leaves
// anything out, is then sent alone.
template <class Send, class LeaveOut>
void Session::send_or_less(Send send, LeaveOut leave_out) {
  send_or_drop([&] {
    try {
      send();
    } catch (const ServerRefusal& refusal) {
      if (refusal.status() != 400 || !leave_out()) throw;
      send();
    }
  });
}

// A server of an earlier version knows nothing of memory, of ranks that cannot measure themselves, or of clocks ahead.
// It plans with changes that come late.
RankRegistered Session::join(const RankRequest& rank) {
  try {
    return reporting_->join(options_.job, rank);
  } catch (const ServerRefusal& refusal) {
    JobRequest job = options_.job;
    job.clocks_ahead = false;
    RankRequest less = options_.rank;
    less.clocks_mhz = rank.clocks_mhz;
    if (refusal.status() != 400 || (rank == less && !options_.job.clocks_ahead)) throw;
    return reporting_->join(job, less);
  }
}

// Tells the server what it does not know yet. Returns false if nothing was left to tell.
bool Session::talk() {
  PlanServer& server = *reporting_;
  std::unique_lock lock(mutex_);
  if (!joined_) {
    const RankRequest rank = own_rank_;
    lock.unlock();
    const RankRegistered registered = join(rank);
    lock.lock();
    joined_ = rank == own_rank_;  // it may know more of itself by now
    knows_own_names_ = true;
    // A server that has forgotten this rank has forgotten that it had finished, too.
    if (!registered.profiled && !profiler_ && !reports_.empty()) finish_due_ = true;
    // The server may have reports already: of this session from before the server was away, or of a process that had
    // this rank and died. The new reports' numbers must then be above those.
    acknowledged_ = registered.last_sequence;
    if (!acknowledged_own_ || reports_.empty()) {
      next_sequence_ = std::max(next_sequence_, acknowledged_ + 1 + std::ssize(reports_));
      std::int64_t sequence = next_sequence_ - std::ssize(reports_);
      for (MeasurementReport& report : reports_) report.sequence = sequence++;
    }
    for (PaceNews& one : paces_) one.due = one.report.has_value();  // which the server may have forgotten
    // A server that did not know this rank counts its schedules anew.
    if (registered.created) heard_version_ = followed_order_ = 0;
    lock.unlock();
    changed_.notify_all();
    return true;
  }
  const auto unsent = std::find_if(reports_.begin(), reports_.end(),
                                   [&](const MeasurementReport& one) { return one.sequence > acknowledged_; });
  if (unsent != reports_.end()) {
    MeasurementReport report = *unsent;
    // A server that has no reports has nothing to forget.
    report.begins_sweep = report.begins_sweep && acknowledged_ >= 0;
    lock.unlock();
    const auto leave_out = [&report] {
      return std::erase_if(report.measurements, [](const auto& one) { return is_own_name(one.instruction); }) > 0;
    };
    if (!knows_own_names_) leave_out();
    send_or_less([&] { (void)server.send(options_.job.id, report); },
                 [&] { return leave_out() && std::exchange(knows_own_names_, false); });
    lock.lock();
    acknowledged_ = report.sequence;
    acknowledged_own_ = true;
    return true;
  }
  if (finish_due_) {
    finish_due_ = false;
    lock.unlock();
    try {
      server.finish_profiling(options_.job.id, options_.rank.rank);
    } catch (const Error&) {
      lock.lock();
      finish_due_ = finish_due_ || !profiler_;  // unless a new sweep has begun
      throw;
    }
    return true;
  }
  for (PaceNews& one : paces_) {
    if (!std::exchange(one.due, false)) continue;
    const PaceReport report = *one.report;
    lock.unlock();
    tell_pace(report);
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
  if (other_order_) {
    const OrderReport order = *std::exchange(other_order_, std::nullopt);
    const bool first = std::exchange(told_of_order_, order.version) != order.version;
    lock.unlock();
    if (first) {
      notice("this rank does not run its computations in the order of its schedule; the planning server is told");
    }
    send_or_drop([&] { server.send(options_.job.id, order); });
    return true;
  }
  if (!promises_.empty()) {
    const PromiseReport report = taken_promise(lock);
    send_or_drop([&] { server.send(options_.job.id, report); });
    return true;
  }
  if (!steps_.empty()) {
    const StepReport step = std::move(steps_.front());
    steps_.pop_front();
    lock.unlock();
    return send_step(step);
  }
  return false;
}

bool Session::send_step(const StepReport& step) {
  if (step.version > 0) {
    // A server of an earlier version does not know whose clock tells the times.
    StepReport sent = step;
    send_or_less([&] { (void)reporting_->send(options_.job.id, sent); },
                 [&] { return std::exchange(sent.clock, StepClock::kHost) != StepClock::kHost; });
    return true;
  }
  try {
    const StepTaken taken = reporting_->send(options_.job.id, step);
    const std::scoped_lock lock(mutex_);
    handovers_ = taken;
  } catch (const ServerRefusal& refusal) {
    if (refusal.status() != 400) throw;
    finds_handovers_ = false;  // a server of an earlier version knows nothing of them
  }
  return true;
}

// A server of an earlier version knows nothing of paces, or nothing of drifts.
void Session::send_pace(PaceReport report) {
  try {
    send_or_less([&] { reporting_->send(options_.job.id, report); },
                 [&report] {
                   report.step = 0;
                   return !std::exchange(report.operations, {}).empty();
                 });
  } catch (const ServerRefusal& refusal) {
    if (refusal.status() != 404) throw;
  }
}

// The last that the server hears of this rank, if it answers.
void Session::take_leave() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return listener_gone_; });
  const bool known = reachable_;
  lock.unlock();
  try {
    if (known) reporting_->end(options_.job.id, options_.rank.rank);
  } catch (const Error&) {
    // The server will find that this rank is silent.
  }
  lock.lock();
  reporter_gone_ = true;
  lock.unlock();
  changed_.notify_all();
}

// The oldest news of the promise, of which the user is told where they are new. Unlocks.
PromiseReport Session::taken_promise(std::unique_lock<std::mutex>& lock) {
  const PromiseNews news = promises_.front();
  promises_.pop_front();
  PromiseReport report = news.report;
  // Of a server's plans only trouble is told here: the server has the rest for whoever asks.
  const bool worth = report.slower || (options_.given && is_within_promise(report, options_.given->schedule));
  const bool first = worth && is_news(report);
  lock.unlock();
  if (report.slower) report.cause = cut_between_characters(cause_of(news.computing), kLongestCause);
  report.session = session_number_;
  if (first && report.slower) {
    notice(words_of_broken(report, options_.given ? "the plan is given up" : "the planning server is told"));
  }
  count_savings(report, news.run);  // which waits for the counter
  if (first && !report.slower) notice(words_of_kept(report));
  return report;
}

// Whether the user has not been told as much of that version before; from now on they have. Under the mutex.
bool Session::is_news(const PromiseReport& report) {
  const std::pair now(report.version, report.slower ? PromiseVerdict::kSlower : PromiseVerdict::kKept);
  return std::exchange(told_of_promise_, now) != now;
}

// A plan that is given up while the server is away waits to be reported, but the user need not wait.
void Session::tell_unreported() {
  std::unique_lock lock(mutex_);
  const auto broken =
      std::find_if(promises_.begin(), promises_.end(), [](const auto& one) { return one.report.slower; });
  if (reachable_ || broken == promises_.end() || !is_news(broken->report)) return;
  PromiseNews news = *broken;
  lock.unlock();
  news.report.cause = cut_between_characters(cause_of(news.computing), kLongestCause);
  notice(words_of_broken(news.report, "the planning server will be told when it answers"));
}

// Why there is no sweep, or it does not go on, and what would help; empty where it does, or is over. Under the mutex.
std::string Session::why_unprofiled() const {
  if (profiler_) {
    const ClockControllerState clocks = controller_->state();
    if (clocks.working) return {};
    const bool says = clocks.failure.find("to mend") != std::string::npos;
    return fmt::format("its clocks are not set: {}{}", clocks.failure,
                       says ? "" : "; ask `flyball devices` whether this user, or the agent of the node, may set them");
  }
  if (!reports_.empty()) return {};
  if (!controller_) return "its session sets no clocks; open it with clocks \"device\" or an agent's address";
  if (clocks_.empty()) return "its GPU has no clocks to choose from, as the driver says; ask `flyball devices`";
  if (state_.sweep.finished) {
    return "its GPU's energy counter told no clock's energy whole; see what `flyball devices` says of it, then call "
           "profile_again";
  }
  return options_.profile ? "" : "its session was opened with profile off; leave that out, or call profile_again";
}

// What is over soon is not told.
void Session::note_unprofiled() {
  const std::scoped_lock lock(mutex_);
  const std::string why = why_unprofiled();
  const Nanoseconds now = monotonic_now();
  if (why.empty() || unprofiled_since_ == 0) unprofiled_since_ = why.empty() ? 0 : now;
  const Seconds since = to_seconds(now - unprofiled_since_);
  const bool told = !own_rank_.unprofiled_cause.empty();
  if (told == !why.empty() || (!told && since < kToldAfter)) return;
  own_rank_.unprofiled_cause = cause_text(why);
  own_rank_.unprofiled_since = told ? Seconds(0) : Seconds(now_seconds()) - since;
  joined_ = false;
}

void Session::report() {
  Nanoseconds next_try = 0;
  Seconds retry = kFirstRetry;
  while (true) {
    (void)contained("a session's reporter", [this] { evaluate(); });
    if (reporting_) note_unprofiled();
    bool more = false;
    if (reporting_ && monotonic_now() >= next_try) {
      // The thread's body: failures are reported once and tried again, and never reach the training.
      try {
        more = talk();
        retry = kFirstRetry;
        if (more) server_answered();
      } catch (const std::exception& error) {
        server_failed(error.what());
        next_try = monotonic_now() + to_nanoseconds(retry);
        retry = std::min(retry * 2.0, kLongestRetry);
      }
    }
    if (reporting_) (void)contained("a session's reporter", [this] { tell_unreported(); });
    std::unique_lock lock(mutex_);
    if (stop_) {
      lock.unlock();
      return take_leave();
    }
    if (!reporting_ && !promises_.empty()) {
      (void)contained("a session's reporter", [&] { (void)taken_promise(lock); });
    } else if (!more) {
      changed_.wait_for(lock, kLookAgain);
    }
  }
}

void Session::server_failed(const std::string& words) {
  bool tell = false;
  {
    const std::scoped_lock lock(mutex_);
    if (stop_) return;
    // A server that comes back may have forgotten this rank.
    joined_ = false;
    reachable_ = false;
    tell = !std::exchange(told_of_server_, true);
  }
  if (tell) notice("the planning server cannot be used for now, training goes on: " + words);
}

void Session::server_answered() {
  bool tell = false;
  {
    const std::scoped_lock lock(mutex_);
    reachable_ = true;
    tell = std::exchange(told_of_server_, false);
  }
  if (tell) notice("the planning server answers again");
}

// --- the listener ----------------------------------------------------------------------------------------------------

bool Session::sleep(Seconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, duration_of(time), [&] { return stop_; });
}

void Session::take(RankSchedule plan, std::optional<Watts> power_limit) {
  const auto schedule = std::make_shared<Schedule>();
  schedule->power_limit = power_limit;
  for (const ScheduledComputation& computation : plan.computations) {
    const std::uint16_t type = types_.number_of(type_name(computation));
    schedule->clocks_mhz[type].push_back(static_cast<std::uint32_t>(std::max(0, computation.clock_mhz)));
    schedule->next_clock_after_us[type].push_back(computation.next_clock_after_us);
    schedule->types.push_back(type);
  }
  schedule->plan = std::move(plan);
  const std::scoped_lock lock(mutex_);
  heard_version_ = schedule->plan.version;
  newest_ = schedule;
}

void Session::listen() {
  Seconds retry = kFirstRetry;
  while (true) {
    std::int64_t version = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || joined_; });
      if (stop_) return;
      version = heard_version_;
    }
    // As in the reporter, failures are reported once and tried again, and never reach the training.
    try {
      if (auto plan = listening_->schedule(options_.job.id, options_.rank.rank, version, kSchedulePoll)) {
        take(std::move(*plan));
      }
      retry = kFirstRetry;
      server_answered();
    } catch (const std::exception& error) {
      server_failed(error.what());
      if (!sleep(retry)) return;
      retry = std::min(retry * 2.0, kLongestRetry);
    }
  }
}

}  // namespace flyball
