// One rank of a training job, from its first step to its last: it profiles itself online, reports to the planning
// server, fetches its schedule and realises it, computation by computation (Perseus table 2 and figure 4).
//
// The training thread calls step_begin, set_speed, begin, end and step_end, and never waits: two threads of the session
// talk to the server, and one (ClockController) to the device. Where the server, the agent or the driver fails, the
// session tries again for ever and reports it once. The training then loses nothing but the savings, since clocks are
// at their default. While only the server is away, a schedule that has come stays in force.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/names.h"
#include "base/units.h"
#include "client/change_probe.h"
#include "client/clock_controller.h"
#include "client/device_timeline.h"
#include "client/instruction_types.h"
#include "client/online_profiler.h"
#include "client/plan_server.h"
#include "client/promise_guard.h"
#include "client/savings.h"
#include "client/session_options.h"
#include "client/session_state.h"
#include "client/step_watch.h"
#include "driver/gpu.h"
#include "measure/sampler.h"
#include "wire/job_messages.h"
#include "wire/step_messages.h"

namespace flyball {

inline constexpr Seconds kLongestSettling{3.0};  // how long the session waits for the energy counter
inline constexpr Seconds kFarewell{0.5};         // how long its end waits for the server

// Makes the notice that rank `id`, or, below 0, something outside the job, will take `degree` times its usual time from
// `delay` on. Throws UsageError.
[[nodiscard]] StragglerNotice straggler_notice(int id, Seconds delay, double degree);

// What a session needs of a GPU. open_session_gpu() makes it for a real or a simulated GPU.
struct SessionGpu {
  std::vector<Megahertz> clocks;                  // the clocks that can be set, highest first
  std::unique_ptr<ClockSink> sink;                // sets them; null: they are not set
  Meter meter;                                    // with an energy counter
  std::optional<PowerLimitRange> power_limits{};  // that can be set; none: unknown
  // Returns what holds the device's clock back, in words; empty where nothing does. Throws Error. May be null.
  std::function<std::string()> held_back{};
};

// The energy of a window of steps, as the counter tells it.
struct StepsEnergy {
  Seconds time;
  Joules energy;
  // Whether the counter told all of the energy. If it hung, failed or stood still, the energy is too small or a guess.
  bool complete = true;
  std::string problem;  // why, in words; empty where it is complete
};

// Opens the rank's GPU, as open_session_gpu() of client/clock_sinks.h. Where that fails, the server is told why this
// rank will not profile itself, if it answers within seconds. Throws what that function throws.
[[nodiscard]] SessionGpu open_session_gpu(const SessionOptions& options);

class Session {
 public:
  // Throws UsageError, and what PlanServer's constructor throws.
  Session(SessionOptions options, SessionGpu gpu);
  // Brings clocks back to their default, and tells a server that answers that this rank has ended. Waits for the call
  // to the device that is under way, and for the server at most kFarewell.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The next six are for the training thread. Only step_end, which hands the step over, takes longer than a
  // microsecond. They throw UsageError for names that instructions cannot have, and for calls that do not fit together
  // (end without begin).
  void step_begin();
  void set_speed(std::string_view type);  // sets the clock of the next computation of that type
  void set_next_speed();                  // sets the clock of the next computation of the schedule
  void begin(std::string_view type);
  void end(std::string_view type);
  void step_end();

  // The same for engines that queue their work in a stream and run ahead of the GPU: what a call does is done when the
  // GPU has done all that was queued in the stream before. `stream` is a CUstream or a hipStream_t; null is the default
  // stream of the calling thread's context, which is the GPU's. They cost what queueing an event or a host function
  // costs, some microseconds, and where there is nothing to set or to measure as much as the calls above. The first
  // call finds the driver's library. The GPU must have done a step's computations by step_end() while measures_step()
  // holds: what it has not done is not measured, and a notice says so. They throw DeviceError as StreamLibrary does.
  void set_speed_in(std::string_view type, void* stream);
  void set_next_speed_in(void* stream);
  void begin_in(std::string_view type, void* stream);
  void end_in(std::string_view type, void* stream);

