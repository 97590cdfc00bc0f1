// One job: its ranks, what they have measured, its stragglers, and the schedules that follow. A job is plain state with
// rules; the job book (job_book.h) stores it, plans it and answers those who wait for it. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/drifted_operations.h"
#include "server/energy_watch.h"
#include "server/found_stragglers.h"
#include "server/job_plan.h"
#include "server/measurements.h"
#include "server/promise_watch.h"
#include "server/store.h"
#include "wire/job_messages.h"

namespace flyball {

struct JobRank {
  RankRequest request;
  bool durable = false;                 // whether the rank is on the disk
  std::int64_t last_sequence = -1;      // of the reports that have been counted
  std::int64_t enqueued_sequence = -1;  // of the reports that are on their way to the disk
  bool profiled = false;
  double heard = 0.0;      // when it last said something, in seconds since 1970; 0: not since the server has started
  Seconds iteration_time;  // that it has reported last; 0: none
  // The measurements with which the job was planned, and those made since.
  std::shared_ptr<const MeasurementSums> sums = std::make_shared<MeasurementSums>();
  MeasurementSums collected;
  int sweeps_since_order = 0;  // that are in `sums`, since the rank's stage was last told to measure again
};

// Notices about one straggler.
struct JobStraggler {
  struct Announced {
    double degree = 1.0;
    double due = 0.0;  // seconds since 1970
  };
  double degree = 1.0;                          // in force
  std::int64_t sequence = -1;                   // of the notice in force
  std::int64_t newest_seen = -1;                // of the newest notice that is on the disk or on its way there
  std::map<std::int64_t, Announced> announced;  // by sequence
};

// A rank's place. It never changes, so that a waiting request need not look the rank up again.
struct RankPlace {
  int rank = 0;
  int dp_rank = 0;
  int pp_rank = 0;
  int tp_rank = 0;

  RankPlace() = default;
  explicit RankPlace(const RankRequest& request)
      : rank(request.rank), dp_rank(request.dp_rank), pp_rank(request.pp_rank), tp_rank(request.tp_rank) {}
};

// A rank's schedule as JSON text, in two parts: the rank's own head, and the tail that it shares with all ranks of its
// stage that run the same.
struct ScheduleText {
  std::string head;
  std::shared_ptr<const std::string> tail;
};

// The schedules that all pipelines of a job are to run.
struct Deployment {
  // Texts by stage. They are made once, however often ranks ask.
  struct Texts {
    std::vector<std::string> tails;       // ScheduleText::tail
    std::vector<std::string> zeus_tails;  // the same for Zeus's interface; empty for other jobs
    EnergyPromise energy;
    Seconds promised_time;            // of an iteration, by the profile
    Seconds own_time;                 // of this pipeline's iteration, without what it waits for others
    Joules own_energy;                // of one pipeline with one GPU per stage, with waiting for the others
    std::int64_t measured_every = 0;  // RankSchedule's, of ranks whose reports count
  };
  struct Pipeline {
    std::size_t point = 0;
    Seconds allowed;          // for which it is planned; less for a slow one, which takes longer than planned
    Seconds waited_for;       // what an iteration may take: that of the slowest pipeline
    std::vector<int> raised;  // stages that run at their highest clocks
    std::shared_ptr<const Texts> texts;  // shared by pipelines that run the same
  };
  std::vector<Pipeline> pipelines;  // by data-parallel rank
  std::shared_ptr<const JobPlan> plan;
  std::uint64_t fingerprint = 0;  // of all of the above
  std::int64_t version = 0;
  std::int64_t frontier_version = 0;
};

// Adds the savings of another rank, session or job.
void add_savings(RankSavings& to, const RankSavings& more);

class Job {
 public:
  Job(StoredJob stored, bool durable) : stored_(std::move(stored)), durable_(durable) {}

  [[nodiscard]] const std::string& id() const { return stored_.request.id; }
  [[nodiscard]] const JobRequest& request() const { return stored_.request; }
  [[nodiscard]] const JobLimits& limits() const { return stored_.limits ? *stored_.limits : request().limits; }
  [[nodiscard]] const StoredJob& stored() const { return stored_; }
  [[nodiscard]] bool durable() const { return durable_; }
  void set_durable() { durable_ = true; }
  void set_given_plan(std::uint64_t identity) { stored_.given_plan = identity; }
  void set_limits(JobLimits limits) { stored_.limits = std::move(limits); }
  void set_order_seen(OrderSeen seen) { stored_.order_seen = seen; }
  void set_clocks_order(const ClocksOrder& order) { stored_.ordered_maximum = order.at_maximum; }

