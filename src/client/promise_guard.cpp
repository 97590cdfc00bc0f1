// Two rules give a schedule up. The first looks at the median of ten steps, and is quick where iterations are a little
// too long. The second keeps a budget: a schedule may cost the time of one iteration, the hundredth part of a hundred,
// and another step that may spend the rest of it is not risked. Both leave room for how far steps at maximum clocks
// differ among themselves.
#include "client/promise_guard.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/median.h"
#include "wire/job_messages.h"

namespace flyball {
namespace {

constexpr double kLeastSpread = 5e-4;        // of steps: a few that happen to be equal tell of no smaller one
constexpr double kDeviations = 3.0;          // of chance that the budget leaves room for
constexpr double kDeviationsOfMedian = 5.0;  // the same of the median, which is looked at after every step
constexpr double kMedianDeviation = 1.2533;  // of a median, in standard deviations of a mean: sqrt(pi / 2)
constexpr double kBudget = 0.8;              // of an iteration, for all that a plan may cost before it is given up
constexpr double kAllowance = 5e-4;          // of a step, that spends nothing
constexpr double kStall = 3.0;               // iterations: no clocks make a step so long that is given up in time
constexpr std::size_t kFewSteps = 4;         // at one clock of a sweep, of which one may be an outlier
constexpr std::int64_t kLongestSilence = 1024;

// Of the last `count`, or all of fewer.
template <class Latest>
double mean(const Latest& latest, std::size_t count) {
  const double* const end = latest.values.data() + latest.size;
  count = std::min(count, latest.size);
  return std::accumulate(end - count, end, 0.0) / static_cast<double>(count);
}

template <class Latest>
double median(Latest latest, std::size_t count) {
  double* const end = latest.values.data() + latest.size;
  double* const begin = end - std::min(count, latest.size);
  double* const middle = begin + (end - begin) / 2;
  std::nth_element(begin, middle, end);
  if ((end - begin) % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(begin, middle));
}

// The standard deviation of one, as a share of `middle`, by the median of the deviations: outliers do not count.
template <class Latest>
double spread(Latest latest, double middle) {
  for (double& value : latest.values) value = std::abs(value / middle - 1.0);
  return kNormalScale * median(latest, latest.size);
}

}  // namespace

void PromiseGuard::adopt(std::int64_t version, double ratio, bool at_maximum, Seconds limited_time) {
  if (version == version_) return;
  version_ = version;
  ratio_ = ratio;
  limited_time_ = limited_time.value();
  at_maximum_ = at_maximum;
  given_up_ = false;
  settling_ = true;
  if (at_maximum) at_maximum_times_.size = 0;
  times_.size = 0;
  iterations_ = 0;
  report_at_ = kMeasuredSteps;
}

bool PromiseGuard::may_set_clocks() const {
  return !at_maximum_ && !given_up_ && (ratio_ == 0.0 || (knows_maximum() && !is_spent()));
}

Seconds PromiseGuard::patience() const {
  return Seconds(ratio_ > 0.0 && may_set_clocks() ? kLateStep * promised() : std::numeric_limits<double>::infinity());
}

std::optional<PromiseGuard::Report> PromiseGuard::count(Step step, Seconds time, bool given_up) {
  if (step == Step::kPlanned) leave_maximum();
  if (limited_time_ > 0.0 && step == Step::kPlanned) return count_limited(time.value());
  if (ratio_ == 0.0) return std::nullopt;
  return step == Step::kAtMaximum ? count_at_maximum(time.value()) : count_planned(time.value(), given_up);
}

void PromiseGuard::leave_maximum() {
  settling_ = true;
  at_maximum_times_.size = 0;
}

void PromiseGuard::count_swept(Megahertz clock, Seconds time) {
  if (knows_maximum()) stalls_ = {};  // another sweep
  reference_ = {};
  leave_maximum();
  if (clock == swept_clock_) return swept_.add(time.value());
  // The first step may have begun at another clock.
  swept_clock_ = clock;
  close_swept_clock();
}

void PromiseGuard::close_swept_clock() {
  if (swept_.size >= kFewSteps) {
    const double middle = median(swept_, swept_.size);
    for (std::size_t i = 0; i < swept_.size; ++i) {
      const double excess = swept_.values[i] / middle - 1.0;
      stalls_.sum += excess;
      stalls_.longest = std::max(stalls_.longest, excess);
    }
    stalls_.steps += static_cast<double>(swept_.size);
  }
  swept_.size = 0;
}

// What the ranks run at maximum clocks for is measured when it is reported, since they begin a schedule that follows
// from the report at different steps.
std::optional<PromiseGuard::Report> PromiseGuard::count_at_maximum(double time) {
  // The first step may have begun at the clocks of the one before.
  if (std::exchange(settling_, false)) return std::nullopt;
  at_maximum_times_.add(time);
  if (knows_maximum()) spend(time / reference_.time - 1.0);  // other ranks may have begun the schedule
  if (!at_maximum_) {
    if (!knows_maximum() && at_maximum_times_.size == kMeasuredSteps) measure_maximum();
    if (!given_up_) return is_spent() ? std::optional(give_up(time)) : std::nullopt;
    ++iterations_;
    return is_report_due() ? std::optional(broken_) : std::nullopt;
  }
  ++iterations_;
  if (!is_report_due()) return std::nullopt;
  measure_maximum();
  return Report{false, iterations_, Seconds(reference_.time), Seconds(reference_.time)};
}

std::optional<PromiseGuard::Report> PromiseGuard::count_planned(double time, bool given_up) {
  // A step whose clocks were given up when it was a little late, and that is far longer nevertheless, waited for
  // something else, such as a checkpoint.
  if (given_up && time > kStall * promised()) return std::nullopt;
  times_.add(time);
  ++iterations_;
  const bool slower = is_slower(time);
  if (!slower && !is_report_due()) return std::nullopt;
  const double latest = mean(times_, kMeasuredSteps);
  if (slower) return give_up(latest);
  return Report{false, iterations_, Seconds(latest), Seconds(reference_.time)};
}

// The first step may have begun at other clocks. There is nothing else to compare with: maximum clocks are not allowed.
std::optional<PromiseGuard::Report> PromiseGuard::count_limited(double time) {
  if (iterations_++ > 0) times_.add(time);
  if (times_.size < kMeasuredSteps || !is_report_due()) return std::nullopt;
  const double middle = median(times_, times_.size);
  const double error =
      std::max(kLeastSpread, spread(times_, middle)) * kMedianDeviation / std::sqrt(static_cast<double>(times_.size));
  const bool slower = middle / limited_time_ - 1.0 > kPromiseTolerance + kDeviationsOfMedian * error;
  return Report{slower, iterations_, Seconds(middle), Seconds(0)};
}

// The report is repeated, since the server may have been away.
PromiseGuard::Report PromiseGuard::give_up(double time) {
  given_up_ = true;
  broken_ = {true, std::max<std::int64_t>(1, iterations_), Seconds(time), Seconds(reference_.time)};
  report_at_ = iterations_ + kMeasuredSteps;
  return broken_;
}

bool PromiseGuard::is_report_due() {
  if (iterations_ < report_at_) return false;
  // The server waits for these.
  const std::int64_t pause = at_maximum_ ? kMeasuredSteps : std::min(report_at_, kLongestSilence);
  while (report_at_ <= iterations_) report_at_ += pause;
  return true;
}

void PromiseGuard::measure_maximum() {
  const std::size_t size = at_maximum_times_.size;
  const double middle = median(at_maximum_times_, size);
  reference_ = {middle, std::max(kLeastSpread, spread(at_maximum_times_, middle)), 0.0, 0.0,
                kMedianDeviation / std::sqrt(static_cast<double>(size))};
  // Other ranks may have begun a schedule in the last of these steps, which therefore is no outlier of maximum clocks.
  spent_ = longest_ = 0.0;
  spend(at_maximum_times_.values[size - 1] / middle - 1.0);
  close_swept_clock();
  reference_.longest = stalls_.longest;
  if (stalls_.steps > 0.0) reference_.excess = std::max(0.0, stalls_.sum / stalls_.steps);
  if (size < kMostMeasured / 2) return;  // a few steps tell nothing of outliers
  const auto* const begin = at_maximum_times_.values.data();
  const auto* const end = begin + size - 1;
  reference_.excess = std::max(0.0, std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin) / middle - 1.0);
  reference_.longest = std::max(stalls_.longest, *std::max_element(begin, end) / middle - 1.0);
}

// The budget is spent by steps in a row (Page's cumulative sum), so that what went well long ago is no credit.
void PromiseGuard::spend(double excess) {
  spent_ += excess - reference_.excess - kAllowance - kDeviations * reference_.spread * reference_.of_spread;
  longest_ = std::max(longest_, excess);
  if (spent_ <= 0.0) spent_ = longest_ = 0.0;
}

bool PromiseGuard::is_spent() const {
  const double next = std::max(0.0, longest_ - reference_.longest);
  return spent_ + next > kBudget + kDeviations * reference_.spread + reference_.longest;
}

bool PromiseGuard::is_slower(double time) {
  spend(time / promised() - 1.0);
  if (is_spent()) return true;
  if (times_.size < kMeasuredSteps) return false;
  const double of_steps = std::max(reference_.spread, spread(times_, median(times_, times_.size)));
  const double of_both = std::hypot(of_steps * kMedianDeviation / std::sqrt(static_cast<double>(kMeasuredSteps)),
                                    of_steps * reference_.of_spread);
  return median(times_, kMeasuredSteps) / promised() - 1.0 > kPromiseTolerance + kDeviationsOfMedian * of_both;
}

}  // namespace flyball
