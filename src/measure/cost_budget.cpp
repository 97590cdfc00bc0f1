// Looks once a second, from 1.5 s on: sums of time, processor time and rounds are halved at each look, which makes
// them means of about the last two seconds, and the k of the header follows from them.
#include "measure/cost_budget.h"

#include <algorithm>
#include <cmath>

#include "base/processors.h"

namespace flyball {
namespace {

constexpr Nanoseconds kLook = 1'000'000'000;
// During this time the sensors' rhythms are found, for which every round is needed.
constexpr Nanoseconds kBegin = 1'500'000'000;
constexpr double kLongestSeconds = 0.1;
constexpr double kUsualShare = 0.001;
constexpr double kSamplingPart = 0.7;
constexpr double kSpare = 1.1;
constexpr double kTooLarge = 0.8;
constexpr double kDearPart = 2.0 / 3.0;
// Where nearly every round is needed, there is nothing to save.
constexpr double kNearlyAll = 0.9;

}  // namespace

double usual_sampling_cost() { return kSamplingPart * kUsualShare * usable_processors(); }

CostBudget::CostBudget(double most, Nanoseconds period, Nanoseconds begin)
    : most_(most),
      period_s_(to_seconds(period).value()),
      most_periods_(std::max<std::int64_t>(1, static_cast<std::int64_t>(kLongestSeconds / period_s_ + 1e-9))),
      next_look_(begin + kBegin) {}

Nanoseconds CostBudget::dear_interval(Nanoseconds processor_time) const {
  constexpr double kLongestNanoseconds = 1e9;
  return static_cast<Nanoseconds>(
      std::min(kLongestNanoseconds, static_cast<double>(processor_time) / (kDearPart * most_)));
}

void CostBudget::count_round(bool needed, Nanoseconds late, Nanoseconds dear) {
  latest_.dear_seconds += to_seconds(dear).value();
  latest_.rounds += 1.0;
  latest_.needed += needed ? 1.0 : 0.0;
  latest_.seconds -= to_seconds(late).value();
}

void CostBudget::look(Nanoseconds now, Nanoseconds processor_time) {
  if (last_look_ != 0) {
    // On a machine that is so busy that every round comes late, each stands for the period that it should have taken.
    const double seconds = latest_.seconds + to_seconds(now - last_look_).value();
    sums_.seconds = sums_.seconds / 2.0 + std::max(seconds, latest_.rounds * period_s_);
    sums_.processor_seconds = sums_.processor_seconds / 2.0 + to_seconds(processor_time - processor_time_).value();
    sums_.rounds = sums_.rounds / 2.0 + latest_.rounds;
    sums_.needed = sums_.needed / 2.0 + latest_.needed;
    sums_.dear_seconds = sums_.dear_seconds / 2.0 + latest_.dear_seconds;
    choose();
  }
  latest_ = {};
  processor_time_ = processor_time;
  last_look_ = now;
  next_look_ = now + kLook;
}

void CostBudget::choose() {
  if (sums_.rounds <= 0.0 || sums_.seconds <= 0.0) return;
  const double needed = sums_.needed / sums_.seconds;
  if (needed > kNearlyAll / period_s_) return;
  const double cost = std::max(0.0, sums_.processor_seconds - sums_.dear_seconds) / sums_.rounds;
  const double room = most_ - sums_.dear_seconds / sums_.seconds - cost * needed;
  const double wanted = room > 0.0 ? cost * (1.0 / period_s_ - needed) / room : HUGE_VAL;
  const auto at_least = [&](double k) {
    return static_cast<std::int64_t>(std::ceil(std::clamp(k, 1.0, static_cast<double>(most_periods_))));
  };
  if (wanted > static_cast<double>(periods_)) {
    periods_ = at_least(wanted);
  } else if (wanted < kTooLarge * static_cast<double>(periods_)) {
    periods_ = std::min(periods_, at_least(kSpare * wanted));
  }
}

}  // namespace flyball