  // --- Ranks ---
  [[nodiscard]] const std::map<int, JobRank>& ranks() const { return ranks_; }
  [[nodiscard]] JobRank* find_rank(int rank);
  // Returns the rank. Throws HttpError 409 where it has not registered.
  [[nodiscard]] const JobRank& registered_rank(int rank) const;
  // Throws HttpError: 400 where the rank does not fit the job's shape, 409 where its number or its place belongs to
  // another.
  void check_rank(const RankRequest& request) const;
  JobRank& add_rank(const RankRequest& request);
  // Takes what a rank that is there says of itself now; its place must be the same.
  void renew_rank(JobRank& rank, const RankRequest& request);
  void remove_rank(int rank);
  void restore(LoadedRank rank);
  void restore(const StoredSavings& savings);

  [[nodiscard]] bool all_registered() const;
  [[nodiscard]] bool all_profiled() const;
  [[nodiscard]] bool any_profiled() const;
  [[nodiscard]] bool every_stage_profiled() const;
  [[nodiscard]] std::vector<int> unprofiled_stages() const;
  // Returns whether some ranks have reported measurements, and none has finished.
  [[nodiscard]] bool is_measuring() const;
  // Returns the measurements of the ranks that have finished measuring or, unless `finished_only`, of all that have
  // been planned with. For a stage without any rank that has finished, it takes what ranks that measure again had
  // measured before.
  [[nodiscard]] std::vector<RankMeasurements> measured_ranks(bool finished_only) const;
  // Returns the stages of which `measured` has no rank, with what is known of them.
  [[nodiscard]] std::vector<FixedStage> fixed_stages(const std::vector<RankMeasurements>& measured) const;
  [[nodiscard]] std::vector<int> missing_ranks(std::size_t most) const;
  // Returns the ranks that have not finished measuring and say why they do not measure, at most so many.
  [[nodiscard]] std::vector<UnprofiledRank> unprofiled_ranks(std::size_t most) const;

  // --- Memory ---
  // Returns how many microbatches each stage may hold, as its ranks have told what their memory holds; empty where that
  // counts for nothing. Cost: linear in the ranks after one of them has said something new.
  [[nodiscard]] const std::vector<int>& measured_limit() const;
  // Returns the request as it is planned: with measured_limit(), unless the job has told a limit itself.
  [[nodiscard]] JobRequest planned_request() const;

  // --- Measurements ---
  // Throws HttpError 400 for instructions and clocks that the rank cannot have run.
  void check_report(const JobRank& rank, const MeasurementReport& report) const;
  void count_report(JobRank& rank, const MeasurementReport& report);
  void set_profiled(JobRank& rank, bool profiled);
  // Makes the job plan with the new sweep of a rank that has finished measuring: for every instruction measured again,
  // and for `waiting`, the new measurements replace those with which it was planned. Returns false where nothing has
  // been measured since.
  static bool take_up_sweep(JobRank& rank);
  // Does the same for all ranks that have finished, and returns their numbers.
  std::vector<int> take_up_sweeps();
  [[nodiscard]] bool has_new_sweeps() const;

