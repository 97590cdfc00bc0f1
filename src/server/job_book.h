// The book of all jobs of a server. The book takes clients' requests, has changes stored before they are answered, has
// jobs planned when their ranks have measured, numbers the schedules, and answers the requests that wait for one.
//
// All functions run in the event loop's thread; the disk and the planners have threads of their own. Functions that
// change something answer later, through the reply, once the change is on the disk. They throw HttpError, and what the
// planners throw, for requests that cannot be met.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>
#include <nlohmann/json_fwd.hpp>

#include "net/event_loop.h"
#include "net/router.h"
#include "server/job.h"
#include "server/planning_queue.h"
#include "server/rate_limit.h"
#include "server/store.h"
#include "wire/step_messages.h"

namespace flyball {

// A reply, and the function that makes its response from the result.
template <class Result>
struct Answer {
  Reply reply;
  std::function<Response(const Result&)> show;

  void send(const Result& result) const { reply.send(show(result)); }
};

class JobBook {
 public:
  struct Limits {
    std::size_t jobs = 1024;
    std::size_t event_streams = 64;  // per job
    std::size_t polls = 4;           // requests per rank that wait for a schedule; a further one ends the oldest
    Seconds longest_wait{60.0};
    std::int64_t operations = kMostServerOperations;  // in one iteration of a job that registers
    // In one iteration of all jobs together. A planned job takes some 260 bytes of memory for each operation.
    std::int64_t total_operations = 4 * kMostServerOperations;
    unsigned planning_threads = 1;  // PlanningQueue::Limits
    Seconds planning_time{600.0};
    Seconds silence{86'400.0};  // a job expires when none of its ranks has been heard for this long; 0: none does
    Seconds lost_after{90.0};   // a job whose ranks are silent for so long counts as lost; 0: none does
    // For this long after a restart, jobs of which nothing has been heard since do not expire, and jobs with ranks are
    // not deleted to make room.
    Seconds return_grace{600.0};
    // When there is no room for another job, jobs without a rank are deleted that have been silent for this long.
    Seconds unstarted{600.0};
    // After this silence a job with ranks is deleted to make room for a party that holds fewer jobs. A living rank may
    // wait for a minute without sending a request.
    Seconds least_silence_when_full{120.0};
  };

  // A function that is called with a sentence for the administrator, in the loop's thread, ten times a second at most
  // in the long run.
  using Log = std::function<void(const std::string&)>;

  // Opens the database and restores every job in it that can be read. Jobs that had been planned are planned again,
  // with the same schedules as the result. With an empty path everything is kept in memory. `loop` must outlive the
  // book. Throws DatabaseError and InputError.
  JobBook(EventLoop& loop, const std::string& database, Limits limits, Log log = {});
  ~JobBook();
  JobBook(const JobBook&) = delete;
  JobBook& operator=(const JobBook&) = delete;

  // One job with the requests and streams that wait for it.
  struct Entry;

  // Returns the job. Throws HttpError 404 where there is none.
  [[nodiscard]] Job& job(const std::string& id);
  [[nodiscard]] const Job* find_job(const std::string& id) const;  // null where there is none
  [[nodiscard]] std::vector<const Job*> jobs() const;
  // Notes that one of the job's ranks has been heard, so that the job does not expire.
  void hear(const std::string& id);

  // Returns sentences for the administrator on what is wrong with jobs that could not be restored.
  [[nodiscard]] const std::vector<std::string>& troubles() const { return troubles_; }
  void add_trouble(std::string trouble) { troubles_.push_back(std::move(trouble)); }

  struct Registration {
    JobRequest request;
    JobKind kind = JobKind::kOwn;
    std::uint64_t given_plan = 0;  // StoredJob's
    bool administrator = false;
    std::string shown_token;  // by the client, for a job that is there already
    std::string party;        // StoredJob's
  };
  void create_job(Registration registration, const Answer<JobRegistered>& answer);
  void delete_job(const std::string& id, const Answer<std::string>& answer);
  // Sets the plan file of a job for which the database has none. Nobody waits for this to be on the disk.
  void set_given_plan(const std::string& id, std::uint64_t identity);
  void register_rank(const std::string& id, const RankRequest& request, const Answer<RankRegistered>& answer);
  void take_report(const std::string& id, MeasurementReport report, const Answer<MeasurementsTaken>& answer);
  void mark_profiled(const std::string& id, const std::vector<int>& ranks, const Answer<std::string>& answer);
  void set_straggler(const std::string& id, const StragglerNotice& notice, const Answer<StragglerTaken>& answer);

