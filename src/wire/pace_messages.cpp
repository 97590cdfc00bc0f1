// The descriptions of what ranks say about how fast they compute, or why they do not know it, and of what their
// pipelines run therefore.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/printable.h"
#include "base/record.h"
#include "wire/job_messages.h"

namespace flyball {
namespace {

constexpr double kMostSlowdown = 1000.0;  // as of a straggler's notice
constexpr const char* kCause =
    "Why, if it can be seen. computation: computations take longer at the clock that is asked for; throttled: the "
    "device says that it is held back; clock_not_taken: its clocks cannot be set; communication: a transfer takes "
    "longer.";

}  // namespace

std::string text_of(const SlowLink& link) {
  const std::string where =
      link.transfer == PaceOf::kReduction
          ? fmt::format("among the pipelines, at stage {}", link.from_stage)
          : fmt::format("from stage {} to stage {} of pipeline {}", link.from_stage, link.to_stage, link.pipeline);
  return fmt::format("{} {} takes {:.3g} times as long as in its profile, since step {} of rank {}",
                     name_of(link.transfer), where, link.slowdown, link.since, link.rank);
}

std::string text_of(const UnprofiledRank& rank) {
  return fmt::format("rank {} (pipeline {}, stage {}) does not profile itself, since {:%Y-%m-%dT%H:%M:%SZ}: {}",
                     rank.rank, rank.pipeline, rank.stage,
                     fmt::gmtime(static_cast<std::time_t>(rank.since_unix.value())), printable(rank.cause));
}

Record<UnprofiledRank> description_of(const UnprofiledRank* /*type*/) {
  using R = UnprofiledRank;
  return Record<R>::answer("UnprofiledRank", "the server's answer", "A rank that does not measure itself, as it says.")
      .field("rank", &R::rank, "Number of the rank.", {.needed = true, .minimum = 0})
      .field("pipeline", &R::pipeline, "Number of the rank's pipeline.", {.minimum = 0})
      .field("stage", &R::stage, "Number of the rank's stage.", {.minimum = 0})
      .field("since_unix_s", &R::since_unix, "Since when, in seconds since 1970 (UTC), by the rank's own clock.",
             {.minimum = 0, .maximum = 1e11})
      .field("cause", &R::cause, "Why, and how to mend it, in words.");
}

Record<PaceReport> description_of(const PaceReport* /*type*/) {
  using R = PaceReport;
  return Record<R>::request("PaceReport")
      .field("rank", &R::rank, "Number of the rank.",
             {.needed = true, .minimum = 0, .maximum = static_cast<double>(kMostRanks - 1)})
      .field("of", &R::of,
             "What takes longer: its computations, or a transfer, named as its instruction. p2p: to the next stage; "
             "p2p_back: to the stage before; gradient_sync: the reduction of gradients among the pipelines.")
      .field("slowdown", &R::slowdown,
             "Computing time of its iterations, or time of the transfer, divided by the usual, waiting left out; 1: as "
             "usual again.",
             {.needed = true, .minimum = 1, .maximum = kMostSlowdown})
      .field("since_step", &R::since, "The rank's iteration with which this began, counted from its first.",
             {.minimum = 0})
      .field("cause", &R::cause, kCause)
      .field("detail", &R::detail, "What is known of the cause, in words.", {.longest = 256})
      .field("step", &R::step, "The rank's iteration with which the operations below were found.",
             {.left_out = true, .minimum = 0})
      .field("operations", &R::operations,
             "Operations that have taken another time than in the rank's profile for many iterations, at the same "
             "clocks. Where all ranks of a stage say so, the server has them measured again.",
             {.left_out = true, .most = 64});
}

Record<DriftedOperation> description_of(const DriftedOperation* /*type*/) {
  using R = DriftedOperation;
  return Record<R>::request("DriftedOperation", "An operation that has drifted from its profile.")
      .field("instruction", &R::instruction, "The instruction, as in the rank's measurements.",
             {.needed = true, .shortest = 1, .longest = 64, .marks = "._", .example = "forward, backward or forward.1"})
      .field("ratio", &R::ratio, "Its time divided by that of the profile, below 1 where it is faster.",
             {.needed = true, .minimum = 0.001, .maximum = kMostSlowdown});
}

Record<RemeasureOrder> description_of(const RemeasureOrder* /*type*/) {
  using R = RemeasureOrder;
  return Record<R>::answer("RemeasureOrder", "the server's answer",
                           "An order to correct what has drifted and to measure it again. A rank follows an order "
                           "once, and only if it "
                           "has found the drift itself (PaceReport).")
      .field("number", &R::number, "Number of the order; it grows with each of the job's orders.",
             {.needed = true, .minimum = 1})
      .field("instructions", &R::instructions, "The instructions that have drifted.", {.needed = true})
      .field(
          "clocks_mhz", &R::clocks_mhz,
          "The clocks at which they are measured, highest first. None: the measurements that are known are scaled by "
          "the drift, and nothing is measured.",
          {.needed = true});
}

Record<FoundStraggler> description_of(const FoundStraggler* /*type*/) {
  using R = FoundStraggler;
  return Record<R>::answer(
             "FoundStraggler", "the server's answer",
             "A rank that computes slower than it was profiled. Event `found_straggler` when that changes.")
      .field("rank", &R::rank, "Number of the rank.", {.needed = true, .minimum = 0})
      .field("slowdown", &R::slowdown, "Computing time of its iterations divided by the usual; 1: as usual again.",
             {.needed = true})
      .field("degree", &R::degree,
             "Iteration time of the rank's pipeline divided by the usual, as its plan is emulated.")
      .field("in_force", &R::in_force,
             "Whether the other pipelines' plans allow for this degree. They do not while a notice about a rank of the "
             "same pipeline is in force.")
      .field("since_step", &R::since, "The rank's iteration with which this began, counted from its first.")
      .field("found_unix_s", &R::found_unix, "When the server heard of it, in seconds since 1970 (UTC).")
      .field("cause", &R::cause, kCause)
      .field("detail", &R::detail, "What is known of the cause, in words.");
}

Record<SlowLink> description_of(const SlowLink* /*type*/) {
  using R = SlowLink;
  return Record<R>::answer(
             "SlowLink", "the server's answer",
             "A transfer that takes longer than when it was profiled. Event `slow_link` when that changes.")
      .field("rank", &R::rank, "Number of the rank that has measured it.", {.needed = true, .minimum = 0})
      .field("transfer", &R::transfer,
             "The transfer. p2p: of activations to the next stage; p2p_back: of gradients to the stage before; "
             "gradient_sync: the reduction of gradients among the pipelines.",
             {.needed = true})
      .field("pipeline", &R::pipeline, "Number of the rank's pipeline.", {.minimum = 0})
      .field("from_stage", &R::from_stage, "Number of the stage that sends.", {.minimum = 0})
      .field("to_stage", &R::to_stage, "Number of the stage that receives; the same for gradient_sync.", {.minimum = 0})
      .field("slowdown", &R::slowdown, "Time of the transfer divided by the usual; 1: as usual again.",
             {.needed = true})
      .field("since_step", &R::since, "The rank's iteration with which this began, counted from its first.")
      .field("found_unix_s", &R::found_unix, "When the server heard of it, in seconds since 1970 (UTC).");
}

Record<PipelinePlan> description_of(const PipelinePlan* /*type*/) {
  using R = PipelinePlan;
  return Record<R>::answer("PipelinePlan", "the server's answer", "What some pipelines of a job run.")
      .field("pipelines", &R::pipelines, "The first few of them, by data-parallel rank.", {.minimum = 0})
      .field("count", &R::count, "How many there are.", {.needed = true, .minimum = 1})
      .field("base_time_s", &R::base_time,
             "Iteration time at the base point of their plan: what they would take if they waited for no other "
             "pipeline.")
      .field("iteration_time_s", &R::iteration_time,
             "Iteration time by the schedules in force, without waiting for other pipelines.", {.needed = true})
      .field("allowed_time_s", &R::allowed_time, "Time until the slowest pipeline of the job is done.")
      .field("energy_j", &R::energy,
             "What an iteration takes by the schedules in force, waiting for other pipelines included, of one pipeline "
             "with one GPU per stage.");
}

}  // namespace flyball
