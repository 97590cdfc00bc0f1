// The messages between the planning server and its clients (the ranks of training jobs), as values. job_messages.cpp
// describes each once (base/record.h): read_message<T>(json) reads it, to_json() writes it, and the schemas of
// docs/openapi.yaml are made from the description.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/described.h"
#include "base/names.h"
#include "base/units.h"
#include "wire/told_by_ranks.h"

namespace flyball {

class JsonObject;

inline constexpr const char* kDefaultServerAddress = "127.0.0.1:4940";

// Bounds of a job. Wide enough for every published run; they keep a slip of the pen from filling the server.
inline constexpr std::int64_t kMostStages = 1024;
inline constexpr std::int64_t kMostMicrobatches = 65'536;
inline constexpr std::int64_t kMostChunks = 64;
inline constexpr std::int64_t kMostRanks = 131'072;       // of one job
inline constexpr std::size_t kMostClocks = 1'000;         // that one rank may set
inline constexpr std::size_t kMostMeasurements = 10'000;  // in one report
inline constexpr std::size_t kMostBudgetPeriods = 512;    // of one job
inline constexpr std::size_t kShortestToken = 32;         // characters
// Highest sequence number of reports and notices. Nanoseconds since 1970 fit until 2116, and there is always a higher
// number.
inline constexpr std::int64_t kLastSequence = std::int64_t{1} << 62;

// In which order a job's computations may be planned.
enum class JobOrder {
  kFixed,  // that of its schedule
  kFree,   // another one, if that saves energy
};
template <>
inline constexpr auto kNamesOf<JobOrder> = name_list("fixed", "free");

// Limits on the power that all GPUs of a job draw together, as its plan is emulated (pipeline/power_curve.h): pipelines
// and the ranks of a stage are in step, which is when they draw most. A default one limits nothing.
struct JobLimits {
  // The most that they may draw from one time until another, in seconds since 1970.
  struct Period {
    Seconds from;
    Seconds until;
    Watts power;

    bool operator==(const Period&) const = default;
  };
  std::optional<Watts> max_power;          // at all times
  std::optional<double> max_ramp_w_per_s;  // of the power averaged over the window, from one window to the next
  Seconds ramp_window{1.0};
  std::vector<Period> budget;  // rising in time, not overlapping; max_power holds as well, and alone in gaps

  bool operator==(const JobLimits&) const = default;
  [[nodiscard]] bool any() const { return max_power || max_ramp_w_per_s || !budget.empty(); }
};

// POST /v1/jobs. A request that is sent again with the same id, body and token changes nothing and gets the same
// answer; a client that wants to survive a lost answer therefore chooses id and token itself.
struct JobRequest {
  std::string id;       // [A-Za-z0-9._+-], 1 to 128 characters; empty: the server chooses
  std::string token;    // kShortestToken to 128 of [A-Za-z0-9_-]; empty: the server chooses
  std::string name;     // for people
  std::string planner;  // empty: by the order, see planner_of() in server/job_plan.h
  std::string schedule = "1f1b";
  int stages = 1;
  int microbatches = 1;
  int chunks = 1;  // model chunks per stage
  int data_parallel = 1;
  int tensor_parallel = 1;
  std::vector<Watts> blocking_power;  // one for all stages, or one per stage; empty: as measured (`waiting`), else 75 W
  std::vector<int> memory_limit;      // microbatches that fit; one for all stages, or one per stage; empty: no limit
  Seconds unit_time{1e-3};            // least spacing of the frontier's points
  double noise = 0.0;                 // share of energy below which the meter cannot tell two measurements apart
  // The time after which a clock change takes hold, 0: at once; empty: as measured (`clock_change`), else 4 to 9 ms.
  std::optional<Seconds> switch_latency;
  bool clocks_ahead = false;           // asked for so early that they hold when a computation begins
  Seconds min_dwell;                   // least time between two clock changes of one stage; 0: any
  std::optional<Seconds> target_time;  // an iteration may take this long even without a straggler
  bool executed_steps = false;         // planners learn from the ranks' StepReports
  bool executes_order = false;         // the ranks run what their schedules say in that order (RankSchedule::order)
  std::optional<JobOrder> order;       // none: free where executes_order and planner or memory limit ask for it
  bool transfers_occupy_both = false;  // a stage that sends waits for the transfer (PipelineSpec)
  bool places_transfers = false;       // they are posted where the schedules say (ScheduledComputation::transfers)
  JobLimits limits;
  Seconds patience{300.0};  // from the first profiled rank on

