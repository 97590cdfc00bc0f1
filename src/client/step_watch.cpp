// What is slow is told when it begins, when it changes, and when it is over; of transfers only what is slow enough to
// matter.
#include "client/step_watch.h"

#include <cmath>
#include <utility>

namespace flyball {
namespace {

constexpr double kLeastCounted = 0.05;  // share of the computations that tell how fast all are
// Of the shortest transfer of a step over the profile's mean, which may hold some waiting.
constexpr double kLeastOfTransfer = 0.3;

}  // namespace

void StepWatch::adopt(const std::shared_ptr<const ComputingTimes>& times, std::int64_t step) {
  if (times == times_) return;
  times_ = times;
  step_ = {};
  for (Watched& one : watched_) {
    const bool transfer = &one != watched_.data();
    if (one.told) one.change = PaceWatch::Change{1.0, step};
    one.told = false;
    one.last = 0.0;
    one.watch = transfer ? PaceWatch(std::log(kLeastOfTransfer)) : PaceWatch();
  }
}

void StepWatch::add(std::uint16_t type, Megahertz clock, Seconds time) {
  count(type, clock > Megahertz(0) ? times_->at(type, clock) : Seconds(0), time);
}

void StepWatch::add(std::uint16_t type, Megahertz clock, Megahertz before, Seconds since, Seconds time) {
  count(type, times_->after_change(type, clock, before, since), time);
}

void StepWatch::count(std::uint16_t type, Seconds usual, Seconds time) {
  if (const PaceOf kind = times_->kind_of(type); kind != PaceOf::kComputing) {
    double& shortest = step_.transfers[static_cast<std::size_t>(kind)];
    const double pace = time / times_->of_transfer(type);
    if (shortest == 0.0 || pace < shortest) shortest = pace;
    return;
  }
  step_.computed += time;
  if (!(usual > Seconds(0))) return;
  step_.measured += time;
  step_.expected += usual;
}

void StepWatch::step_end(std::int64_t step) {
  const Step ended = std::exchange(step_, {});
  Watched& computing = watched(PaceOf::kComputing);
  if (ended.expected > Seconds(0) && ended.measured >= kLeastCounted * ended.computed) {
    if (const auto change = computing.watch.count(step, ended.measured, ended.expected)) {
      computing.change = change;
      computing.told = change->slowdown > 1.0;
    }
  }
  for (std::size_t kind = 1; kind < watched_.size(); ++kind)
    count_transfer(watched_[kind], ended.transfers[kind], step);
}

void StepWatch::count_transfer(Watched& one, double pace, std::int64_t step) {
  one.last = 0.0;
  if (pace == 0.0) return;
  const auto change = one.watch.count(step, Seconds(pace), Seconds(1));
  if (one.watch.is_watching()) one.last = pace / one.watch.usual();
  if (!change) return;
  const bool slow = change->slowdown >= kLeastSlowTransfer;
  if (slow || one.told) one.change = slow ? *change : PaceWatch::Change{1.0, change->since};
  one.told = slow;
}

std::optional<PaceWatch::Change> StepWatch::take_change(PaceOf of) {
  return std::exchange(watched(of).change, std::nullopt);
}

}  // namespace flyball