  // For engines that run their computations in the order that they are given (JobRequest::executes_order), from the
  // training thread, between steps. Stages that run different orders lock up. Before each step the engine compares what
  // order_held() returns over all ranks of a pipeline. Where all are equal, every rank passes that to use_order() and
  // runs order_in_use(), and 0 otherwise, for the schedule's own order. None waits.
  [[nodiscard]] std::int64_t order_held();  // of the newest schedule; 0: the schedule's own, or there is none
  // Throws UsageError for what order_held() has not returned last, unless it is 0.
  void use_order(std::int64_t order);
  // Returns what the stage is to run, until the next use_order(); empty for the schedule's own order.
  [[nodiscard]] const std::vector<ScheduledComputation>& order_in_use() const;
  // Returns what it posts before each of them (ScheduledComputation::transfers); empty where the schedule does not say.
  [[nodiscard]] std::vector<std::array<int, 4>> transfers_in_use() const;

  // Whether begin and end must be called when the GPU begins and ends a computation, rather than when its work is
  // queued. This is so during the sweep, and when the server asks for reports of steps. For the training thread,
  // between step_begin and step_end.
  [[nodiscard]] bool measures_step() const;

  // Tells the server how many bytes the activations of one microbatch hold, from its forward to its backward, and how
  // many there are for those of all that this rank holds at once, with a margin left out (RankRequest). Where it may
  // choose the order and no memory_limit was given, it allows as many microbatches as fit. Both 0: not known any more.
  // May be called from any thread, again where it has changed, at the end of the sweep at the latest: otherwise the job
  // is planned twice. Throws UsageError for numbers below 0.
  void set_memory(std::int64_t microbatch_bytes, std::int64_t activation_bytes);

  // Sends a notice in the background. May be called from any thread, like all functions below.
  void set_straggler(StragglerNotice notice);

  // Lets the server find during sweeps how long handovers from other stages take (StepTaken), for engines that cannot
  // tell a transfer from the wait for it. What it finds goes into the profile, unless the engine measures transfers.
  void find_handovers() { finds_handovers_ = true; }

  // Starts the sweep over with the next step. The session drops all earlier measurements at once. When the sweep is
  // over, the server replaces its measurements of the instructions that were measured again, and drops those of waiting
  // even if the sweep has none of its own.
  void profile_again();

  [[nodiscard]] SessionState state() const;
  // Returns what the sweep has measured so far, in the order of the sweep. Clocks of whose energy the counter missed a
  // part are left out.
  [[nodiscard]] std::vector<InstructionMeasurement> measurements() const;
  // Returns the same as a profile that `flyball plan` reads: lines `stage,instruction,frequency,time,energy` (MHz, s,
  // J) with that header, by instruction.
  [[nodiscard]] std::string profile_csv() const;
  // Returns the newest schedule that the server has sent, which is in force from the next step on at the latest; empty
  // where none has come.
  [[nodiscard]] std::vector<ScheduledComputation> schedule() const;

  // window_begin() and window_end() measure the energy of this rank's GPU between the two calls, whatever ran in
  // between. window_end() waits for two periods of the counter. They throw UsageError where no window is open, or where
  // one is open already. A figure that is not complete is also reported as a notice.
  void window_begin();
  [[nodiscard]] StepsEnergy window_end();

 private:
  struct Schedule;