  // Replaces the limits on the job's power, which is then planned anew. Throws UsageError where its planner does not
  // keep to limits, and HttpError 409 for a job that another's plan or client decides about.
  void set_limits(const std::string& id, JobLimits limits, const Answer<JobLimits>& answer);
  // Has all ranks run at maximum clocks, or by their plan again; limits on power hold. The order outlives a restart.
  // Throws HttpError 409 for jobs of Zeus's clients, which do not know such orders.
  void set_clocks_order(const std::string& id, const ClocksOrder& order, const Answer<ClocksOrder>& answer);

  // Takes the report of an iteration that a rank has run. When all stages of the first pipeline have reported the step,
  // it is kept as the job's last, and the next schedule follows if the plan is adjusted step by step. Reports are not
  // stored, but the schedules are: a restart goes on from the version in force. Of a sweep's iterations it returns what
  // they show of handovers to the rank's stage (Handovers).
  StepTaken take_step(const std::string& id, const StepReport& report);
  // Returns the job's last iteration that was measured, as a MeasuredIteration in JSON.
  [[nodiscard]] std::shared_ptr<const std::string> last_iteration(const std::string& id) const;

  // Takes the report of an iteration that a rank has not run in the order of its schedule. If it belongs to the
  // schedules in force and tells something new, the job is planned anew without that order, or without waiting for
  // steps (OrderSeen), and says so as its trouble, until its ranks have measured again.
  void take_order(const std::string& id, const OrderReport& report);
  void take_promise(const std::string& id, const PromiseReport& report);
  // Takes a report of a rank that computes or transfers slower than it was profiled, or as fast again. Other pipelines'
  // schedules follow what computes slower. Reports are not stored: a session tells a server again that may have
  // forgotten it.
  void take_pace(const std::string& id, const PaceReport& report);
  // Takes the word of a rank that its training has ended.
  void end_rank(const std::string& id, int rank);

  // Answers with a schedule of a version above `after_version` as soon as there is one, or with 204 after `wait`
  // (within a tenth of a second).
  void wait_for_schedule(const std::string& id, int rank, std::int64_t after_version, Seconds wait, const Reply& reply);

  // Runs work that changes no job and takes about `expected`: `work` in a planner's thread, then `done` in the loop's,
  // with what `work` threw. Jobs' plans come before it where they take less time.
  void run_beside(Seconds expected, std::function<void()> work, std::function<void(std::exception_ptr)> done);

  // Sends the events of one job to the stream: "state", "progress", "schedule", "straggler", each with a JSON object.
  void subscribe(const std::string& id, std::shared_ptr<EventStream> stream);
  // Throws HttpError 404 where there is no such job, and 429 where it has too many streams.
  void check_subscribe(const std::string& id);

  // Sets the function that is called whenever a job has changed so that its schedules or its rounds of a sweep may
  // differ, and with null when the job is gone.
  void on_change(std::function<void(const std::string& id, Job*)> listener) { listener_ = std::move(listener); }

  // Sets the function that is called with a job after each change that its status tells. Costs a call for each.
  void on_state(std::function<void(const Job&)> listener) { state_listener_ = std::move(listener); }

  // Ends every wait with 503, so that the server can stop.
  void release_waiting();

  static constexpr std::array kLookupBounds = {10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 1000e-6};  // s

  struct Counts {
    std::uint64_t jobs_created = 0;
    std::uint64_t expired_silent = 0;
    std::uint64_t expired_unstarted = 0;
    std::uint64_t stages_missed = 0;  // jobs whose patience ended before every stage had been measured
    std::uint64_t ranks_registered = 0;
    std::uint64_t reports = 0;
    std::uint64_t duplicate_reports = 0;
    std::uint64_t measurements = 0;
    std::uint64_t notices = 0;
    std::uint64_t stale_notices = 0;
    std::uint64_t stragglers_found = 0;
    std::uint64_t jobs_lost = 0;
    std::uint64_t schedules_sent = 0;
    std::uint64_t deployments = 0;
    std::size_t polls_waiting = 0;
    // Looking up and composing one rank's schedule, by these bounds, and more.
    std::array<std::uint64_t, kLookupBounds.size() + 1> lookup_buckets{};
    double lookup_seconds = 0.0;
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] Store::Counts store_counts() const { return store_.counts(); }
  [[nodiscard]] PlanningQueue::Counts planning_counts() const { return planning_->counts(); }
  [[nodiscard]] const Limits& limits() const { return limits_; }

