// The training thread adds steps to what is collected for the current clock; complete clocks wait in a list until the
// counter's changes have passed their end, and evaluate() then solves for their powers outside the lock. When the
// energy has stopped falling, the clocks not yet measured are dropped, and those to be measured again come next.
#include "client/online_profiler.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "client/instruction_types.h"

namespace flyball {
namespace {

// A clock is measured again if an instruction's runs spread by more than kUnsteady of their median, and by more than
// kFarBeyondTheSteadiest times what they do at the steadiest clock of the sweep: runs that differ by themselves do so
// at every clock.
constexpr double kUnsteady = 0.05;
constexpr double kFarBeyondTheSteadiest = 4.0;
constexpr int kMostAttempts = 4;
constexpr std::size_t kLeastRuns = 8;  // fewer tell no spread

// The range of the middle half of an instruction's runs over their median, for the instruction with the widest.
double spread_of(const std::vector<InstructionSpan>& spans) {
  std::vector<std::vector<Nanoseconds>> lengths;
  for (const InstructionSpan& span : spans) {
    if (span.type >= lengths.size()) lengths.resize(span.type + 1u);
    lengths[span.type].push_back(span.end - span.begin);
  }
  double widest = 0.0;
  for (std::vector<Nanoseconds>& of_type : lengths) {
    if (of_type.size() < kLeastRuns) continue;
    std::sort(of_type.begin(), of_type.end());
    const auto at = [&](std::size_t quarter) {
      return static_cast<double>(of_type[quarter * (of_type.size() - 1) / 4]);
    };
    if (at(2) > 0.0) widest = std::max(widest, (at(3) - at(1)) / at(2));
  }
  return widest;
}

// Marks the first and the last run of each type in a step.
void mark_ends(std::vector<InstructionSpan>& spans) {
  std::array<std::size_t, kMostInstructionTypes> counts{};
  for (const InstructionSpan& span : spans) ++counts[span.type];
  std::array<std::size_t, kMostInstructionTypes> done{};
  for (InstructionSpan& span : spans) {
    const std::size_t index = done[span.type]++;
    if (counts[span.type] >= kLeastForOwn) span.of = microbatches_at(index, counts[span.type]);
  }
}

std::vector<Megahertz> every(const std::vector<Megahertz>& clocks, int stride) {
  std::vector<Megahertz> chosen;
  for (std::size_t i = 0; i < clocks.size(); i += static_cast<std::size_t>(stride)) chosen.push_back(clocks[i]);
  return chosen;
}

}  // namespace

std::vector<InstructionMeasurement> measurements_of(const ProfiledClock& measured,
                                                    const std::function<std::string(std::size_t)>& name,
                                                    double time_scale) {
  std::vector<InstructionMeasurement> all;
  const auto add = [&](std::string instruction, const InstructionEstimate& one) {
    if (one.samples == 0 || !(one.energy > Joules(0))) return;
    all.push_back({std::move(instruction), measured.clock, one.time * time_scale, one.energy,
                   static_cast<std::int64_t>(one.samples), one.time_deviation * time_scale});
  };
  const ActivityEstimate& activity = measured.activity;
  for (std::size_t type = 0; type < activity.types.size(); ++type) {
    add(name(type), activity.types[type]);
    if (!is_computation(name(type))) continue;
    add(own_name(name(type), Microbatches::kFirst), activity.first[type]);
    add(own_name(name(type), Microbatches::kLast), activity.last[type]);
  }
  return all;
}

OnlineProfiler::OnlineProfiler(const std::vector<Megahertz>& clocks, Options options)
    : options_(options), clocks_(every(clocks, std::max(1, options.clock_stride))), falling_(clocks_.size()) {
  assert(!clocks_.empty() && options_.steps_per_clock >= 1 && options_.rises_to_stop >= 1);
  warm_up_left_ = options_.warm_up_steps;
}

std::optional<Megahertz> OnlineProfiler::step_begin() {
  const std::scoped_lock lock(mutex_);
  if (swept_) return std::nullopt;
  jumped_ = false;
  return clocks_[current_];
}

void OnlineProfiler::step_end(StepRecord step) {
  const std::scoped_lock lock(mutex_);
  if (swept_ || jumped_) return;
  // The moment from which on the clock had held long enough for the power to have followed. If it is not within the
  // first half of the step, too little of the step is left.
  const Nanoseconds from = std::max(step.begin, step.in_effect + options_.settle);
  if (step.in_effect == 0 || from - step.begin > (step.end - step.begin) / 2) {
    collecting_ = {};
    return;
  }
  if (warm_up_left_ > 0) {
    --warm_up_left_;
    return;
  }
  mark_ends(step.spans);
  if (collecting_.steps == 0) collecting_.from = from;
  collecting_.clock = clocks_[current_];
  collecting_.until = step.end;
  ++collecting_.steps;
  collecting_.spans.insert(collecting_.spans.end(), step.spans.begin(), step.spans.end());
  if (!collected_enough()) return;
  const double spread = spread_of(collecting_.spans);
  if (attempts_++ == 0 || spread < spread_) {
    spread_ = spread;
    steadiest_ = std::move(collecting_);
  }
  collecting_ = {};
  const bool unsteady = spread_ > kUnsteady && (!least_spread_ || spread_ > kFarBeyondTheSteadiest * *least_spread_);
  if (unsteady && attempts_ < kMostAttempts) return;
  attempts_ = 0;
  least_spread_ = std::min(spread_, least_spread_.value_or(spread_));
  complete_.push_back(std::exchange(steadiest_, {}));
  if (++current_ == clocks_.size()) {
    swept_ = true;
    current_ = clocks_.size() - 1;
  }
}

// Short steps have few changes of the counter, and energies that differ by chance by a per cent: a planner takes the
// lowest, and promises what nobody saves.
bool OnlineProfiler::collected_enough() const {
  if (collecting_.steps < options_.steps_per_clock) return false;
  if (collecting_.steps >= kMostTimesTheSteps * options_.steps_per_clock) return true;
  return collecting_.until - collecting_.from >= options_.least_readings * counter_period_;
}

ProfiledClock OnlineProfiler::measure(const Collected& collected, std::size_t type_count) const {
  ProfiledClock result;
  result.clock = collected.clock;
  result.activity =
      estimate_activity(collected.spans, points_, collected.from, collected.until, type_count, lag_.found());
  result.step_time = to_seconds(collected.until - collected.from) / collected.steps;
  std::vector<int> runs(type_count, 0);
  for (const InstructionSpan& span : collected.spans) ++runs[span.type];
  for (std::size_t type = 0; type < type_count; ++type) {
    result.step_energy += result.activity.types[type].energy * (static_cast<double>(runs[type]) / collected.steps);
  }
  return result;
}

std::vector<ProfiledClock> OnlineProfiler::evaluate(const CounterSource& counter, std::size_t type_count) {
  const CounterNews news = counter(points_.empty() ? 0 : points_.back().time);
  points_.insert(points_.end(), news.changes.begin(), news.changes.end());
  if (points_.size() > 1) {
    const auto changes = static_cast<Nanoseconds>(points_.size() - 1);
    const std::scoped_lock lock(mutex_);
    counter_period_ = (points_.back().time - points_.front().time) / changes;
  }
  std::vector<ProfiledClock> results;
  while (true) {
    Collected collected;
    {
      const std::scoped_lock lock(mutex_);
      if (complete_.empty() || stopped_ || complete_.front().until > news.settled) break;
      collected = std::move(complete_.front());
      complete_.erase(complete_.begin());
    }
    lag_.add(collected.spans, points_, collected.from, collected.until, type_count);
    results.push_back(measure(collected, type_count));
    ProfiledClock& result = results.back();
    // If the counter did not change, nothing follows about the energy.
    result.complete = result.activity.equations > 0 && (!news.whole || news.whole(collected.from, collected.until));
    const auto later = std::lower_bound(points_.begin(), points_.end(), collected.until,
                                        [](const CounterPoint& point, Nanoseconds time) { return point.time < time; });
    // The last point before the end stays: the next clock's first equation may begin there.
    if (later != points_.begin()) points_.erase(points_.begin(), later - 1);
    const std::scoped_lock lock(mutex_);
    const bool falls = static_cast<std::size_t>(evaluated_++) < falling_;
    if (falls && result.complete) energy_rises_.add(result.step_energy);
    if (falls && !result.complete) {
      result.again = true;
      clocks_.push_back(result.clock);
      if (std::exchange(swept_, false)) current_ = clocks_.size() - 1;
    }
    if (energy_rises_.rises() >= options_.rises_to_stop) stop();
  }
  return results;
}

// Ends the fall of the clocks, since lower ones are not worth measuring. Those to be measured again come at once.
void OnlineProfiler::stop() {
  const auto measured = static_cast<std::size_t>(evaluated_);
  if (measured >= falling_) return;
  jumped_ = true;
  complete_.clear();
  collecting_ = {};
  steadiest_ = {};
  attempts_ = 0;
  if (clocks_.size() == falling_) {
    swept_ = stopped_ = true;
    return;
  }
  clocks_.erase(clocks_.begin() + evaluated_, clocks_.begin() + static_cast<std::ptrdiff_t>(falling_));
  falling_ = current_ = measured;
  swept_ = false;
}

SweepProgress OnlineProfiler::progress() const {
  const std::scoped_lock lock(mutex_);
  const auto most = static_cast<int>(clocks_.size());
  return {evaluated_, most, stopped_ || evaluated_ == most};
}

}  // namespace flyball
