// The descriptions of the planning server's messages: what each field is called, means and may hold. A straggler's id,
// which is a number or a name, has a codec of its own.
#include "wire/job_messages.h"

#include <fmt/format.h>

#include <utility>

#include "base/record.h"
#include "wire/step_messages.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kServerAnswer = "the server's answer";
constexpr double kMostTime = 1e6;  // s
constexpr double kMostDelay = 1e7;
constexpr double kMostSwitching = 60.0;
constexpr double kMostSamples = 1e12;
constexpr double kMostBytes = 1e15;
constexpr std::size_t kLongestId = 128;
constexpr std::size_t kLongestName = 256;
constexpr auto kLastRank = static_cast<double>(kMostRanks - 1);
constexpr auto kLast = static_cast<double>(kLastSequence);

constexpr const char* kEvent = "the server's event";

constexpr const char* kJobState =
    "How far the job has come. registering: ranks are missing; profiling: ranks have not finished measuring; planning: "
    "the server makes the plan; ready: there is a plan; failed: no plan could be made from the measurements; ended: "
    "all ranks have said that they have ended; lost: no rank has been heard for a while (--lost-after). A job that has "
    "ended or is lost keeps its plan, and comes back with the next word of a rank.";

constexpr const char* kPromisedIteration =
    "What an iteration may take by the plan, by what it takes at maximum clocks. 0: not measured.";
constexpr const char* kMeasuredIteration =
    "What an iteration by the plan takes, as a rank has measured it. 0: not measured.";
constexpr const char* kMaxClockIteration =
    "What an iteration at maximum clocks takes, as a rank has measured it. 0: not measured.";
constexpr const char* kPromisedSaving =
    "What the plan is to save of the energy that maximum clocks take in the same time, in percent. 0: nothing "
    "is promised.";
constexpr const char* kMeasuredSaving = "What it saves of that, by the GPUs' own counters.";
constexpr const char* kMeasuredSavingError = "Standard error of measured_saving_pct. 0: not measured.";
constexpr const char* kOrderedMaximum =
    "Whether all ranks are ordered to maximum clocks (ClocksOrder). Limits on power hold even then.";
constexpr const char* kPlanStatus =
    "Whether the planner came to its end (complete), or the server's time limit (--planning-time) ended it "
    "(incomplete). An incomplete frontier has its slow end, and rougher plans for the fastest iteration and the job's "
    "pace. A server that is started again plans anew, within the same limit. Null: there is no plan.";

void need_one_or_per_stage(const JsonObject& object, const char* field, std::size_t given, int stages) {
  if (given <= 1 || given == static_cast<std::size_t>(stages)) return;
  object.refuse(field, fmt::format("has {} entries for {} stages", given, stages), "give one number, or one per stage");
}

}  // namespace

// A rank's number, or a name.
template <>
struct Codec<StragglerId> {
  static constexpr FieldRules kRank = {.maximum = kLastRank};
  static constexpr FieldRules kName = {.needed = true, .shortest = 1, .longest = kLongestId, .marks = "._+:/-"};

  static StragglerId read(const JsonValue& value, const FieldRules& /*rules*/) {
    if (value.json().is_string()) return Codec<std::string>::read(value, kName);
    return static_cast<int>(value.integer(0, kMostRanks - 1));
  }
  static Json write(const StragglerId& id) {
    return std::holds_alternative<int>(id) ? Json(std::get<int>(id)) : Json(std::get<std::string>(id));
  }
  static Json schema(const FieldRules& /*rules*/) {
    return {{"oneOf", {integer_schema(0, kMostRanks - 1), text_schema(kName)}}};
  }
};

// --- Requests ----------------------------------------------------------------------------------------------------