  bool operator==(const JobRequest&) const = default;
  [[nodiscard]] std::int64_t ranks() const {
    return static_cast<std::int64_t>(stages) * data_parallel * tensor_parallel;
  }
};

struct JobRegistered {
  std::string job;
  std::string token;     // for the header "Authorization: Bearer"; empty where the client has it already
  bool created = false;  // false where the job had been registered before
};

inline constexpr std::size_t kLongestCause = 512;  // bytes

// POST /v1/jobs/{job}/ranks. Sent again, it changes all but the rank's place.
struct RankRequest {
  int rank = 0;  // 0 .. JobRequest::ranks() - 1
  int dp_rank = 0;
  int pp_rank = 0;  // the stage
  int tp_rank = 0;
  std::vector<int> clocks_mhz;  // that the rank can set; may be empty
  // Bytes that one microbatch's activations hold, and bytes that there are for those of all; 0: not known.
  std::int64_t microbatch_bytes = 0;
  std::int64_t activation_bytes = 0;
  // Why the rank does not measure itself, how to mend it, and since when, in seconds since 1970; empty: it does.
  std::string unprofiled_cause = {};
  Seconds unprofiled_since = {};

  bool operator==(const RankRequest&) const = default;
};

struct RankRegistered {
  int rank = 0;
  bool created = false;
  std::int64_t last_sequence = -1;  // of the latest report that the server holds; the next one must be higher
  bool profiled = false;
};

// Averages over `samples` runs of one instruction at one clock.
struct InstructionMeasurement {
  std::string instruction;  // "forward", "backward", ..., "forward.1" for model chunk 1, "p2p", "gradient_sync", ...
  Megahertz clock;
  Seconds time;
  Joules energy;
  std::int64_t samples = 1;
  Seconds time_deviation{};  // of one run; 0: not known