  // --- Stragglers ---
  // Returns the notices about a straggler, which is added if it is new. Throws HttpError: 400 for a rank that the job
  // does not have, 429 where there are too many stragglers or notices.
  [[nodiscard]] JobStraggler& straggler(const StragglerId& id);
  // Takes a notice back that could not be stored, so that its number may be used again.
  void take_back(const StragglerId& id, std::int64_t sequence, std::int64_t seen_before);
  // Puts a notice in force, unless a newer one is. Returns false where nothing changes.
  bool put_in_force(const StragglerId& id, std::int64_t sequence, double degree);
  void announce(const StragglerId& id, std::int64_t sequence, double degree, double due);
  // Puts the notices in force that are due. Returns false where nothing changes.
  bool put_due_in_force(double now);
  [[nodiscard]] std::optional<double> next_due() const;
  [[nodiscard]] std::vector<StragglerState> straggler_states(double now) const;
  [[nodiscard]] FoundStragglers& found() { return found_; }
  [[nodiscard]] const FoundStragglers& found() const { return found_; }
  // Returns what is known of the ranks that have been found to be slow, with what their pipelines make of it.
  [[nodiscard]] std::vector<FoundStraggler> found_stragglers() const;
  // The same of transfers that take longer than they were profiled.
  [[nodiscard]] std::vector<SlowLink> slow_links() const;
  // The rank must have registered.
  [[nodiscard]] SlowLink slow_link(const FoundStragglers::Transfer& transfer,
                                   const FoundStragglers::Found& found) const;
  // Where iterations take longer than promised just now and a link is slow, the link is the cause.
  void explain_promise();

  // --- Life ---
  enum class Life { kThere, kEnded, kLost };
  [[nodiscard]] Life life() const { return life_; }
  void set_life(Life life) { life_ = life; }
  // Notes that a rank has said that it ends, or has said anything else since.
  void set_ended(int rank, bool ended);
  // Returns whether all ranks that have registered have said that they end.
  [[nodiscard]] bool has_ended() const { return !ranks_.empty() && ended_.size() == ranks_.size(); }

  // --- Plans ---
  [[nodiscard]] JobState state() const;
  void set_planning(bool planning) { planning_ = planning; }
  void set_plan(std::shared_ptr<const JobPlan> plan) {
    plan_ = std::move(plan);
    known_slowed_.clear();
  }
  void set_failure(std::string failure) { failure_ = std::move(failure); }
  void set_left_out(std::string left_out) { left_out_ = std::move(left_out); }
  void set_warnings(std::string warnings) { warnings_ = std::move(warnings); }
  void set_progress(double share) { progress_ = share; }
  [[nodiscard]] const std::shared_ptr<const JobPlan>& plan() const { return plan_; }
  [[nodiscard]] const PromiseWatch& promise() const { return promise_; }
  // The plan is trusted anew: it is of new measurements, or was not at fault.
  // Iterations that have just become too long are those of a straggler that has been found, and no fault of the plan.
  void excuse_plan();
  void trust_anew() { trust(false); }
  // The same of a plan that has just been made. If some of its ranks have measured a part of theirs again, the others
  // still compare with maximum clocks of before.
  // Orders to measure again that its measurements carry out are over.
  void trust_new_plan();
  [[nodiscard]] DriftedOperations& drifted() { return drifted_; }
  // Has the ranks of some stages correct and measure again what has drifted, by the next deployment: each instruction
  // at the highest clock and at those near the plan's. There must be a plan. Returns false where nothing is to be done.
  bool order_remeasuring();
  // Takes a rank's report of the version in force. Returns whether the ranks' schedules have to change.
  bool take_promise(const PromiseReport& report);
  // Takes what a rank has saved since its session began; a new session counts from zero. Returns what is to be
  // stored; nothing where nothing is new.
  std::optional<StoredSavings> set_savings(int rank, std::int64_t session, const RankSavings& savings);
  [[nodiscard]] JobSavings savings() const;
  // Returns what the iterations of savings() take as promised.
  [[nodiscard]] Joules promised_energy() const;

  // The runs of each plan that pipelines run, in order. The job's plan holds these plans.
  using RunsByPlan = std::map<const JobPlan*, std::vector<JobPlan::Run>>;
  // Returns the runs that have to be prepared (JobPlan::prepare) before deployment() may be called. There must be a
  // plan.
  [[nodiscard]] RunsByPlan unprepared_runs() const;
  // Returns what the pipelines are to run now, without a version. There must be a plan.
  [[nodiscard]] Deployment deployment() const;
  // Returns what they would have to run if this straggler had this degree; none where runs would have to be prepared
  // first.
  [[nodiscard]] std::optional<Deployment> deployment_with(const StragglerId& id, double degree);
  // Gives the deployment its version, which counts as the newest whether or not it is published.
  void assign_version(Deployment& deployment, bool new_frontier);
  void forget_fingerprint() { stored_.fingerprint = 0; }
  void publish(std::shared_ptr<const Deployment> deployment) { current_ = std::move(deployment); }
  [[nodiscard]] const std::shared_ptr<const Deployment>& current() const { return current_; }