Record<JobRequest> description_of(const JobRequest* /*type*/) {
  using R = JobRequest;
  return Record<R>::request("JobRequest")
      .field("id", &R::id, "The job's id, neither '.' nor '..'. If it is missing, the server chooses one.",
             {.left_out = true, .longest = kLongestId, .marks = "._+-"})
      .field("token", &R::token,
             "The job's secret, such as 64 random hexadecimal digits. If it is missing, the server draws one.",
             {.left_out = true, .shortest = kShortestToken, .longest = kLongestId, .marks = "_-"})
      .field("name", &R::name, "A name of the job, for people; at most 256 bytes.", {.longest = kLongestName})
      .field("planner", &R::planner,
             "The planner that makes the frontier. If it is missing: joint, if the ranks execute an order and a memory "
             "limit is given or measured, otherwise perseus.",
             {.left_out = true, .known = "planners"})
      .field("schedule", &R::schedule, "The order in which stages run their instructions.", {.known = "schedules"})
      .field("stages", &R::stages, "Number of stages of a pipeline.",
             {.needed = true, .minimum = 1, .maximum = kMostStages})
      .field("microbatches", &R::microbatches, "Number of microbatches of one pipeline in an iteration.",
             {.needed = true, .minimum = 1, .maximum = kMostMicrobatches})
      .field("chunks", &R::chunks, "Number of model chunks of a stage.", {.minimum = 1, .maximum = kMostChunks})
      .field("data_parallel", &R::data_parallel, "Number of pipelines of the job.",
             {.minimum = 1, .maximum = kMostRanks})
      .field("tensor_parallel", &R::tensor_parallel, "Number of ranks of a stage. A job may have 131,072 ranks in all.",
             {.minimum = 1, .maximum = kMostRanks})
      .field("blocking_power_w", &R::blocking_power,
             "Blocking power: what a GPU draws while it waits for others, in watts; one number for all stages, or one "
             "per stage. If it is missing, the power measured as `waiting`, or 75 W if that was not measured.",
             {.left_out = true, .minimum = 0, .maximum = 1e6, .fewest = 1, .single = true})
      .field(
          "memory_limit", &R::memory_limit,
          "Number of microbatches whose activations fit into memory; one number for all stages, or one per stage. "
          "Planners that reorder (joint, envpipe) keep to it. If it is missing, what the ranks say of their memory is "
          "the limit, or if they say nothing, there is none.",
          {.left_out = true, .minimum = 1, .maximum = kMostMicrobatches, .single = true})
      .field("unit_time_s", &R::unit_time,
             "Least difference in iteration time between neighbouring points of the frontier. They are further apart "
             "where that changes energy by less than 0.005 %, and closer if a computation takes less time.",
             {.minimum = 1e-6, .maximum = 1e3})
      .field("noise", &R::noise,
             "Noise of the energy meter, as a share of the energy (0.01 is 1 %): a smaller difference between two "
             "measurements does not count.",
             {.minimum = 0, .maximum = 0.5})
      .field("switch_latency_s", &R::switch_latency,
             "Time from a clock change until it takes effect; 0: changes are free. The plan avoids changes that do "
             "not pay, and counts what the others cost. If it is missing, the time measured as `clock_change`, or 4 "
             "to 9 ms if that was not measured.",
             {.left_out = true, .minimum = 0, .maximum = kMostSwitching})
      .field("clocks_ahead", &R::clocks_ahead,
             "Whether a computation's clock is asked for while the one before it runs, as long before its end as a "
             "change takes, so that the clock holds when the computation begins. Plans then count on that.",
             {.left_out = true})
      .field("min_dwell_s", &R::min_dwell, "Least time between two clock changes of one stage.",
             {.left_out = true, .minimum = 0, .maximum = kMostSwitching})
      .field("target_time_s", &R::target_time,
             "Time that an iteration may take even if there is no straggler. Of the points that take no longer, the "
             "ranks run the one of least energy. This is never a point slower than t_least_total_s, which would take "
             "more energy.",
             {.minimum = 1e-9, .maximum = kMostTime})
      .field("patience_s", &R::patience,
             "Time for which the server waits for the other ranks after the first rank is profiled. Then it plans the "
             "job without them. A stage that no rank has profiled stays at its highest clock until a rank has.",
             {.minimum = 0, .maximum = kMostDelay})
      .field("executed_steps", &R::executed_steps,
             "Whether planners that adjust a plan from step to step (envpipe, envpipe-greedy) learn from the "
             "iterations that the ranks run and report, rather than from emulated ones.",
             {.left_out = true})
      .field("executes_order", &R::executes_order,
             "Whether the ranks can run their computations in an order that the planner chooses. They then run it in "
             "those iterations for which all ranks of a pipeline hold it. If not, every planner keeps the schedule's "
             "order.",
             {.left_out = true})
      .field("order", &R::order,
             "Whether planners may choose another order than the schedule's. fixed: they keep it; free: they may "
             "change it, if the ranks execute an order. If it is missing, planners that are named (joint, envpipe) "
             "may, and so may the default one if a memory limit is given.")
      .field("transfers_occupy_both", &R::transfers_occupy_both,
             "Whether a transfer, which is measured as `p2p`, occupies the stage that sends as well as the one that "
             "receives. It then begins when both stages are ready for it. With chunks, a stage exchanges all that it "
             "sends and receives for a forward and the backward behind it together, as Megatron Core does if "
             "overlap_p2p_comm is off.",
             {.left_out = true})
      .field(
          "places_transfers", &R::places_transfers,
          "Whether the ranks post transfers that occupy both stages where their schedules say so. If not, a job with "
          "such transfers keeps its schedule's order, since its stages would wait for each other in a circle.",
          {.left_out = true})
      .field("limits", &R::limits,
             "Limits on the power of all GPUs of the job together. The ranks then run the fastest plan that is found "
             "inside, or where there is none, the one of the lowest peak. Only planners perseus and joint keep to "
             "limits.",
             {.left_out = true})
      .check([](const JsonObject& object, R& job) {
        if (job.id == "." || job.id == "..") object.refuse("id", "is a folder's name", "choose another id");
        need_one_or_per_stage(object, "blocking_power_w", job.blocking_power.size(), job.stages);
        need_one_or_per_stage(object, "memory_limit", job.memory_limit.size(), job.stages);
        if (job.order == JobOrder::kFree && !job.executes_order) {
          object.refuse("order", "is free, but the ranks do not execute an order",
                        "set executes_order if they do, or leave out order");
        }
        if (job.ranks() > kMostRanks) {
          object.refuse("data_parallel", fmt::format("makes a job of {} ranks", job.ranks()),
                        fmt::format("stages * data_parallel * tensor_parallel may be at most {}", kMostRanks));
        }
      });
}