  bool operator==(const InstructionMeasurement&) const = default;
};

// What a GPU that waits may draw, in W: a measurement of `waiting` beyond this is refused.
inline constexpr double kLeastWaitingWatts = 1e-6;
inline constexpr double kMostWaitingWatts = 1e6;

// POST /v1/jobs/{job}/measurements. A report counts once, however often it is sent: its sequence number tells, which
// rises with each report of the rank. Reports are collected until the rank is profiled, and then replace what it had
// measured before. The first report after that begins a new sweep, and so does one with `begins_sweep`.
struct MeasurementReport {
  int rank = 0;
  std::int64_t sequence = 0;
  std::vector<InstructionMeasurement> measurements;
  bool begins_sweep = false;  // what has been collected so far is forgotten
};

struct MeasurementsTaken {
  std::int64_t last_sequence = 0;
  bool duplicate = false;
};

// POST /v1/jobs/{job}/orders: what a rank ran in one iteration, where that is not what its schedule says. Sent again
// from time to time while it lasts.
struct OrderReport {
  int rank = 0;
  std::int64_t version = 0;               // of the schedule
  std::vector<std::string> instructions;  // its computations in their order: "forward", "backward.1", ...
};

// What a rank's GPU has taken by plan since its session began, by its own counter, and what the same iterations would
// have taken at maximum clocks, by iterations of that kind in the same training.
struct RankSavings {
  std::int64_t iterations = 0;  // by plan, that were compared
  Joules energy;
  Joules energy_at_maximum;
  Seconds time;
  Seconds time_at_maximum;
  // Standard errors of what was saved, by how windows of some iterations differ. They hold no error of the counter's
  // scale.
  Joules energy_error = {};
  Seconds time_error = {};
};

// What an iteration takes of a rank's GPU, by its own counter, with standard errors; 0: not measured.
struct IterationEnergy {
  Joules planned;  // by the schedule
  Joules planned_error;
  Joules at_maximum;
  Joules at_maximum_error;
};

// By what share iterations may be longer than promised, as ranks and server judge it.
inline constexpr double kPromiseTolerance = 0.01;

// POST /v1/jobs/{job}/promises: what the iterations of a schedule take, as a rank sees it. Sent after 10, 20, 40, ...
// iterations, and at once where the rank has given its schedule's clocks up.
struct PromiseReport {
  int rank = 0;
  std::int64_t version = 0;     // of the schedule
  std::int64_t iterations = 0;  // that have run by it
  Seconds time;                 // of the latest, a mean
  Seconds at_maximum;           // what an iteration at maximum clocks takes; 0: unknown
  bool slower = false;       // longer than promised: the rank runs at maximum clocks now, unless RankSchedule::limited
  RankSavings savings = {};  // up to now
  IterationEnergy energy = {};  // of the rank's GPU
  std::string cause = {};       // why iterations are longer than promised, as far as the rank can see it
  std::int64_t session = 0;     // a number of the session that counts `savings`, above 0; 0: not told
};

// Why something of a rank takes longer than when it was profiled.
enum class PaceCause {
  kUnknown,
  kComputation,    // its computations take longer, at the clock that is asked for
  kThrottled,      // the device says that it is held back
  kClockNotTaken,  // its clocks cannot be set: the driver, or another holder of the lease, refuses
  kCommunication,  // a transfer takes longer
};
template <>
inline constexpr auto kNamesOf<PaceCause> = name_list("unknown", "computation", "throttled", "clock_not_taken",
                                                      "communication");
template <>
inline constexpr auto kUnknownName<PaceCause> = PaceCause::kUnknown;

// An operation of a rank that takes another time than in its profile, at the same clocks and for long.
struct DriftedOperation {
  std::string instruction;
  double ratio = 1.0;  // its time over that of the profile
};

// POST /v1/jobs/{job}/paces: a rank computes or transfers slower than its profile says, or as fast again. Sent when
// that changes, and to a server that may have forgotten it.
struct PaceReport {
  int rank = 0;
  double slowdown = 1.0;   // its time over the usual; 1: as usual
  std::int64_t since = 0;  // the rank's step with which it began
  PaceCause cause = PaceCause::kUnknown;
  std::string detail = {};  // of the cause, for people
  PaceOf of = PaceOf::kComputing;
  // Of computations:
  std::int64_t step = 0;                       // the rank's, with which drifted operations were found
  std::vector<DriftedOperation> operations{};  // that have drifted, whether or not the rank is slow by them
};
// By how many of its standard errors a measured energy must be too large before it counts as such.
inline constexpr double kEnergyDeviations = 5.0;

// Whether iterations take what is promised.
enum class PromiseVerdict {
  kUnknown,  // nobody has compared them yet
  kKept,
  kSlower,  // the plan was given up, since iterations took longer
  kDearer,  // they take more energy than promised; the plan was given up if it is more than at maximum clocks
};
template <>
inline constexpr auto kNamesOf<PromiseVerdict> = name_list("unknown", "kept", "slower", "dearer");
template <>
inline constexpr auto kUnknownName<PromiseVerdict> = PromiseVerdict::kUnknown;

struct JobPromise {
  PromiseVerdict verdict = PromiseVerdict::kUnknown;
  // Times of an iteration; 0: not measured yet.
  Seconds promised;    // what the plan may take, by what maximum clocks take
  Seconds measured;    // what it takes
  Seconds at_maximum;  // what maximum clocks take
  // Of the energy that maximum clocks take in the same time.
  double promised_saving_pct = 0.0;
  double measured_saving_pct = 0.0;
  double measured_saving_error_pct = 0.0;  // standard error; 0: not measured yet
  std::string cause;  // why the promise is not kept, as far as a rank has seen it; empty: unknown, or it is kept
};

// The savings of all ranks. Energies are sums over them; iterations and times are those of the rank that has most.
using JobSavings = RankSavings;

enum class JobState {
  kRegistering,  // ranks are missing
  kProfiling,    // ranks have not finished measuring
  kPlanning,
  kReady,   // there is a frontier; ranks that measure again keep their schedule until the next one
  kFailed,  // no plan could be made from the measurements; the next ones start over
  kEnded,   // all ranks have said that they have ended
  kLost,    // no rank has been heard for a while; any word of one brings the job back
};
template <>
inline constexpr auto kNamesOf<JobState> = name_list("registering", "profiling", "planning", "ready", "failed", "ended",
                                                     "lost");

// What a notice is about: a rank of the job, or, by a name, anything outside the job that all its pipelines wait for.
using StragglerId = std::variant<int, std::string>;

// POST /v1/jobs/{job}/stragglers: set_straggler of Perseus table 2.
struct StragglerNotice {
  StragglerId straggler;
  double degree = 1.0;                   // iteration time over the usual; 1: recovered
  Seconds delay;                         // until it begins
  std::optional<std::int64_t> sequence;  // one that is not above this straggler's last is stale; none: newest
  std::optional<Seconds> lasts{};        // from when it begins until it has recovered by itself; none: until told
};

// PUT /v1/jobs/{job}/clocks. An order, in force until another one takes its place; told again, it changes nothing.
struct ClocksOrder {
  bool at_maximum = false;  // all ranks run at maximum clocks; false: at those of the plan
};

struct StragglerTaken {
  std::int64_t sequence = 0;
  bool stale = false;  // nothing changes: a newer notice was there
};

struct StragglerState {
  StragglerId straggler;
  double degree = 1.0;  // in force
  std::int64_t sequence = -1;
  // Announced, not yet in force.
  struct Announced {
    double degree = 1.0;
    std::int64_t sequence = 0;
    Seconds remaining;
  };
  std::vector<Announced> announced;
};

// A rank that computes slower than its profile says, as it has reported.
struct FoundStraggler {
  int rank = 0;
  double slowdown = 1.0;    // its computing time over the usual
  double degree = 1.0;      // iteration time of its pipeline over the usual, by the plan
  bool in_force = false;    // whether the plans follow it: no notice about its pipeline is in force
  std::int64_t since = 0;   // its step with which it began
  double found_unix = 0.0;  // when the server heard of it, in seconds since 1970
  PaceCause cause = PaceCause::kUnknown;
  std::string detail;
};

// A transfer that takes longer than in the profile of the rank that has reported it.
struct SlowLink {
  int rank = 0;
  PaceOf transfer = PaceOf::kTransfer;
  int pipeline = 0;
  int from_stage = 0;
  int to_stage = 0;         // the same: among the pipelines
  double slowdown = 1.0;    // its time over the usual
  std::int64_t since = 0;   // the rank's step with which it began
  double found_unix = 0.0;  // when the server heard of it, in seconds since 1970
};

// "p2p from stage 1 to stage 2 of pipeline 0 takes 9.8 times as long as in its profile, since step 120 of rank 1"
[[nodiscard]] std::string text_of(const SlowLink& link);

// Whether the planner came to its end. Older servers had only complete plans, and did not say so.
enum class PlanStatus {
  kComplete,
  kIncomplete,  // the server's time limit ended it (JobPlan::make)
};
template <>
inline constexpr auto kNamesOf<PlanStatus> = name_list("complete", "incomplete");
template <>
inline constexpr auto kUnknownName<PlanStatus> = PlanStatus::kIncomplete;

// The power of all GPUs of a job together, as the plan in force for its base point is emulated.
struct JobPowerStatus {
  std::optional<Watts> max_power;  // for which it was planned, of max_power and budget the lower; none: no limit
  std::optional<double> max_ramp_w_per_s;
  Seconds ramp_window;
  bool kept = true;  // whether the plan keeps to these limits
  Watts mean;
  Watts peak;
  Watts greatest_step;  // from one moment to the next
  double ramp_w_per_s = 0.0;
  std::optional<Watts> swing;  // the strongest oscillation between 0.1 and 20 Hz, from peak to peak
  std::optional<double> swing_hz;
  Watts max_clock_peak;                        // the peak with all computations at their highest clock
  std::optional<Seconds> least_time;           // no plan in this order that keeps to the limits is faster
  std::optional<Watts> least_peak;             // the lowest peak that was found, where limits are not kept
  std::optional<double> least_ramp_w_per_s;    // likewise
  std::optional<Seconds> limit_changes_after;  // time until the server plans for another part of the budget
};

// GET /v1/jobs/{job}
// What some of a job's pipelines run, where not all run the same: their measurements differ, or some are stragglers.
// Energies are those of an iteration of one pipeline with one GPU per stage.
struct PipelinePlan {
  std::vector<int> pipelines;  // the first few of them, by data-parallel rank
  std::int64_t count = 0;      // of all of them
  Seconds base_time;           // of an iteration that waits for no other pipeline, at the base point of their plan
  Seconds iteration_time;      // by the schedules in force, without waiting for the others
  Seconds allowed_time;        // when the slowest is done
  Joules energy;               // by the schedules in force, until allowed_time
};

struct JobStatus {
  std::string job;
  std::string name;
  JobState state = JobState::kRegistering;
  std::string planner;
  std::string schedule;
  int stages = 0;
  int microbatches = 0;
  int data_parallel = 1;
  int tensor_parallel = 1;
  std::int64_t ranks = 0;  // that the job has
  std::int64_t ranks_registered = 0;
  std::int64_t ranks_profiled = 0;
  std::vector<int> waiting_for;  // the first few ranks that are missing or have not finished measuring
  double planning_progress = 0.0;
  std::int64_t version = 0;               // of the schedules; 0: none yet
  std::int64_t frontier_version = 0;      // of the frontier; 0: none yet
  std::optional<PlanStatus> plan_status;  // of the schedules in force; none where there are none
  std::string trouble;  // why planning failed, that ranks were left out, or what is odd; empty when all is well
  std::optional<JobPowerStatus> power;  // none where there is no plan, or one that executed steps adjust
  std::vector<PipelinePlan> plans;      // none where all pipelines run the same
  std::vector<StragglerState> stragglers;
  std::vector<FoundStraggler> found_stragglers;
  std::vector<SlowLink> slow_links;
  bool ordered_maximum = false;            // ClocksOrder::at_maximum
  std::vector<UnprofiledRank> unprofiled;  // the first few of them
  std::vector<int> memory_limit;           // microbatches in flight, one for all stages or one per stage
  MemoryLimitFrom memory_limit_from = MemoryLimitFrom::kNothing;
  JobPromise promise;
  JobSavings savings;
  Joules promised_energy;  // what `savings.iterations` iterations take as promised
};

// What GET /v1/jobs/{job}/events tells, besides a JobStatus (event "state"), a StragglerNotice ("straggler"), a
// FoundStraggler ("found_straggler") and a SlowLink ("slow_link").
struct PlanningProgress {  // "progress"
  std::string job;
  double share = 0.0;
};
struct SchedulesReplaced {  // "schedule"
  std::string job;
  std::int64_t version = 0;
  std::int64_t frontier_version = 0;
  Seconds allowed_time;
};
struct JobTrouble {  // "trouble"
  std::string job;
  std::string trouble;
};
struct JobDeleted {  // "deleted"
  std::string job;
  std::string why;
};

// GET /v1/jobs
struct JobListing {
  std::string job;
  std::string name;
  JobState state = JobState::kRegistering;
  std::int64_t ranks = 0;
  std::int64_t ranks_registered = 0;
  std::int64_t version = 0;
  std::optional<PlanStatus> plan_status;
  JobPromise promise;     // its verdict; the rest for whoever may read the job
  Joules saved;           // likewise: by the iterations that are compared with maximum clocks
  Joules promised_saved;  // likewise
  std::int64_t slow_ranks = 0;
  bool ordered_maximum = false;  // ClocksOrder::at_maximum
};
struct JobList {
  std::vector<JobListing> jobs;
};

// GET /v1/jobs/{job}/frontier. Energies are those of one iteration of one pipeline with one GPU per stage, blocking
// included.
struct FrontierPointReport {
  Seconds time;
  Joules energy;
  std::optional<Joules> lower_bound;  // no plan that is as fast takes less
};

struct FrontierReport {
  std::string job;
  std::string planner;
  PlanStatus plan_status = PlanStatus::kComplete;
  std::int64_t version = 0;
  Seconds t_min;
  Seconds t_star;
  Seconds t_least_total;                      // of the point of least energy
  std::size_t base_point = 0;                 // the point that is run while nobody is waited for
  std::optional<double> expected_saving_pct;  // none where too few clocks were measured
  std::optional<double> expected_saving_deviation_pct;
  Seconds switch_latency;  // the time after which a clock change takes hold, as schedules charge it
  std::string limited_by;  // why the base point is no slower: baseline_time, target_time or least_energy
  Seconds max_clock_time;  // all at their highest clock
  Joules max_clock_energy;
  Watts max_clock_straggler_power;          // after such an iteration
  std::vector<FrontierPointReport> points;  // fastest first
};

// One computation of a stage's iteration.
struct ScheduledComputation {
  std::string instruction;  // without a chunk's suffix
  int microbatch = 0;
  int chunk = 0;
  int clock_mhz = 0;  // 0: leaves the clock as it is
  // How many transfers, which occupy both stages, the stage posts together before the computation: activations to the
  // next stage and from the one before, gradients to the one before and from the next. After its last computation it
  // sends what is left. All 0 throughout an order: each message is sent when it is made and received when it is needed.
  std::array<int, 4> transfers{};
  // When to ask for the clock of the next computation, in microseconds after this one has begun; -1: when it has ended.
  int next_clock_after_us = -1;

