// A report is compared by the instructions' names alone. They tell orders apart in which each stage takes its
// microbatches in turn, and planners choose no others.
#include "server/order_seen.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/fingerprint.h"
#include "pipeline/instruction.h"
#include "pipeline/schedule.h"
#include "plan/executed_step.h"
#include "plan/stage_orders.h"
#include "server/job_plan.h"

namespace flyball {
namespace {

bool reorders(std::string_view planner) { return planner == kFreeOrderPlanner || planner.starts_with("envpipe"); }

Fingerprint fingerprint_of(const ComputationDag& dag) {
  Fingerprint fingerprint;
  for (int stage = 0; stage < dag.stages(); ++stage) {
    fingerprint.add(fmt::format("stage {}", stage));
    for (const int i : measured_operations(dag, stage)) {
      fingerprint.add(
          fmt::format("{} {} {}", announced_name(dag.type_of(i).instruction), dag[i].microbatch, dag[i].chunk));
    }
    for (const PostedTransfers& posted : posted_transfers(dag, stage)) fingerprint.add(fmt::format("{}", posted));
  }
  return fingerprint;
}

}  // namespace

bool may_reorder(const JobRequest& request, OrderSeen seen) {
  const bool can = request.executes_order && (request.places_transfers || !request.transfers_occupy_both);
  return can && request.order != JobOrder::kFixed && seen == OrderSeen::kAsTold;
}

OrderSeen order_seen_in(const JobRequest& request, int stage, std::int64_t planned,
                        const std::vector<std::string>& instructions) {
  const auto streams =
      make_schedule(parse_schedule(request.schedule), request.stages, request.microbatches, request.chunks);
  const InstructionStream& own = streams.at(static_cast<std::size_t>(stage));
  const bool as_scheduled = std::equal(own.begin(), own.end(), instructions.begin(), instructions.end(),
                                       [](const Instruction& one, const std::string& name) {
                                         return name_of_chunk(instruction_name(one.kind), one.chunk) == name;
                                       });
  if (!as_scheduled) return OrderSeen::kNotAsScheduled;
  return planned != 0 ? OrderSeen::kNotAsPlanned : OrderSeen::kAsTold;
}

std::string order_trouble(const JobRequest& request, OrderSeen seen) {
  if (seen == OrderSeen::kAsTold) return {};
  if (seen == OrderSeen::kNotAsPlanned) {
    return fmt::format(
        "planned again in the order of schedule {}, since the ranks do not run the order that planner {} had chosen; "
        "leave out executes_order, or let all ranks of a pipeline agree on the order that their sessions offer",
        request.schedule, planner_of(request));
  }
  return fmt::format(
      "planned for schedule {}, but the ranks run their computations in another order, so that iterations may take "
      "longer than planned; register the schedule and the numbers of microbatches and chunks that they run",
      request.schedule);
}

std::string kept_order_warning(const JobRequest& request) {
  const std::string planner = planner_of(request);
  if (request.executes_order || request.order || !reorders(planner)) return {};
  return fmt::format(
      "planner {} keeps the order of schedule {}, since the job does not say that its ranks execute another one; set "
      "executes_order if they do, or order to fixed",
      planner, request.schedule);
}

std::int64_t number_of_order(const ComputationDag& dag, const ComputationDag& scheduled) {
  const Fingerprint fingerprint = fingerprint_of(dag);
  return fingerprint.value() == fingerprint_of(scheduled).value() ? 0 : fingerprint.number();
}

}  // namespace flyball