Record<RankRequest> description_of(const RankRequest* /*type*/) {
  using R = RankRequest;
  return Record<R>::request("RankRequest")
      .field("rank", &R::rank, "Number of the rank in the job, from 0.",
             {.needed = true, .minimum = 0, .maximum = kLastRank})
      .field("dp_rank", &R::dp_rank, "Number of the rank's pipeline, from 0.",
             {.needed = true, .minimum = 0, .maximum = kLastRank})
      .field("pp_rank", &R::pp_rank, "Number of the rank's stage, from 0.",
             {.needed = true, .minimum = 0, .maximum = kMostStages - 1})
      .field("tp_rank", &R::tp_rank, "Number of the rank within its stage, from 0.",
             {.needed = true, .minimum = 0, .maximum = kLastRank})
      .field("clocks_mhz", &R::clocks_mhz,
             "The clocks that the rank can set. Measurements at other clocks are refused.",
             {.minimum = 0, .maximum = 1e6, .most = kMostClocks})
      .field("microbatch_bytes", &R::microbatch_bytes,
             "Bytes that the activations of one microbatch hold, from its forward to its backward. 0: not known.",
             {.left_out = true, .minimum = 0, .maximum = kMostBytes})
      .field("activation_bytes", &R::activation_bytes,
             "Bytes that there are for the activations of all microbatches that the rank holds at once, a margin left "
             "out. If the ranks execute an order and the job has no memory_limit, activation_bytes / "
             "microbatch_bytes, of a stage's ranks the least, is the limit: but never less than the schedule's own "
             "order holds, nor more where ranks of the stage have not told it.",
             {.left_out = true, .minimum = 0, .maximum = kMostBytes})
      .field("unprofiled_cause", &R::unprofiled_cause,
             "Why the rank does not measure itself, and how to mend that. Empty: it does.",
             {.left_out = true, .longest = kLongestCause})
      .field("unprofiled_since_unix_s", &R::unprofiled_since,
             "Since when it does not, in seconds since 1970 (UTC), by its own clock.",
             {.left_out = true, .minimum = 0, .maximum = 1e11});
}

Record<InstructionMeasurement> description_of(const InstructionMeasurement* /*type*/) {
  using R = InstructionMeasurement;
  return Record<R>::request("Measurement", "Averages over `samples` runs of one instruction at one clock.")
      .field("instruction", &R::instruction,
             "The instruction: forward, backward, recompute, backward_input or backward_weight, or the same of one "
             "model chunk, such as forward.1, or of an iteration's first or last microbatch alone, such as "
             "backward.first (the common one is then of those between); p2p, p2p_back, data_load, gradient_sync or "
             "optimizer_step; or waiting, whose "
             "energy divided by its time is the blocking power, from 0.000001 to 1000000 W; or clock_change, whose "
             "time is that from a clock change until it takes effect (its energy counts for nothing).",
             {.needed = true, .shortest = 1, .longest = 64, .marks = "._", .example = "forward, backward or forward.1"})
      .field("clock_mhz", &R::clock, "The clock at which the instruction ran.",
             {.needed = true, .minimum = 0, .maximum = 1e6})
      .field("time_s", &R::time, "Time of one run.", {.needed = true, .minimum = 1e-9, .maximum = kMostTime})
      .field("energy_j", &R::energy, "Energy of one run.", {.needed = true, .minimum = 1e-12, .maximum = 1e9})
      .field("samples", &R::samples, "Number of runs in the averages.", {.minimum = 1, .maximum = kMostSamples})
      .field("time_deviation_s", &R::time_deviation,
             "Standard deviation of the time of one run. 0: it is not known, or the runs are all alike.",
             {.left_out = true, .minimum = 0, .maximum = kMostTime});
}

