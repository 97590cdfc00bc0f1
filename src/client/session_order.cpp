// The order in which the rank runs its computations: what the session holds, what all ranks have agreed on, and whether
// that is what runs. A step is compared with its schedule by the types of its computations, which costs a nanosecond
// each. All of this is the training thread's.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/monotonic_time.h"
#include "client/session_schedule.h"

namespace flyball {
namespace {

constexpr std::int64_t kMostStepsBetween = 1024;  // reports of the same

}  // namespace

std::int64_t Session::order_held() {
  if (in_step_) throw UsageError("order_held: a step has begun; ask between steps");
  asks_for_order_ = true;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) held_ = newest_;
  return held_ ? held_->plan.order : 0;
}

void Session::use_order(std::int64_t order) {
  if (in_step_) throw UsageError("use_order: a step has begun; call it between steps");
  if (order != 0 && (!held_ || held_->plan.order != order)) {
    throw UsageError(fmt::format("use_order: order {} is not what order_held() has returned last", order));
  }
  asks_for_order_ = true;
  order_in_use_ = order;
  in_order_ = order == 0 ? nullptr : held_;
}

const std::vector<ScheduledComputation>& Session::order_in_use() const {
  static const std::vector<ScheduledComputation> kSchedulesOwn;
  return in_order_ ? in_order_->plan.computations : kSchedulesOwn;
}

std::vector<std::array<int, 4>> Session::transfers_in_use() const {
  std::vector<std::array<int, 4>> transfers;
  bool placed = false;
  for (const ScheduledComputation& one : order_in_use()) {
    transfers.push_back(one.transfers);
    placed = placed || one.transfers != std::array<int, 4>{};
  }
  if (!placed) transfers.clear();
  return transfers;
}

// While the ranks run an order that they have agreed on, a schedule in another one is none for them.
bool Session::by_plan() const {
  return schedule_ && (schedule_->plan.order == 0 || schedule_->plan.order == order_in_use_);
}

bool Session::ran_as_planned() const {
  std::size_t next = 0;
  for (const InstructionSpan& span : step_.spans) {
    if (schedule_->clocks_mhz[span.type].empty()) continue;  // an operation of constant time
    if (next == schedule_->types.size() || schedule_->types[next] != span.type) return false;
    ++next;
  }
  return next == schedule_->types.size();
}

// Reports become rarer while nothing changes: the server may have passed one over.
std::optional<OrderReport> Session::other_order() {
  if (!schedule_) return std::nullopt;
  const bool agreeing = asks_for_order_ && !by_plan();
  const bool as_planned = by_plan() && ran_as_planned();
  if (as_planned || schedule_->plan.version != odd_.version) odd_ = {schedule_->plan.version};
  if (as_planned) return std::nullopt;
  if (odd_.steps++ == 0) odd_.since = step_.begin;
  const bool due = !agreeing || to_seconds(step_.end - odd_.since) > options_.time_to_agree;
  if (odd_.steps < odd_.report_at || !due) return std::nullopt;
  odd_.report_at = odd_.steps + std::min(odd_.steps, kMostStepsBetween);
  OrderReport report{options_.rank.rank, schedule_->plan.version, {}};
  for (const InstructionSpan& span : step_.spans) {
    if (!schedule_->clocks_mhz[span.type].empty()) report.instructions.push_back(types_.name(span.type));
  }
  return report;
}

}  // namespace flyball