 private:
  using EntryPointer = std::shared_ptr<Entry>;

  [[nodiscard]] EntryPointer find(const std::string& id) const;
  // Returns a function that runs `then` in the loop's thread once the write is on the disk. Where the write fails, it
  // runs `undo` and fails the reply.
  static Store::Done acknowledged(const Reply& reply, std::function<void()> then, std::function<void()> undo);
  void store(StoreWrite write, const Reply& reply, std::function<void()> then, std::function<void()> undo = {});
  void restore(LoadedJob loaded);
  // find() for a request of a rank, or of somebody who speaks for the ranks (-1)
  EntryPointer heard(const std::string& id, int rank = -1);
  void renew_rank(const EntryPointer& entry, JobRank& rank, const RankRequest& request);
  void tell_of_unprofiled(Entry& entry, const JobRank& rank, const std::string& told);
  void set_life(Entry& entry, Job::Life life);
  void arm_drift(const EntryPointer& entry);
  void follow_drift(const EntryPointer& entry);
  void find_lost_jobs();
  // Tells all that wait for the job that it is gone. Must be called when the job has also been deleted on the disk.
  void forget(const EntryPointer& entry, const std::string& why);
  void expire(const EntryPointer& entry, std::uint64_t& counter, const std::string& why);
  void expire_silent_jobs();
  // Makes room for a job of this party with so many operations. Throws HttpError 429 where there is none.
  void make_room(const std::string& party, std::int64_t operations);
  struct Share;
  void make_room(const std::string& party, const Share& share, std::unordered_set<EntryPointer>& going) const;
  void tell(const std::string& words);
  void changed(Entry& entry);
  void emit(Entry& entry, std::string_view name, const nlohmann::ordered_json& data);
  void emit_state(Entry& entry);
  void tell_of_link(Entry& entry, const PaceReport& report);
  void plan_if_ready(const EntryPointer& entry);
  // Looks again after `wait` whether the ranks measure, since they may never finish, and tells the administrator when
  // the job's patience has passed without any report.
  void watch_measuring(const EntryPointer& entry, Seconds wait);
  void tell_trouble(Entry& entry, const std::string& words);
  void announce_trouble(Entry& entry, const std::string& words);
  // Starts planning, from `adjusted` where that fits (JobPlan::make). Where `as_known`, from all that its ranks had
  // measured when they were last profiled, as a plan for other limits is made while some measure again.
  void start_planning(const EntryPointer& entry, std::optional<AdjustedPlan> adjusted = std::nullopt,
                      bool as_known = false);
  // Plans the job anew if other limits on power hold than those for which it is planned, and again when the budget's
  // next period comes.
  void follow_limits(const EntryPointer& entry);
  void arm_budget(const EntryPointer& entry);
  void set_order_seen(Entry& entry, OrderSeen seen);
  void stop_planning(Entry& entry);
  void planned(const EntryPointer& entry, std::shared_ptr<const JobPlan> plan, const std::exception_ptr& error);
  void deploy(const EntryPointer& entry, bool new_frontier);
  // Numbers the deployment and returns what has to be stored; it is then published, unless `wanted` returns false.
  [[nodiscard]] Store::Entry numbered(const EntryPointer& entry, Deployment next, std::function<bool()> wanted);
  void publish(Entry& entry, Deployment deployment);
  void arm_notices(const EntryPointer& entry);
  void end_overdue_polls();
  [[nodiscard]] std::optional<ScheduleText> look_up(const Job& job, const RankPlace& rank, std::int64_t after_version);

  EventLoop& loop_;
  Limits limits_;
  Counts counts_;
  std::function<void(const std::string&, Job*)> listener_;
  std::function<void(const Job&)> state_listener_;
  std::map<std::string, EntryPointer> entries_;
  std::vector<std::string> troubles_;
  std::set<std::string> left_out_;  // ids, where known, of the jobs that could not be restored
  std::int64_t last_number_ = 0;
  std::function<void(std::function<void()>)> post_;
  Store store_;
  std::unique_ptr<PlanningQueue> planning_;
  EventLoop::Handle sweep_;
  EventLoop::Handle expiry_;
  EventLoop::Handle losses_;
  std::chrono::steady_clock::time_point begin_;  // of this server
  Log log_;
  RateLimit lines_;  // limits the lines of the log
  std::uint64_t lines_left_out_ = 0;
};

}  // namespace flyball