Record<MeasurementReport> description_of(const MeasurementReport* /*type*/) {
  using R = MeasurementReport;
  return Record<R>::request("MeasurementReport")
      .field("rank", &R::rank, "Number of the rank that measured.",
             {.needed = true, .minimum = 0, .maximum = kLastRank})
      .field("sequence", &R::sequence, "Number of the report, which rises with each report of the rank.",
             {.needed = true, .minimum = 0, .maximum = kLast})
      .field("measurements", &R::measurements, "The rank's measurements.", {.most = kMostMeasurements})
      .field(
          "begins_sweep", &R::begins_sweep,
          "Whether a new sweep begins. The server then forgets what the rank has reported since it was last profiled. "
          "The first report after the rank was profiled begins a new sweep in any case. When the rank is profiled "
          "again, the sweep's measurements of an instruction replace all earlier ones. Instructions that the sweep did "
          "not measure keep their earlier measurements, except waiting: its power then counts as unknown.",
          {.left_out = true});
}

Record<StragglerNotice> description_of(const StragglerNotice* /*type*/) {
  using R = StragglerNotice;
  return Record<R>::request("StragglerNotice")
      .field("straggler", &R::straggler,
             "A rank of the job by its number, or a name for anything outside the job that all its pipelines wait for.",
             {.needed = true})
      .field("degree", &R::degree,
             "Iteration time divided by the usual iteration time; 1: the straggler has recovered.",
             {.needed = true, .minimum = 1, .maximum = 1000})
      .field("delay_s", &R::delay, "Time from the notice until the slowdown begins.",
             {.minimum = 0, .maximum = kMostDelay})
      .field(
          "sequence", &R::sequence,
          "Number of the notice among those of the same straggler. If it is missing, the notice counts as the newest.",
          {.minimum = 0, .maximum = kLast})
      .field("lasts_s", &R::lasts,
             "Time after which the straggler recovers by itself, from when the slowdown begins, unless another notice "
             "comes "
             "first. If it is missing, never.",
             {.minimum = 0, .maximum = kMostDelay});
}

Record<ClocksOrder> description_of(const ClocksOrder* /*type*/) {
  using R = ClocksOrder;
  return Record<R>::request("ClocksOrder", "Which clocks a job's ranks set.")
      .field("at_maximum", &R::at_maximum,
             "Whether all ranks run at maximum clocks, whatever is planned. False: at the clocks of the plan.",
             {.needed = true});
}

Record<OrderReport> description_of(const OrderReport* /*type*/) {
  using R = OrderReport;
  return Record<R>::request("OrderReport")
      .field("rank", &R::rank, "Number of the rank that ran the iteration.",
             {.needed = true, .minimum = 0, .maximum = kLastRank})
      .field("version", &R::version, "Version of the schedule that the rank had.", {.needed = true, .minimum = 1})
      .field("instructions", &R::instructions,
             "The computations that the rank ran, in their order, each by its instruction, such as forward or "
             "backward.1.",
             {.longest = 64, .marks = "._", .most = kMostStepTimes});
}