  bool operator==(const ScheduledComputation&) const = default;
};

// An order to correct and measure again some instructions that have drifted from their profile. A rank follows it once,
// and only if it has found so itself.
struct RemeasureOrder {
  std::int64_t number = 1;  // of the job's orders
  std::vector<std::string> instructions;
  std::vector<int> clocks_mhz;  // at which they are measured, highest first; none: they are corrected
};

// GET /v1/jobs/{job}/ranks/{rank}/schedule?after_version=V&wait_s=S. Answered at once where there is a version above V,
// else when the next one comes, and with 204 where none comes within S.
struct RankSchedule {
  std::string job;
  int rank = 0;
  int stage = 0;
  std::int64_t version = 0;  // grows with every new schedule of the job
  std::size_t point = 0;     // of the frontier
  Seconds iteration_time;    // that the plan takes
  Joules iteration_energy;   // of one pipeline without waiting for others
  Watts straggler_power;     // of one pipeline that waits for others after its iteration
  Seconds allowed_time;      // that it may take: the straggler's, where there is one
  // What an iteration at maximum clocks takes in the same order, by the profile. allowed_time over it is what the
  // schedule promises.
  Seconds max_clock_time;
  bool at_maximum = false;    // default clocks for now, whatever the computations say; see PromiseReport
  bool report_steps = false;  // the server adjusts the plan by what the ranks then run; see StepReport
  // The rank reports each step whose number this divides, as a StepReport, without waiting for its GPU; 0: none.
  std::int64_t measured_every = 0;
  // The plan keeps to limits on power, which maximum clocks may exceed: it promises allowed_time or, if that is longer,
  // iteration_time, and is not given up where iterations take longer.
  bool limited = false;
  // Of the order of the computations: 0 for the schedule's own, as registered, else a number that all ranks have for
  // this order in every version. Ranks run another order than the schedule's only while all of them hold it.
  std::int64_t order = 0;
  std::optional<RemeasureOrder> remeasure;
  std::vector<ScheduledComputation> computations;
};

[[nodiscard]] nlohmann::ordered_json to_json(const std::vector<ScheduledComputation>& computations);

[[nodiscard]] Record<JobLimits::Period> description_of(const JobLimits::Period*);
[[nodiscard]] Record<JobLimits> description_of(const JobLimits*);
// Refuses periods of that field that end no later than they begin, or overlap.
void check_periods(const JsonObject& object, std::string_view field, const std::vector<JobLimits::Period>& periods);
[[nodiscard]] Record<JobRequest> description_of(const JobRequest*);
[[nodiscard]] Record<JobRegistered> description_of(const JobRegistered*);
[[nodiscard]] Record<RankRequest> description_of(const RankRequest*);
[[nodiscard]] Record<RankRegistered> description_of(const RankRegistered*);
[[nodiscard]] Record<InstructionMeasurement> description_of(const InstructionMeasurement*);
[[nodiscard]] Record<MeasurementReport> description_of(const MeasurementReport*);
[[nodiscard]] Record<MeasurementsTaken> description_of(const MeasurementsTaken*);
[[nodiscard]] Record<OrderReport> description_of(const OrderReport*);
[[nodiscard]] Record<PromiseReport> description_of(const PromiseReport*);
[[nodiscard]] Record<DriftedOperation> description_of(const DriftedOperation*);
[[nodiscard]] Record<PaceReport> description_of(const PaceReport*);
[[nodiscard]] Record<RemeasureOrder> description_of(const RemeasureOrder*);
[[nodiscard]] Record<FoundStraggler> description_of(const FoundStraggler*);
[[nodiscard]] Record<SlowLink> description_of(const SlowLink*);
[[nodiscard]] Record<StragglerNotice> description_of(const StragglerNotice*);
[[nodiscard]] Record<ClocksOrder> description_of(const ClocksOrder*);
[[nodiscard]] Record<StragglerTaken> description_of(const StragglerTaken*);
[[nodiscard]] Record<StragglerState::Announced> description_of(const StragglerState::Announced*);
[[nodiscard]] Record<StragglerState> description_of(const StragglerState*);
[[nodiscard]] Record<JobPowerStatus> description_of(const JobPowerStatus*);
[[nodiscard]] Record<PipelinePlan> description_of(const PipelinePlan*);
[[nodiscard]] Record<JobStatus> description_of(const JobStatus*);
[[nodiscard]] Record<PlanningProgress> description_of(const PlanningProgress*);
[[nodiscard]] Record<SchedulesReplaced> description_of(const SchedulesReplaced*);
[[nodiscard]] Record<JobTrouble> description_of(const JobTrouble*);
[[nodiscard]] Record<JobDeleted> description_of(const JobDeleted*);
[[nodiscard]] Record<JobListing> description_of(const JobListing*);
[[nodiscard]] Record<JobList> description_of(const JobList*);
[[nodiscard]] Record<FrontierPointReport> description_of(const FrontierPointReport*);
[[nodiscard]] Record<FrontierReport> description_of(const FrontierReport*);
[[nodiscard]] Record<RankSchedule> description_of(const RankSchedule*);

}  // namespace flyball