  [[nodiscard]] bool has_server() const { return !options_.server.empty(); }
  [[nodiscard]] bool has_plan_to_wait_for() const { return has_server() || options_.given; }
  [[nodiscard]] CounterNews counter_news(Nanoseconds after);
  [[nodiscard]] bool counted_whole(Nanoseconds begin, Nanoseconds end) const;
  void adopt_schedule();
  [[nodiscard]] std::optional<Megahertz> next_clock(std::string_view type);
  [[nodiscard]] std::uint16_t open(std::string_view type);
  void close(std::string_view type);
  DeviceTimeline& timeline();
  void begin_timeline(bool other_clocks);
  [[nodiscard]] bool fetch_moments();
  [[nodiscard]] bool sweeps() const { return sweep_clock_ || probe_request_; }  // whether this step belongs to a sweep
  // Whether the step's computation of that number is the one at whose beginning the probe asks for its clock.
  [[nodiscard]] bool is_probed(std::size_t computation) const {
    return probe_request_ && probe_request_->computation == computation;
  }
  [[nodiscard]] std::optional<StepReport> executed_step() const;
  [[nodiscard]] std::optional<StepReport> swept_step() const;
  [[nodiscard]] StepReport times_of_step(std::int64_t version) const;
  void begin_wanted();
  [[nodiscard]] bool is_wanted(std::uint16_t type) const;
  void note_wanted(void* stream, std::size_t number);
  [[nodiscard]] std::optional<StepReport> wanted_step();
  [[nodiscard]] std::optional<StepReport> noted_step();
  [[nodiscard]] bool by_plan() const;  // whether the schedule's clocks are for what this step runs
  [[nodiscard]] bool ran_as_planned() const;
  [[nodiscard]] std::optional<OrderReport> other_order();
  void guard_step();
  [[nodiscard]] bool given_up_late();
  void set_power_limit();
  [[nodiscard]] std::optional<PromiseReport> promise_report(Nanoseconds begin, Nanoseconds end);
  // What the computations of a step took, beside what the sweep says.
  struct Computing {
    int slowest = -1;                      // type that took longest by that comparison; below 0: nothing to compare
    double of_type = 0.0;                  // its time over that of the sweep
    double of_all = 0.0;                   // the same of all computations
    PaceOf transfer = PaceOf::kComputing;  // that took longest over the usual; kComputing: none took longer
    double of_transfer = 0.0;              // its time over the usual
  };
  [[nodiscard]] Computing compare_with_sweep() const;
  [[nodiscard]] std::string cause_of(const Computing& computing) const;
  void count_savings(PromiseReport& report, const Stretches::Taken& run);
  [[nodiscard]] static std::int64_t new_session_number();
  void tell_savings();
  [[nodiscard]] PromiseReport taken_promise(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] bool is_news(const PromiseReport& report);
  void tell_unreported();
  void notice(const std::string& words);
  void ask_for(std::uint32_t mhz);
  // The clock of the computation after, which is asked for while one runs.
  struct Led {
    std::uint32_t mhz = 0;  // 0: none
    Nanoseconds later = 0;  // than the one that runs begins
    Nanoseconds by = 0;     // before its end
  };
  [[nodiscard]] Led led_by(std::uint16_t type) const;
  void note_asked(const InstructionSpan& span);
  [[nodiscard]] Megahertz clock_asked(std::uint32_t mhz) const { return mhz > 0 ? Megahertz(mhz) : clocks_.front(); }
  [[nodiscard]] Microbatches planned_microbatches(std::uint16_t type, std::size_t index) const;
  void watch_pace();
  [[nodiscard]] std::vector<DriftedOperation> drifted() const;
  [[nodiscard]] bool hand_over_pace();
  [[nodiscard]] bool tells_pace(std::uint16_t type) const;
  void begin_watching_stream();
  [[nodiscard]] std::optional<std::size_t> watched_moment(std::uint16_t type);
  [[nodiscard]] std::optional<std::size_t> watched_change(std::uint32_t before_mhz);
  [[nodiscard]] std::size_t next_moment(std::size_t count);
  void end_watching_stream();
  void watch_stream();
  [[nodiscard]] bool watch_stream(std::size_t slot);
  [[nodiscard]] Nanoseconds watched_at(std::size_t slot, std::size_t moment) const;
  [[nodiscard]] std::string words_of(PaceOf transfer) const;

  // The reporter's thread: evaluates the sweep and reports to the server.
  void report();
  void evaluate();
  void follow_order();
  void finish_remeasuring();
  void report_anew();
  void take(const ProfiledClock& clock, const std::shared_ptr<OnlineProfiler>& profiler);
  [[nodiscard]] std::optional<Seconds> change_time() const;
  [[nodiscard]] std::vector<InstructionMeasurement> constant_measurements() const;
  [[nodiscard]] std::shared_ptr<const ComputingTimes> measured_times() const;
  template <class Send>
  void send_or_drop(Send send);
  template <class Send, class LeaveOut>
  void send_or_less(Send send, LeaveOut leave_out);
  bool talk();
  void find_cause(PaceReport& report) const;
  void tell_pace(PaceReport report);
  bool send_step(const StepReport& step);
  void send_pace(PaceReport report);
  void take_leave();
  RankRegistered join(const RankRequest& rank);
  [[nodiscard]] std::string why_unprofiled() const;
  void note_unprofiled();
  // The listener's: waits for schedules.
  void listen();
  void take(RankSchedule plan, std::optional<Watts> power_limit = std::nullopt);