Record<PromiseReport> description_of(const PromiseReport* /*type*/) {
  using R = PromiseReport;
  return Record<R>::request("PromiseReport")
      .field("rank", &R::rank, "Number of the rank that ran the iterations.",
             {.needed = true, .minimum = 0, .maximum = kLastRank})
      .field("version", &R::version, "Version of the schedule that the rank had.", {.needed = true, .minimum = 1})
      .field("iterations", &R::iterations, "Number of iterations that the rank has run by that schedule.",
             {.needed = true, .minimum = 1})
      .field("time_s", &R::time, "What the latest of them took, a mean.",
             {.needed = true, .minimum = 0, .maximum = 1e6})
      .field("at_maximum_s", &R::at_maximum, "What an iteration takes at maximum clocks. 0: unknown.",
             {.minimum = 0, .maximum = 1e6})
      .field("slower", &R::slower,
             "Whether the iterations are longer than promised, and the rank therefore runs at maximum clocks now, "
             "unless its schedule is `limited`.")
      .field("compared_iterations", &R::savings, &RankSavings::iterations,
             "Number of iterations by plan whose time and energy have been compared with maximum clocks, since the "
             "rank's session began.",
             {.minimum = 0})
      .field("compared_energy_j", &R::savings, &RankSavings::energy, "What they have taken of the rank's GPU.",
             {.minimum = 0, .maximum = 1e15})
      .field("compared_energy_at_maximum_j", &R::savings, &RankSavings::energy_at_maximum,
             "What as many iterations at maximum clocks take.", {.minimum = 0, .maximum = 1e15})
      .field("compared_time_s", &R::savings, &RankSavings::time, "How long they have taken.",
             {.minimum = 0, .maximum = 1e15})
      .field("compared_time_at_maximum_s", &R::savings, &RankSavings::time_at_maximum,
             "How long as many iterations at maximum clocks take.", {.minimum = 0, .maximum = 1e15})
      .field("compared_energy_error_j", &R::savings, &RankSavings::energy_error,
             "Standard error of the difference of these energies.", {.minimum = 0, .maximum = 1e15})
      .field("compared_time_error_s", &R::savings, &RankSavings::time_error,
             "Standard error of the difference of these times.", {.minimum = 0, .maximum = 1e15})
      .field("energy_j", &R::energy, &IterationEnergy::planned,
             "What an iteration by the schedule takes of the rank's GPU, by its own counter. 0: not measured.",
             {.minimum = 0, .maximum = 1e12})
      .field("energy_error_j", &R::energy, &IterationEnergy::planned_error, "Standard error of that.",
             {.minimum = 0, .maximum = 1e12})
      .field("energy_at_maximum_j", &R::energy, &IterationEnergy::at_maximum,
             "What an iteration at maximum clocks takes, likewise.", {.minimum = 0, .maximum = 1e12})
      .field("energy_at_maximum_error_j", &R::energy, &IterationEnergy::at_maximum_error, "Standard error of that.",
             {.minimum = 0, .maximum = 1e12})
      .field("cause", &R::cause,
             "Why the iterations are longer than promised, in words, as far as the rank can see it.",
             {.longest = kLongestCause})
      .field("session", &R::session, "A number of the session that counts what is compared. 0: not told.",
             {.minimum = 0});
}

// --- Answers -----------------------------------------------------------------------------------------------------

Record<JobRegistered> description_of(const JobRegistered* /*type*/) {
  using R = JobRegistered;
  return Record<R>::answer("JobRegistered", kServerAnswer)
      .field("job", &R::job, "The job's id.", {.needed = true})
      .field("token", &R::token, "The job's secret, if the server has drawn it.", {.left_out = true})
      .field("created", &R::created, "Whether the job is new; false if it had been registered before.",
             {.needed = true});
}

Record<RankRegistered> description_of(const RankRegistered* /*type*/) {
  using R = RankRegistered;
  return Record<R>::answer("RankRegistered", kServerAnswer)
      .field("rank", &R::rank, "Number of the rank in the job.", {.needed = true, .minimum = 0})
      .field("created", &R::created, "Whether the rank is new; false if it had been registered before.",
             {.needed = true})
      .field("last_sequence", &R::last_sequence,
             "Number of the rank's latest report that the server has counted; -1: none.")
      .field("profiled", &R::profiled, "Whether the rank has said that it has finished measuring.", {.needed = true});
}

Record<MeasurementsTaken> description_of(const MeasurementsTaken* /*type*/) {
  using R = MeasurementsTaken;
  return Record<R>::answer("MeasurementsTaken", kServerAnswer)
      .field("last_sequence", &R::last_sequence, "Number of the rank's latest report that the server has counted.")
      .field("duplicate", &R::duplicate, "Whether the report had been counted before.", {.needed = true});
}

Record<StragglerTaken> description_of(const StragglerTaken* /*type*/) {
  using R = StragglerTaken;
  return Record<R>::answer("StragglerTaken", kServerAnswer)
      .field("sequence", &R::sequence, "Number of the straggler's newest notice.")
      .field("stale", &R::stale, "Whether the notice changes nothing, because a newer one had come before.",
             {.needed = true});
}

