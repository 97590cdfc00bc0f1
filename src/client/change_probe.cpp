// Step 0 brings the slow clock; after it, pairs of steps change to the other clock and stay there. For each change, the
// moment is the one at which the lengths of the step's first computations would be nearest to those that were measured.
#include "client/change_probe.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "base/median.h"

namespace flyball {
namespace {

constexpr std::size_t kChanges = 6;
constexpr std::size_t kSteps = 1 + 2 * kChanges;
constexpr int kMostRefused = 13;
// Computations of a step that are looked at: those that begin within this time of the request, and not more than these.
constexpr Nanoseconds kLongest = 250 * kMillisecond;
constexpr std::size_t kMostComputations = 64;
constexpr double kLeastContrast = 0.05;  // between a computation's times at the two clocks, as a share
constexpr std::size_t kLeastTold = 4;    // changes

bool same_computations(const StepRecord& a, const StepRecord& b) {
  return std::equal(a.spans.begin(), a.spans.end(), b.spans.begin(), b.spans.end(),
                    [](const InstructionSpan& x, const InstructionSpan& y) { return x.type == y.type; });
}

double length_of(const InstructionSpan& span) { return static_cast<double>(span.end - span.begin); }

// What the step's computations, in their order, take at a clock that holds for the whole of them: medians over steps.
std::vector<double> lengths_of(const std::vector<const StepRecord*>& steps) {
  std::vector<double> lengths;
  for (std::size_t i = 0; i < steps.front()->spans.size(); ++i) {
    std::vector<double> of_steps;
    for (const StepRecord* step : steps) of_steps.push_back(length_of(step->spans[i]));
    lengths.push_back(lower_median(std::move(of_steps)));
  }
  return lengths;
}

// What a computation takes that begins at `begin` when the clock changes at `change`.
double length_with(double begin, double before, double after, double change) {
  if (change <= begin) return after;
  if (change >= begin + before) return before;
  const double done = (change - begin) / before;
  return change - begin + (1.0 - done) * after;
}

// How long after the begin of the step's first computation the change took hold, in nanoseconds.
std::optional<double> delay_in(const StepRecord& step, const std::vector<double>& before,
                               const std::vector<double>& after) {
  const Nanoseconds asked = step.spans.front().begin;
  const auto begin = [&](std::size_t i) { return static_cast<double>(step.spans[i].begin - asked); };
  const auto end = [&](std::size_t i) { return static_cast<double>(step.spans[i].end - asked); };
  std::size_t count = 0;
  while (count < std::min(step.spans.size(), kMostComputations) && step.spans[count].begin - asked <= kLongest) ++count;
  if (std::abs(after[0] - before[0]) < kLeastContrast * after[0]) return std::nullopt;
  std::vector<double> moments = {0.0};
  for (std::size_t i = 0; i < count; ++i) {
    const double share = (after[i] - length_of(step.spans[i])) / (after[i] - before[i]);  // run at the clock before
    if (share > 0.0 && share < 1.0) moments.push_back(begin(i) + share * before[i]);
    if (i > 0) moments.push_back(0.5 * (end(i - 1) + begin(i)));  // nothing tells when within a wait
  }
  double best = 0.0;
  double least = std::numeric_limits<double>::infinity();
  for (const double moment : moments) {
    double error = 0.0;
    for (std::size_t i = 0; i < count; ++i) {
      error += std::abs(length_with(begin(i), before[i], after[i], moment) - length_of(step.spans[i]));
    }
    if (error < least) {
      least = error;
      best = moment;
    }
  }
  return best;
}

}  // namespace

ChangeProbe::ChangeProbe(Megahertz fast, Megahertz slow) : fast_(fast), slow_(slow) { assert(slow < fast); }

// Slow; fast, fast; slow, slow; ...
Megahertz ChangeProbe::clock_of(std::size_t step) const { return (step + 1) / 2 % 2 == 0 ? slow_ : fast_; }

std::optional<Megahertz> ChangeProbe::step_begin() {
  const std::scoped_lock lock(mutex_);
  if (finished_) return std::nullopt;
  return clock_of(steps_.size());
}

void ChangeProbe::step_end(StepRecord step) {
  const std::scoped_lock lock(mutex_);
  if (finished_) return;
  if (step.in_effect == 0 || step.spans.empty()) {
    // Which clock the next step begins with is not known.
    steps_.clear();
    finished_ = ++refused_ > kMostRefused;
    return;
  }
  steps_.push_back(std::move(step));
  if (steps_.size() < kSteps) return;
  finished_ = true;
  evaluate();
  steps_.clear();
}

void ChangeProbe::evaluate() {
  for (const StepRecord& step : steps_) {
    if (!same_computations(step, steps_.front())) return;
  }
  std::vector<const StepRecord*> held_slow;
  std::vector<const StepRecord*> held_fast;
  for (std::size_t i = 2; i < kSteps; i += 2) (clock_of(i) == slow_ ? held_slow : held_fast).push_back(&steps_[i]);
  const std::vector<double> slow = lengths_of(held_slow);
  const std::vector<double> fast = lengths_of(held_fast);
  std::vector<double> delays;
  for (std::size_t i = 1; i < kSteps; i += 2) {
    const bool to_slow = clock_of(i) == slow_;
    if (const auto delay = delay_in(steps_[i], to_slow ? fast : slow, to_slow ? slow : fast)) delays.push_back(*delay);
  }
  if (delays.size() < kLeastTold) return;
  const double median = lower_median(delays);
  std::vector<double> deviations;
  for (const double delay : delays) deviations.push_back(std::abs(delay - median));
  if (lower_median(deviations) > 0.5 * median) return;
  delay_ = to_seconds(static_cast<Nanoseconds>(std::llround(median)));
}

bool ChangeProbe::finished() const {
  const std::scoped_lock lock(mutex_);
  return finished_;
}

std::optional<Seconds> ChangeProbe::delay() const {
  const std::scoped_lock lock(mutex_);
  return delay_;
}

}  // namespace flyball
