// What is slow is told when it begins, when it changes, and when it is over; of transfers only what is slow enough to
// matter.
#include "client/step_watch.h"

#include <cmath>

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
  for (std::uint16_t type = 0; type < kMostInstructionTypes; ++type) {
    if (drift(type) > 0.0) drifts_due_ = true;
  }
  drift_.begin_anew();
  for (Watched& one : watched_) {
    const bool transfer = &one != watched_.data();
    if (one.told) one.change = PaceWatch::Change{1.0, step};
    one.told = false;
    one.last = 0.0;
    one.watch = transfer ? PaceWatch(std::log(kLeastOfTransfer)) : PaceWatch();
  }
}

void StepWatch::add(std::uint16_t type, Megahertz clock, Seconds time, Microbatches of) {
  count(type, clock > Megahertz(0) ? times_->at(type, clock, of) : Seconds(0), time);
}

void StepWatch::add(std::uint16_t type, Megahertz clock, Megahertz before, Seconds since, Seconds time,
                    Microbatches of) {
  count(type, times_->after_change(type, clock, before, since, of), time);
}

void StepWatch::count(std::uint16_t type, Seconds usual, Seconds time) {
  if (const PaceOf kind = times_->kind_of(type); kind != PaceOf::kComputing) {
    double& shortest = step_.transfers[static_cast<std::size_t>(kind)];
    const double pace = time / times_->of_transfer(type);
    if (shortest == 0.0 || pace < shortest) shortest = pace;
    return;
  }
  Computed& computed = step_.types[type];
  computed.all += time;
  ++computed.spans;
  if (!(usual > Seconds(0))) return;
  ++computed.counted;
  computed.measured += time;
  computed.expected += usual;
}

void StepWatch::step_end(std::int64_t step) {
  const Step ended = std::exchange(step_, {});
  count_computed(ended, step);
  for (std::size_t kind = 1; kind < watched_.size(); ++kind)
    count_transfer(watched_[kind], ended.transfers[kind], step);
}

void StepWatch::count_computed(const Step& ended, std::int64_t step) {
  Computed all;
  for (std::uint16_t type = 0; type < kMostInstructionTypes; ++type) {
    const Computed& one = ended.types[type];
    if (one.spans == 0) continue;
    all.all += one.all;
    all.measured += one.measured;
    all.expected += one.expected;
    // Microbatches differ, such as the first backward from the others, and a few of them do not stand for all.
    if (one.counted == 0 || 2 * one.counted < one.spans) continue;
    if (drift_.count(type, one.measured, one.expected)) drifts_due_ = true;
  }
  if (!(all.expected > Seconds(0)) || all.measured < kLeastCounted * all.all) return;
  Watched& computing = watched(PaceOf::kComputing);
  const auto change = computing.watch.count(step, all.measured, all.expected);
  if (!change) return;
  computing.change = change;
  computing.told = change->slowdown > 1.0;
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