Record<StragglerState::Announced> description_of(const StragglerState::Announced* /*type*/) {
  using R = StragglerState::Announced;
  return Record<R>::answer("AnnouncedStraggler", kServerAnswer, "A notice of a straggler that is not yet in force.")
      .field("degree", &R::degree, "The straggler's degree once the notice is in force.")
      .field("sequence", &R::sequence, "Number of the notice.")
      .field("remaining_s", &R::remaining, "Time until the notice is in force.");
}

Record<StragglerState> description_of(const StragglerState* /*type*/) {
  using R = StragglerState;
  return Record<R>::answer("StragglerState", kServerAnswer)
      .field("straggler", &R::straggler, "What is slow: the number of a rank, or a name.", {.needed = true})
      .field("degree", &R::degree, "The straggler's degree in force.")
      .field("sequence", &R::sequence, "Number of the notice in force; -1: none.")
      .field("announced", &R::announced, "Notices that are not yet in force.");
}

Record<JobStatus> description_of(const JobStatus* /*type*/) {
  using R = JobStatus;
  return Record<R>::answer("JobStatus", kServerAnswer)
      .field("job", &R::job, "The job's id.", {.needed = true})
      .field("name", &R::name, "The job's name, for people.")
      .field("state", &R::state, kJobState, {.needed = true})
      .field("planner", &R::planner, "The planner, as registered or by default.")
      .field("schedule", &R::schedule, "The schedule, as registered.")
      .field("stages", &R::stages, "Number of stages of a pipeline.", {.needed = true, .minimum = 0})
      .field("microbatches", &R::microbatches, "Number of microbatches of one pipeline in an iteration.",
             {.needed = true, .minimum = 0})
      .field("data_parallel", &R::data_parallel, "Number of pipelines of the job.", {.needed = true, .minimum = 0})
      .field("tensor_parallel", &R::tensor_parallel, "Number of ranks of a stage.", {.needed = true, .minimum = 0})
      .field("ranks", &R::ranks, "Number of ranks of the job.")
      .field("ranks_registered", &R::ranks_registered, "Number of ranks that have registered.")
      .field("ranks_profiled", &R::ranks_profiled, "Number of ranks that have finished measuring.")
      .field("waiting_for", &R::waiting_for,
             "Numbers of the first few ranks that are missing or have not finished measuring.", {.minimum = 0})
      .field("planning_progress", &R::planning_progress, "Progress of planning, from 0 to 1.")
      .field("version", &R::version, "Version of the schedules; 0: there are none.")
      .field("frontier_version", &R::frontier_version, "Version of the frontier; 0: there is none.")
      .field("plan_status", &R::plan_status, kPlanStatus)
      .field("trouble", &R::trouble,
             "What is wrong, in words: why planning failed, which ranks were left out, which stages stay at their "
             "highest clock, that no rank has finished measuring or some do not measure, that the ranks run another "
             "order than "
             "planned, that iterations take longer or more energy than promised, that no plan keeps to the limits on "
             "power, or what "
             "is unusual; empty when all is well.")
      .field("power", &R::power,
             "The power of the job's plan, and the limits on it. Null: there is no plan, or executed steps adjust it.")
      .field("plans", &R::plans,
             "What pipelines run that are not alike, or while some are stragglers. Empty: all run the same.")
      .field("stragglers", &R::stragglers, "The stragglers of which there are notices, in force or announced.")
      .field("found_stragglers", &R::found_stragglers, "The ranks that compute slower than they were profiled.")
      .field("slow_links", &R::slow_links, "The transfers that take longer than when they were profiled.")
      .field("ordered_maximum", &R::ordered_maximum, kOrderedMaximum)
      .field("unprofiled", &R::unprofiled, "The first few ranks that say that they do not measure themselves, and why.")
      .field(
          "memory_limit", &R::memory_limit,
          "Number of microbatches whose activations fit into memory, for all stages or by stage, as plans keep to it. "
          "Empty: there is no limit.")
      .field("memory_limit_from", &R::memory_limit_from,
             "Where memory_limit comes from. request: the job was registered with it; measured: its ranks have told "
             "their microbatch_bytes and activation_bytes.")
      .field("promise", &R::promise, &JobPromise::verdict,
             "Whether iterations take what the plan promises. unknown: nobody has compared them yet; slower: they took "
             "longer, and the ranks run at maximum clocks; dearer: they take more energy, and if it is more than at "
             "maximum clocks, the ranks run at these.")
      .field("promised_iteration_s", &R::promise, &JobPromise::promised, kPromisedIteration)
      .field("measured_iteration_s", &R::promise, &JobPromise::measured, kMeasuredIteration)
      .field("max_clock_iteration_s", &R::promise, &JobPromise::at_maximum, kMaxClockIteration)
      .field("promised_saving_pct", &R::promise, &JobPromise::promised_saving_pct, kPromisedSaving)
      .field("measured_saving_pct", &R::promise, &JobPromise::measured_saving_pct, kMeasuredSaving)
      .field("measured_saving_error_pct", &R::promise, &JobPromise::measured_saving_error_pct, kMeasuredSavingError)
      .field("promise_cause", &R::promise, &JobPromise::cause,
             "Why iterations do not take what is promised, in words, as far as a rank can see it. Empty: it is not "
             "known, or they do.")
      .field("compared_iterations", &R::savings, &JobSavings::iterations,
             "Number of iterations by plan whose time and energy have been compared with those at maximum clocks.")
      .field("compared_energy_j", &R::savings, &JobSavings::energy,
             "What the job's GPUs have taken for these iterations, by their own counters.")
      .field("compared_energy_at_maximum_j", &R::savings, &JobSavings::energy_at_maximum,
             "What as many iterations at maximum clocks take, likewise. The difference has been saved.")
      .field("compared_energy_error_j", &R::savings, &JobSavings::energy_error,
             "Standard error of that difference, by how windows of some iterations differ. It holds no error of the "
             "counters' scale.")
      .field("compared_energy_promised_j", &R::promised_energy, "What these iterations were promised to take.")
      .field("compared_time_s", &R::savings, &JobSavings::time, "How long these iterations have taken.")
      .field("compared_time_at_maximum_s", &R::savings, &JobSavings::time_at_maximum,
             "How long as many iterations at maximum clocks take.")
      .field("compared_time_error_s", &R::savings, &JobSavings::time_error,
             "Standard error of the difference of these times.");
}