  // Returns the schedule for one rank; none where there is no version above `after_version` yet.
  [[nodiscard]] std::optional<ScheduleText> schedule_for(const RankPlace& rank, std::int64_t after_version) const;
  // Returns the tail of the answer for a rank of one of Zeus's jobs, the same text for all ranks of a stage that run
  // the same; null where there is none yet.
  [[nodiscard]] std::shared_ptr<const std::string> zeus_tail_for(const RankPlace& rank) const;

  [[nodiscard]] JobStatus status(double now) const;

 private:
  // How slow pipelines are, as those of their ranks are that have been found.
  struct FoundPipeline {
    bool announced = false;         // a notice about one of its ranks is in force, which wins
    std::vector<double> slowdowns;  // by stage
    JobPlan::Slowed slowed;         // what the plan makes of it
  };
  [[nodiscard]] std::map<int, FoundPipeline> found_pipelines() const;
  // Whether the ranks run at maximum clocks, for an operator has ordered it or the plan is not trusted just now. Limits
  // on power hold even then.
  [[nodiscard]] bool runs_at_maximum(const JobPlan& plan) const {
    return (stored_.ordered_maximum || promise_.at_maximum()) && !plan.is_limited();
  }
  // Returns a sentence where an order to maximum clocks cannot be carried out; empty otherwise.
  [[nodiscard]] std::string clocks_trouble() const;
  // How much longer iterations take at maximum clocks, too, for the stragglers that have been found.
  [[nodiscard]] double slowed_by_found() const;
  // What an iteration takes at maximum clocks where it takes what the ranks measured last.
  [[nodiscard]] Seconds max_clock_time(const JobPlan& plan) const {
    return slowed_at_maximum_ * plan.max_clock_time_of_all();
  }
  [[nodiscard]] std::vector<double> degrees_of_pipelines(const std::map<int, FoundPipeline>& slow) const;
  struct Runs {
    std::vector<JobPlan::Run> of_pipelines;
    std::vector<std::vector<int>> raised;  // by pipeline, stages at their highest clocks
    Seconds slowest;                       // what all pipelines wait for
  };
  [[nodiscard]] Runs runs() const;
  [[nodiscard]] RunsByPlan by_plan(const Runs& runs) const;
  [[nodiscard]] std::vector<PipelinePlan> pipeline_plans() const;

  void trust(bool measure_first) {
    promise_.begin_anew(measure_first);
    energy_ = {};
  }

  StoredJob stored_;
  bool durable_;
  std::map<int, JobRank> ranks_;
  std::map<std::pair<int, std::pair<int, int>>, int> places_;  // (pp, dp, tp) -> rank
  std::size_t profiled_count_ = 0;
  std::vector<int> profiled_of_stage_ = std::vector<int>(static_cast<std::size_t>(stored_.request.stages));
  std::map<StragglerId, JobStraggler> stragglers_;
  FoundStragglers found_;
  DriftedOperations drifted_;
  std::map<int, RemeasureOrder> remeasured_;  // by stage, not carried out yet
  // By plan and slow-downs.
  mutable std::map<std::pair<const JobPlan*, std::vector<double>>, JobPlan::Slowed> known_slowed_;
  mutable std::vector<int> measured_limit_;  // unless it is out of date
  mutable bool measured_limit_is_old_ = true;
  std::set<int> ended_;  // ranks
  Life life_ = Life::kThere;
  bool planning_ = false;
  double progress_ = 0.0;
  std::string failure_;
  std::string left_out_;
  std::string warnings_;  // about the plan
  std::shared_ptr<const JobPlan> plan_;
  std::shared_ptr<const Deployment> current_;
  PromiseWatch promise_;
  double slowed_at_maximum_ = 1.0;  // by stragglers, when the ranks last measured maximum clocks
  EnergyWatch energy_;
  std::map<int, StoredSavings> saved_;  // by rank
};

// Returns what lists of jobs tell of one, with its figures if the reader may read the job itself.
[[nodiscard]] JobListing listing_of(const Job& job, bool with_figures);

}  // namespace flyball
