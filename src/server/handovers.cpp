// The stages' times are joined into one timeline (plan/executed_step.h), in a DAG without transfers: what passes
// between the last end that a computation waits for there and its begin is the handover.
#include "server/handovers.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/index.h"
#include "base/median.h"
#include "pipeline/instruction.h"
#include "pipeline/pipeline_spec.h"
#include "server/job_plan.h"

namespace flyball {
namespace {

// A computation that begins before its input, by more than this share of how long computations take, belongs to another
// order than the schedule's.
constexpr double kOtherOrder = 0.05;
constexpr std::size_t kMostCounted = 1000;  // steps; more would tell no more
constexpr Nanoseconds kStall = 10;          // times the median: something else held up the machine

ComputationDag dag_of(const JobRequest& request) {
  constexpr std::array kAll = {InstructionKind::kForward, InstructionKind::kBackward, InstructionKind::kRecompute,
                               InstructionKind::kBackwardInput, InstructionKind::kBackwardWeight};
  std::vector<ProfileRow> rows;  // of any time, since only the order counts
  for (int stage = 0; stage < request.stages; ++stage) {
    for (const InstructionKind kind : kAll) {
      rows.push_back({stage, instruction_name(kind), 0, {Megahertz(1), Seconds(1), Joules(1)}});
    }
  }
  return build_dag(pipeline_of(request, ClocksAsked::kWhenFree), profile_of_rows("the order of " + request.id, rows));
}

}  // namespace

StepTaken Handovers::add(const Job& job, const StepReport& report) {
  const RankRequest& rank = job.registered_rank(report.rank).request;
  const auto stage = static_cast<std::size_t>(rank.pp_rank);
  if (!dag_) {
    dag_ = dag_of(job.request());
    found_.resize(static_cast<std::size_t>(job.request().stages));
  }
  const std::size_t expected = measured_operations(*dag_, rank.pp_rank).size();
  if (rank.dp_rank == 0 && rank.tp_rank == 0 && report.begin.size() == expected) {
    if (const auto stages = steps_.add(report, stage, found_.size())) join(*stages);
  }
  // Other programs hold up the handovers of whole steps: the step in the middle counts.
  const auto& [forward, backward] = found_[stage];
  const auto usual = [](const Found& one) { return one.count == 0 ? Seconds() : lower_median(one.of_step); };
  return {usual(forward), forward.count, usual(backward), backward.count};
}

void Handovers::begin_anew() {
  steps_.clear();
  std::fill(found_.begin(), found_.end(), std::array<Found, 2>());
}

void Handovers::join(const IncompleteSteps::Stages& stages) {
  const ExecutedStep step = join_stages(*dag_, stages);
  std::vector<std::array<std::vector<Nanoseconds>, 2>> times_to(stages.size());
  Nanoseconds computing = 0;
  for (int i = 0; i < dag_->size(); ++i) computing += step.finish[at(i)] - step.start[at(i)];
  const auto least = static_cast<Nanoseconds>(-kOtherOrder * static_cast<double>(computing) / dag_->size());
  for (int i = 0; i < dag_->size(); ++i) {
    const OperationType& type = dag_->type_of(i);
    bool received = false;
    Nanoseconds ready = std::numeric_limits<Nanoseconds>::min();
    for (const int p : dag_->predecessors(i)) {
      received = received || dag_->type_of(p).stage != type.stage;
      ready = std::max(ready, step.finish[at(p)]);
    }
    if (!received) continue;
    const Nanoseconds time = step.start[at(i)] - ready;
    if (time < least) return;
    const bool forward = is_of_kind(type.instruction, InstructionKind::kForward);
    times_to[at(type.stage)][forward ? 0 : 1].push_back(std::max<Nanoseconds>(0, time));
  }
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (std::size_t k = 0; k < 2; ++k) {
      std::vector<Nanoseconds>& times = times_to[stage][k];
      Found& found = found_[stage][k];
      if (times.empty() || found.of_step.size() == kMostCounted) continue;
      const Nanoseconds most = kStall * std::max<Nanoseconds>(1, median(times));
      std::erase_if(times, [&](Nanoseconds time) { return time > most; });
      const Nanoseconds sum = std::accumulate(times.begin(), times.end(), Nanoseconds{0});
      found.of_step.push_back(to_seconds(sum) / static_cast<double>(times.size()));
      found.count += std::ssize(times);
    }
  }
}

}  // namespace flyball