Record<PlanningProgress> description_of(const PlanningProgress* /*type*/) {
  using R = PlanningProgress;
  return Record<R>::answer("PlanningProgress", kEvent, "Event `progress`: planning goes on.")
      .field("job", &R::job, "The job's id.", {.needed = true})
      .field("planning_progress", &R::share, "Progress of planning, from 0 to 1.", {.needed = true});
}

Record<SchedulesReplaced> description_of(const SchedulesReplaced* /*type*/) {
  using R = SchedulesReplaced;
  return Record<R>::answer("SchedulesReplaced", kEvent, "Event `schedule`: the ranks have new schedules to fetch.")
      .field("job", &R::job, "The job's id.", {.needed = true})
      .field("version", &R::version, "Version of the schedules.", {.needed = true})
      .field("frontier_version", &R::frontier_version, "Version of the frontier from which the schedules come.",
             {.needed = true})
      .field("allowed_time_s", &R::allowed_time, "Time that an iteration of the first pipeline may take.",
             {.needed = true});
}

Record<JobTrouble> description_of(const JobTrouble* /*type*/) {
  using R = JobTrouble;
  return Record<R>::answer(
             "JobTrouble", kEvent,
             "Event `trouble`: the job's patience has ended, a rank does not measure itself, its ranks run another "
             "order "
             "than planned, its iterations take longer than promised, or no plan keeps to its limits on power.")
      .field("job", &R::job, "The job's id.", {.needed = true})
      .field("trouble", &R::trouble,
             "What the job has waited for in vain, what its ranks run, or what cannot be kept, in words.",
             {.needed = true});
}

Record<JobDeleted> description_of(const JobDeleted* /*type*/) {
  using R = JobDeleted;
  return Record<R>::answer("JobDeleted", kEvent, "Event `deleted`, the last event of a job.")
      .field("job", &R::job, "The job's id.", {.needed = true})
      .field("why", &R::why, "Why the job is gone, in words.", {.needed = true});
}

