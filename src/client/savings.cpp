// A stretch is a sample of the iterations that it stands for: its mean energy counts for all of them. The first step
// after a change of kind is left out, since it may have begun at other clocks.
#include "client/savings.h"

#include <utility>

namespace flyball {
namespace {

constexpr Nanoseconds kLongestStretch = 40'000 * kMillisecond;  // the sampler remembers a minute
constexpr std::int64_t kLeastSteps = 5;                         // whose mean energy counts

}  // namespace

void Stretches::count(PromiseGuard::Step kind, Nanoseconds begin, Nanoseconds end) {
  if (kind == PromiseGuard::Step::kPlanned) ++since_.iterations;
  if (kind != kind_) {
    kind_ = kind;
    running_ = {};
    return;
  }
  if (running_.steps == 0 || end - running_.begin > kLongestStretch) running_ = {begin, begin, 0};
  running_.end = end;
  ++running_.steps;
  if (running_.steps < kLeastSteps) return;
  if (kind == PromiseGuard::Step::kPlanned) since_.planned = running_;
  if (kind == PromiseGuard::Step::kAtMaximum) since_.at_maximum = running_;
}

Stretches::Taken Stretches::take() {
  running_ = {};
  return std::exchange(since_, {});
}

void Savings::add(const Stretches::Taken& taken, const Counter& energy) {
  const auto of_one = [&](const Stretch& stretch) -> std::optional<Joules> {
    if (stretch.steps == 0) return std::nullopt;
    const auto all = energy(stretch.begin, stretch.end);
    return all ? std::optional(*all / static_cast<double>(stretch.steps)) : std::nullopt;
  };
  const auto time_of_one = [](const Stretch& stretch) {
    return to_seconds(stretch.end - stretch.begin) / static_cast<double>(stretch.steps);
  };
  if (const auto at_maximum = of_one(taken.at_maximum)) {
    at_maximum_ = at_maximum;
    time_at_maximum_ = time_of_one(taken.at_maximum);
  }
  const auto planned = of_one(taken.planned);
  if (!planned || !at_maximum_) return;
  const auto iterations = static_cast<double>(taken.iterations);
  so_far_.iterations += taken.iterations;
  so_far_.energy += *planned * iterations;
  so_far_.energy_at_maximum += *at_maximum_ * iterations;
  so_far_.time += time_of_one(taken.planned) * iterations;
  so_far_.time_at_maximum += time_at_maximum_ * iterations;
}

}  // namespace flyball