  void server_failed(const std::string& words);
  void server_answered();
  // False when the session ends.
  bool sleep(Seconds time);

  const SessionOptions options_;
  const std::vector<Megahertz> clocks_;
  const std::function<std::string()> held_back_;
  const Seconds history_;  // of the counter, that the sampler keeps
  InstructionTypes types_;
  Sampler sampler_;
  std::unique_ptr<ClockController> controller_;

  // The training thread's own.
  std::shared_ptr<const Schedule> schedule_;
  std::shared_ptr<const Schedule> held_;      // as order_held() found it
  std::shared_ptr<const Schedule> in_order_;  // as it was agreed on; null: the schedule's own order
  std::int64_t order_in_use_ = 0;
  bool asks_for_order_ = false;
  bool sets_clocks_ = false;  // in this step, those of its schedule
  bool had_clocks_ = false;   // the same when the step began
  // Steps in a row that were not run as scheduled.
  struct OddSteps {
    std::int64_t version = 0;  // of the schedule
    std::int64_t steps = 0;
    std::int64_t report_at = 3;  // fewer may have been cut short
    Nanoseconds since = 0;
  };
  OddSteps odd_;
  PromiseGuard guard_;
  std::optional<PromiseGuard> trusted_;  // as it was when a schedule was last found to be kept, or first began
  double guarded_ratio_ = 0.0;           // of the schedule that it has adopted
  StepWatch watch_;                      // by the last sweep's profile
  struct Asked {                         // for the clock of a span; in MHz, 0: default
    bool in_stream = false;              // where the host does not know when it began
    std::uint32_t mhz = 0;
    std::uint32_t was_mhz = 0;
    Nanoseconds ago = 0;
  };
  std::vector<Asked> asked_;  // by span
  // A step's spans of which moments are noted on the device's timeline. It may end before the GPU has come to these.
  struct WatchedInStream {
    std::int64_t step = 0;    // 0: none
    std::size_t moments = 0;  // that are noted
    struct Change {
      std::size_t moment;  // in which the clock was asked for
      Megahertz before;
      Nanoseconds led;  // how long before that moment it was asked for already
    };
    struct Span {
      std::uint16_t type;
      Microbatches of;
      Megahertz clock;
      std::optional<Change> change;  // none: that was in an earlier step
      std::size_t begin;             // moment; the next one is its end
    };
    std::vector<Span> spans;
    std::optional<Change> change;  // the last
  };
  std::array<WatchedInStream, 2> in_stream_;  // taken in turn
  WatchedInStream* noting_ = nullptr;         // of this step; null: it is not watched
  std::optional<std::size_t> end_moment_;     // of the span that has begun; none: it is not watched
  bool wants_times_ = false;                  // this step's, by RankSchedule::measured_every
  std::size_t wanted_noted_ = 0;              // its moments that are noted in a stream
  struct NotedStep {                          // of which all are
    StepReport report;                        // with the host's times
    Nanoseconds origin = 0;                   // of its times
    std::vector<std::size_t> spans;           // of its computations, by which their moments are numbered
  };
  std::optional<NotedStep> noted_step_;  // which the GPU has not done yet
  std::uint32_t asked_mhz_ = 0;
  std::uint32_t was_mhz_ = 0;
  Led led_;                 // by the computation that has begun last
  Nanoseconds led_by_ = 0;  // how long before it was due the present clock was asked for
  Nanoseconds asked_at_ = 0;
  Nanoseconds late_at_ = 0;  // when this step's clocks are given up; 0: never
  bool given_up_ = false;    // they were
  Stretches stretches_{to_nanoseconds(0.8 * history_)};
  struct Upcoming {
    const std::uint32_t* next = nullptr;
    const std::uint32_t* end = nullptr;
  };
  std::array<Upcoming, kMostInstructionTypes> upcoming_{};  // per type, the clocks in MHz of what this step still runs
  std::size_t position_ = 0;                                // into the schedule
  StepRecord step_;
  std::int64_t step_count_ = 0;
  std::optional<std::uint16_t> open_type_;
  std::unique_ptr<DeviceTimeline> timeline_;  // null until a stream is given
  std::atomic<bool> outran_device_{false};    // a step ended before the GPU had done what was to be measured
  bool told_of_outrunning_ = false;           // the reporter's own
  bool in_step_ = false;
  std::shared_ptr<OnlineProfiler> profiler_in_use_;
  std::optional<Megahertz> sweep_clock_;
  std::shared_ptr<ChangeProbe> probe_in_use_;
  std::optional<ChangeProbe::Request> probe_request_;  // of this step