Record<JobListing> description_of(const JobListing* /*type*/) {
  using R = JobListing;
  return Record<R>::answer("JobListing", kServerAnswer)
      .field("job", &R::job, "The job's id.", {.needed = true})
      .field("name", &R::name, "The job's name, for people.")
      .field("state", &R::state, kJobState, {.needed = true})
      .field("ranks", &R::ranks, "Number of ranks of the job.")
      .field("ranks_registered", &R::ranks_registered, "Number of ranks that have registered.")
      .field("version", &R::version, "Version of the schedules; 0: there are none.")
      .field("plan_status", &R::plan_status, kPlanStatus)
      .field("promise", &R::promise, &JobPromise::verdict,
             "Whether the plan keeps its promise, by what ranks tell. What follows up to promised_saved_j is 0 for a "
             "caller who may not read the job.")
      .field("promised_iteration_s", &R::promise, &JobPromise::promised, kPromisedIteration)
      .field("measured_iteration_s", &R::promise, &JobPromise::measured, kMeasuredIteration)
      .field("max_clock_iteration_s", &R::promise, &JobPromise::at_maximum, kMaxClockIteration)
      .field("promised_saving_pct", &R::promise, &JobPromise::promised_saving_pct, kPromisedSaving)
      .field("measured_saving_pct", &R::promise, &JobPromise::measured_saving_pct, kMeasuredSaving)
      .field("measured_saving_error_pct", &R::promise, &JobPromise::measured_saving_error_pct, kMeasuredSavingError)
      .field("saved_j", &R::saved, "Energy saved so far against maximum clocks.")
      .field("promised_saved_j", &R::promised_saved, "Energy that should have been saved so far, as promised.")
      .field("slow_ranks", &R::slow_ranks, "Ranks that compute slower than when they were profiled.")
      .field("ordered_maximum", &R::ordered_maximum, kOrderedMaximum);
}

Record<JobList> description_of(const JobList* /*type*/) {
  return Record<JobList>::answer("JobList", kServerAnswer)
      .field("jobs", &JobList::jobs, "All jobs to which the caller's token gives access.");
}

Record<FrontierPointReport> description_of(const FrontierPointReport* /*type*/) {
  using R = FrontierPointReport;
  return Record<R>::answer("FrontierPoint", kServerAnswer)
      .field("time_s", &R::time, "Time of an iteration at this point.", {.needed = true})
      .field("energy_j", &R::energy, "Energy of an iteration at this point.", {.needed = true})
      .field("lower_bound_j", &R::lower_bound, "Lower bound of the energy: no plan that is as fast takes less.");
}

Record<FrontierReport> description_of(const FrontierReport* /*type*/) {
  using R = FrontierReport;
  return Record<R>::answer(
             "FrontierReport", kServerAnswer,
             "The frontier of one iteration of one pipeline with one GPU per stage; energies include that of waiting.")
      .field("job", &R::job, "The job's id.", {.needed = true})
      .field("planner", &R::planner, "The planner that made the frontier.")
      .field("plan_status", &R::plan_status, kPlanStatus)
      .field("version", &R::version, "Version of the frontier; it grows with every new frontier of the job.")
      .field("t_min_s", &R::t_min, "Iteration time of the fastest point: all computations are as fast as they can be.",
             {.needed = true})
      .field("t_star_s", &R::t_star, "Iteration time of the slowest point.", {.needed = true})
      .field("t_least_total_s", &R::t_least_total, "Iteration time of the point of least energy.")
      .field("base_point", &R::base_point,
             "Index in `points` of the base point, which runs while no straggler is waited for.")
      .field("limited_by", &R::limited_by,
             "Why the base point is not slower. baseline_time: it may take no longer than all-maximum clocks; "
             "target_time: it may take no longer than target_time_s; least_energy: more time is allowed, but all "
             "slower points take more energy; power: limits on power allow no faster plan, or none at all.")
      .field("switch_latency_s", &R::switch_latency,
             "Longest time from a clock change until it takes effect, as schedules charge it; 0: changes are free.")
      .field("expected_saving_pct", &R::expected_saving_pct,
             "Energy that the base point can be expected to save against maximum clocks, in per cent. It is less than "
             "the plan promises, because noise in the measurements flatters a plan; how much noise there is, is "
             "estimated from how smooth the measurements are. Null: too few clocks were measured.")
      .field("expected_saving_deviation_pct", &R::expected_saving_deviation_pct,
             "Standard deviation of expected_saving_pct, in percentage points.")
      .field("max_clock_time_s", &R::max_clock_time, "Iteration time with all computations at their highest clock.",
             {.needed = true})
      .field("max_clock_energy_j", &R::max_clock_energy,
             "Energy of an iteration with all computations at their highest clock.", {.needed = true})
      .field("max_clock_straggler_power_w", &R::max_clock_straggler_power,
             "Power of all stages while they wait for a straggler after such an iteration.")
      .field("points", &R::points, "The points of the frontier, fastest first.");
}

}  // namespace flyball
