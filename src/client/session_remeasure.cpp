// How a session measures again what has drifted from its profile (docs/decisions/0072-profiles-that-live.md). The
// reporter's thread scales what it has measured by the drift, and reports all of it anew; then a short sweep follows,
// of the clocks that the server has named. Its steps run at one clock each, as those of any sweep do, since the energy
// counter is too slow to tell computations apart; but only what has drifted is taken from it.
#include <algorithm>
#include <limits>
#include <utility>

#include "client/refreshed_profile.h"
#include "client/session_schedule.h"

namespace flyball {
namespace {

constexpr std::uint64_t kBetweenCauses = 32;  // steps from one look for a cause elsewhere to the next
constexpr std::uint64_t kMostAttempts = 10;   // times as many steps as a sweep without trouble takes, and it ends

}  // namespace

void Session::follow_order() {
  std::unique_lock lock(mutex_);
  const std::optional<PaceReport>& pace = news_of(PaceOf::kComputing).report;
  if (profiler_ || !newest_ || !newest_->plan.remeasure || reports_.empty() || !pace) return;
  const RemeasureOrder order = *newest_->plan.remeasure;
  if (order.number <= followed_order_) return;
  std::vector<DriftedOperation> drifted = pace->operations;
  std::erase_if(drifted, [&](const DriftedOperation& one) {
    return std::find(order.instructions.begin(), order.instructions.end(), one.instruction) == order.instructions.end();
  });
  if (drifted.empty() || state_.steps < look_again_at_) return;
  look_again_at_ = state_.steps + kBetweenCauses;
  std::vector<Megahertz> clocks;
  for (const Megahertz clock : clocks_) {
    const bool wanted =
        std::any_of(order.clocks_mhz.begin(), order.clocks_mhz.end(), [&](int mhz) { return Megahertz(mhz) == clock; });
    if (wanted) clocks.push_back(clock);
  }
  lock.unlock();
  PaceReport now;
  find_cause(now);
  // The cause is elsewhere by now. The order stays in the schedule, and is followed when that is over.
  if (now.cause != PaceCause::kComputation) return;
  lock.lock();
  if (profiler_) return;  // everything is measured again
  followed_order_ = order.number;
  Remeasuring next;
  for (const DriftedOperation& one : drifted) {
    scale_operation(reports_, one.instruction, one.ratio);
    next.instructions.push_back(one.instruction);
  }
  report_anew();
  if (clocks.empty()) return;
  OnlineProfiler::Options sweep = options_.sweep;
  sweep.settle = to_nanoseconds(options_.settle / options_.time_scale);
  sweep.clock_stride = 1;
  sweep.rises_to_stop = std::numeric_limits<int>::max();  // all of them are wanted
  next.most_steps =
      state_.steps + kMostAttempts * clocks.size() * static_cast<std::uint64_t>(sweep.steps_per_clock + 1);
  profiler_ = std::make_shared<OnlineProfiler>(clocks, sweep);
  state_.sweep = profiler_->progress();
  remeasuring_ = std::move(next);
}

// Under the mutex, as report_anew() is.
void Session::finish_remeasuring() {
  refresh_operations(reports_, remeasuring_->measured);
  const bool any = !remeasuring_->measured.empty();
  remeasuring_.reset();
  profiler_.reset();
  if (any) report_anew();
}

// What has not changed is the same in the new reports.
void Session::report_anew() {
  for (MeasurementReport& report : reports_) {
    report.sequence = next_sequence_++;
    report.begins_sweep = &report == &reports_.front();
  }
  newest_times_ = measured_times();
  finish_due_ = true;
}

}  // namespace flyball
