// Step 0 brings the slow clock; after it, pairs of steps change to the other clock and stay there. The first two pairs
// ask at the step's beginning, and only tell which computations depend on the clock. For each change of the others, the
// moment is the one at which the lengths of the computations that follow would be nearest to those that were measured.
#include "client/change_probe.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include "base/median.h"

namespace flyball {
namespace {

constexpr std::size_t kChanges = 6;
constexpr std::size_t kFirstSteps = 5;  // of which the last two pairs tell what depends on the clock
constexpr std::size_t kSteps = kFirstSteps + 2 * kChanges;
constexpr int kMostRefused = 17;
constexpr std::size_t kBefore = 4;  // one part in so many of a step's computations, before which nothing is asked for
// Computations of a step that are looked at: those that begin within this time of the request, and not more than these.
constexpr Nanoseconds kLongest = 250 * kMillisecond;
constexpr std::size_t kMostComputations = 64;
constexpr double kLeastContrast = 0.05;  // between a computation's times at the two clocks, as a share
constexpr double kOverChance = 3.0;      // the same in deviations of both
constexpr std::size_t kLeastTold = 4;    // changes

bool same_computations(const StepRecord& a, const StepRecord& b) {
  return std::equal(a.spans.begin(), a.spans.end(), b.spans.begin(), b.spans.end(),
                    [](const InstructionSpan& x, const InstructionSpan& y) { return x.type == y.type; });
}

double length_of(const InstructionSpan& span) { return static_cast<double>(span.end - span.begin); }

struct Middle {
  double median;
  double deviation;  // median of the distances from it
};

Middle middle_of(std::vector<double> values) {
  const double median = lower_median(values);
  for (double& value : values) value = std::abs(value - median);
  return {median, lower_median(std::move(values))};
}

// What one of the step's computations takes in each of these steps.
std::vector<double> lengths_of(const std::vector<const StepRecord*>& steps, std::size_t computation) {
  std::vector<double> lengths;
  for (const StepRecord* step : steps) lengths.push_back(length_of(step->spans[computation]));
  return lengths;
}

// What the step's computations, in their order, take at a clock that holds for the whole of them: medians over steps.
std::vector<double> usual_lengths(const std::vector<const StepRecord*>& steps) {
  std::vector<double> usual;
  for (std::size_t i = 0; i < steps.front()->spans.size(); ++i) usual.push_back(lower_median(lengths_of(steps, i)));
  return usual;
}

// Whether a computation takes other times at the two clocks, and not by chance: its lengths in steps at either.
bool differs(const std::vector<const StepRecord*>& slow, const std::vector<const StepRecord*>& fast,
             std::size_t computation) {
  const Middle at_slow = middle_of(lengths_of(slow, computation));
  const Middle at_fast = middle_of(lengths_of(fast, computation));
  return at_slow.median - at_fast.median >=
         std::max(kLeastContrast * at_fast.median, kOverChance * (at_slow.deviation + at_fast.deviation));
}

// What a computation takes that begins at `begin` when the clock changes at `change`.
double length_with(double begin, double before, double after, double change) {
  if (change <= begin) return after;
  if (change >= begin + before) return before;
  const double done = (change - begin) / before;
  return change - begin + (1.0 - done) * after;
}

// How long after the beginning of the step's computation `first` the change took hold, in nanoseconds.
std::optional<double> delay_in(const StepRecord& step, std::size_t first, const std::vector<double>& before,
                               const std::vector<double>& after) {
  const Nanoseconds asked = step.spans[first].begin;
  const auto begin = [&](std::size_t i) { return static_cast<double>(step.spans[i].begin - asked); };
  const auto end = [&](std::size_t i) { return static_cast<double>(step.spans[i].end - asked); };
  const std::size_t most = std::min(step.spans.size(), first + kMostComputations);
  std::size_t last = first;
  while (last < most && step.spans[last].begin - asked <= kLongest) ++last;
  std::vector<double> moments = {0.0};
  for (std::size_t i = first; i < last; ++i) {
    const double share = (after[i] - length_of(step.spans[i])) / (after[i] - before[i]);  // run at the clock before
    if (share > 0.0 && share < 1.0) moments.push_back(begin(i) + share * before[i]);
    if (i > first) moments.push_back(0.5 * (end(i - 1) + begin(i)));  // nothing tells when within a wait
  }
  double best = 0.0;
  double least = std::numeric_limits<double>::infinity();
  for (const double moment : moments) {
    double error = 0.0;
    for (std::size_t i = first; i < last; ++i) {
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

std::optional<ChangeProbe::Request> ChangeProbe::step_begin() {
  const std::scoped_lock lock(mutex_);
  if (finished_) return std::nullopt;
  return Request{clock_of(steps_.size()), computation_};
}

void ChangeProbe::step_end(StepRecord step) {
  const std::scoped_lock lock(mutex_);
  if (finished_) return;
  if (step.in_effect == 0 || step.spans.empty()) {
    // Which clock the next step begins with is not known.
    steps_.clear();
    computation_ = 0;
    finished_ = ++refused_ > kMostRefused;
    return;
  }
  steps_.push_back(std::move(step));
  if (steps_.size() == kFirstSteps) choose_computation();
  if (steps_.size() < kSteps) return;
  finished_ = true;
  evaluate();
  steps_.clear();
}

// Of the type of computation that the clock makes the greatest difference to in a whole step: the first of that type
// that is not among the step's first computations, where there is one.
void ChangeProbe::choose_computation() {
  const StepRecord& fast = steps_[kFirstSteps - 3];
  const StepRecord& slow = steps_[kFirstSteps - 1];
  if (!same_computations(fast, slow)) return;
  std::map<std::uint16_t, double> differences;
  for (std::size_t i = 0; i < fast.spans.size(); ++i) {
    differences[fast.spans[i].type] += length_of(slow.spans[i]) - length_of(fast.spans[i]);
  }
  const std::uint16_t type = std::max_element(differences.begin(), differences.end(), [](const auto& a, const auto& b) {
                               return a.second < b.second;
                             })->first;
  const auto is_chosen = [type](const InstructionSpan& span) { return span.type == type; };
  const auto begin = fast.spans.begin();
  auto found =
      std::find_if(begin + static_cast<std::ptrdiff_t>(fast.spans.size() / kBefore), fast.spans.end(), is_chosen);
  if (found == fast.spans.end()) found = std::find_if(begin, fast.spans.end(), is_chosen);
  computation_ = static_cast<std::size_t>(found - begin);
}

void ChangeProbe::evaluate() {
  for (const StepRecord& step : steps_) {
    if (!same_computations(step, steps_.front())) return;
  }
  std::vector<const StepRecord*> held_slow;
  std::vector<const StepRecord*> held_fast;
  for (std::size_t i = 2; i < kSteps; i += 2) (clock_of(i) == slow_ ? held_slow : held_fast).push_back(&steps_[i]);
  if (!differs(held_slow, held_fast, computation_)) return;
  const std::vector<double> slow = usual_lengths(held_slow);
  const std::vector<double> fast = usual_lengths(held_fast);
  std::vector<double> delays;
  for (std::size_t i = kFirstSteps; i < kSteps; i += 2) {
    const bool to_slow = clock_of(i) == slow_;
    const auto delay = delay_in(steps_[i], computation_, to_slow ? fast : slow, to_slow ? slow : fast);
    if (delay) delays.push_back(*delay);
  }
  if (delays.size() < kLeastTold) return;
  const Middle middle = middle_of(std::move(delays));
  if (middle.deviation > 0.5 * middle.median) return;
  delay_ = to_seconds(static_cast<Nanoseconds>(std::llround(middle.median)));
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
