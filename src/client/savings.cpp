// A stretch is a sample of the iterations that it stands for: its mean energy counts for all of them. The first step
// after a change of kind is left out, since it may have begun at other clocks.
//
// When a stretch has as many windows as it can hold, each two of them become one, so that a stretch of any length has
// eight to sixteen. Windows are long enough for counters that change every 100 ms.
#include "client/savings.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace flyball {
namespace {

constexpr std::int64_t kLeastSteps = 5;                   // whose mean energy counts
constexpr Nanoseconds kLeastWindow = 400 * kMillisecond;  // four changes of a slow counter
constexpr std::size_t kHalf = Stretch::kMostWindows / 2;

}  // namespace

void Stretches::count(PromiseGuard::Step kind, Nanoseconds begin, Nanoseconds end, std::int64_t version) {
  if (kind == PromiseGuard::Step::kPlanned) ++since_.iterations;
  if (kind != kind_) {
    kind_ = kind;
    running_ = {};
    return;
  }
  if (running_.steps == 0 || running_.version != version || end - running_.begin > longest_) {
    running_ = {};
    running_.begin = begin;
    running_.version = version;
  }
  extend(end);
  if (running_.steps < kLeastSteps) return;
  if (kind == PromiseGuard::Step::kSweep) return;
  Stretch& kept = kind == PromiseGuard::Step::kPlanned ? since_.planned : since_.at_maximum;
  // A stretch that has only begun tells less than the one before.
  if (kept.version == running_.version && kept.begin != running_.begin && running_.steps < kept.steps / 2) return;
  kept = running_;
}

void Stretches::extend(Nanoseconds end) {
  running_.end = end;
  ++running_.steps;
  const auto windows = static_cast<std::int64_t>(running_.windows);
  if (running_.steps - windows * running_.steps_of_window < running_.steps_of_window) return;
  if (windows == 0 && end - running_.begin < kLeastWindow) {
    ++running_.steps_of_window;
    return;
  }
  running_.window_ends[running_.windows++] = end;
  if (running_.windows < Stretch::kMostWindows) return;
  for (std::size_t i = 0; i < kHalf; ++i) running_.window_ends[i] = running_.window_ends[2 * i + 1];
  running_.windows = kHalf;
  running_.steps_of_window *= 2;
}

Stretches::Taken Stretches::take() {
  running_ = {};
  Taken taken = std::exchange(since_, {});
  for (Stretch* stretch : {&taken.planned, &taken.at_maximum}) {
    if (stretch->windows == 0) continue;
    stretch->end = stretch->window_ends[stretch->windows - 1];
    stretch->steps = static_cast<std::int64_t>(stretch->windows) * stretch->steps_of_window;
  }
  return taken;
}

std::optional<Savings::Measured> Savings::measure(const Stretch& stretch, const Counter& energy) {
  if (stretch.steps == 0) return std::nullopt;
  Measured measured;
  measured.version = stretch.version;
  Nanoseconds begin = stretch.begin;
  const std::size_t windows = std::max<std::size_t>(1, stretch.windows);
  const std::int64_t steps = stretch.steps / static_cast<std::int64_t>(windows);
  for (std::size_t i = 0; i < windows; ++i) {
    const Nanoseconds end = stretch.windows == 0 ? stretch.end : stretch.window_ends[i];
    const auto took = energy(begin, end);
    if (!took) return std::nullopt;
    measured.energy.add(steps, took->value());
    measured.time.add(steps, to_seconds(end - begin).value());
    begin = end;
  }
  return measured;
}

void Savings::merge(Measured& into, const Measured& more) {
  if (into.version != more.version) {
    into = more;
  } else {
    into.energy.add(more.energy);
    into.time.add(more.time);
  }
}

void Savings::add(const Stretches::Taken& taken, const Counter& energy) {
  if (const auto at_maximum = measure(taken.at_maximum, energy)) merge(at_maximum_, *at_maximum);
  const auto planned = measure(taken.planned, energy);
  if (planned) merge(planned_, *planned);
  if (!planned || at_maximum_.energy.windows() == 0) return;
  const auto iterations = static_cast<double>(taken.iterations);
  so_far_.iterations += taken.iterations;
  so_far_.energy += Joules(planned->energy.mean() * iterations);
  so_far_.energy_at_maximum += Joules(at_maximum_.energy.mean() * iterations);
  so_far_.time += Seconds(planned->time.mean() * iterations);
  so_far_.time_at_maximum += Seconds(at_maximum_.time.mean() * iterations);
  const auto square = [](double value) { return value * value; };
  energy_squares_ += square(planned->energy.error() * iterations);
  time_squares_ += square(planned->time.error() * iterations);
  energy_error_at_maximum_ += Joules(at_maximum_.energy.error() * iterations);
  time_error_at_maximum_ += Seconds(at_maximum_.time.error() * iterations);
  so_far_.energy_error = Joules(std::hypot(energy_error_at_maximum_.value(), std::sqrt(energy_squares_)));
  so_far_.time_error = Seconds(std::hypot(time_error_at_maximum_.value(), std::sqrt(time_squares_)));
}

IterationEnergy Savings::of_iteration(std::int64_t version) const {
  const WindowMean none;
  const WindowMean& planned = planned_.version == version ? planned_.energy : none;
  return {Joules(planned.mean()), Joules(planned.error()), Joules(at_maximum_.energy.mean()),
          Joules(at_maximum_.energy.error())};
}

}  // namespace flyball