  mutable std::mutex mutex_;  // never held while waiting for others
  std::condition_variable changed_;
  bool stop_ = false;
  std::shared_ptr<OnlineProfiler> profiler_;  // null: nothing to profile any more
  std::shared_ptr<ChangeProbe> probe_;        // the sweep's last steps; null before them
  Megahertz slowest_measured_;                // of the clocks in reports_
  std::shared_ptr<const Schedule> newest_;
  RankRequest own_rank_;              // as the server is to know it
  Nanoseconds unprofiled_since_ = 0;  // 0: nothing keeps the sweep from going on
  bool joined_ = false;               // the server knows own_rank_
  bool reachable_ = false;
  bool told_of_server_ = false;
  std::vector<MeasurementReport> reports_;  // all of the sweep, for a server that lost them
  std::int64_t next_sequence_ = 0;
  std::int64_t acknowledged_ = -1;  // sequence of the last report that the server has, whoever sent it
  bool acknowledged_own_ = false;
  bool finish_due_ = false;  // the server is to be told that profiling is over
  std::deque<StragglerNotice> stragglers_;
  struct PromiseNews {
    PromiseReport report;
    Stretches::Taken run;  // since the news before
    Computing computing;   // of the step that it was reported after
  };
  std::shared_ptr<const ComputingTimes> newest_times_;
  std::uint64_t look_again_at_ = 0;  // step, whether an order to measure again can be followed
  std::int64_t followed_order_ = 0;  // to measure again
  struct Remeasuring {               // while profiler_ does so
    std::vector<std::string> instructions;
    std::vector<InstructionMeasurement> measured;
    std::uint64_t most_steps = 0;  // with which it ends, whatever it has measured
  };
  std::optional<Remeasuring> remeasuring_;
  struct PaceNews {
    std::optional<PaceReport> report;  // the latest
    bool due = false;                  // whether it is to be sent
  };
  std::array<PaceNews, kPacesOfRank> paces_;
  [[nodiscard]] PaceNews& news_of(PaceOf of) { return paces_[static_cast<std::size_t>(of)]; }
  std::array<double, kPacesOfRank> told_slowdowns_{};  // the reporter's own, as is the next
  std::size_t told_drifts_ = 0;
  bool listener_gone_ = false;
  bool reporter_gone_ = false;
  std::deque<PromiseNews> promises_;                         // to be reported
  std::pair<std::int64_t, PromiseVerdict> told_of_promise_;  // the schedule's version, and what the user was told
  std::int64_t told_of_energy_ =
      0;  // the version of one of which he was told that it takes more energy than maximum clocks
  const std::int64_t session_number_ = new_session_number();
  Savings savings_;               // the reporter's
  std::deque<StepReport> steps_;  // reports that the server asks for; the oldest are dropped where it cannot keep up
  std::atomic<bool> finds_handovers_{false};
  bool knows_own_names_ = true;             // the server, of first and last microbatches; the reporter's
  StepTaken handovers_;                     // as the server has answered last in this sweep
  std::optional<OrderReport> other_order_;  // to be reported
  std::int64_t told_of_order_ = 0;          // the version of the schedule of which the user was told so
  std::int64_t heard_version_ = 0;          // the last schedule that came
  SessionState state_;
  double waiting_sum_ = 0.0;
  double waiting_weight_ = 0.0;
  std::optional<Nanoseconds> window_begin_;
  std::size_t failed_before_window_ = 0;  // readings
  std::uint64_t window_ = 0;

  // Each of the two clients is used by one thread alone, except that another may interrupt it.
  std::optional<PlanServer> reporting_;
  std::optional<PlanServer> listening_;

  std::mutex noticing_;
  std::thread reporter_;
  std::thread listener_;
};

}  // namespace flyball
