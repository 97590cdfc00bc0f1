// Two cumulative sums, of steps that are slower and faster than the present pace, tell when the pace has changed; the
// median of the steps since then is the new one. Between changes the pace follows its steps slowly.
#include "client/pace_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/median.h"

namespace flyball {
namespace {

constexpr double kDeviationsAllowed = 2.2;  // of a step, that an allowance is at least
constexpr double kThreshold = 2.5;          // allowances
constexpr double kCutOff = 2.2;             // allowances: two outliers in a row stay below the threshold
constexpr double kFollowing = 0.1;          // share of a residual by which the pace follows
constexpr double kMostFollowed = 0.006;     // of a residual
constexpr double kLeastDeviation = 2e-4;
constexpr double kDeviationOfMedian = 1.2533;  // of a median, in standard deviations of a mean: sqrt(pi / 2)
constexpr double kMostCredible = 0.4;          // pace
constexpr double kMostDeviation = 0.1;         // of steps that tell anything
constexpr double kReportedAgain = 0.01;        // change of a slow-down
constexpr double kRounding = 1e-9;
constexpr double kRemainder = 0.35;       // of a slow-down, with which it counts as over
constexpr std::size_t kAgreeing = 3;      // steps that make a level
constexpr std::size_t kEnough = 5;        // steps, with which a change is told whether they agree or not
constexpr double kAgreement = 0.05;       // of paces, at least
constexpr std::size_t kRefinedAfter = 9;  // steps

}  // namespace

std::optional<PaceWatch::Change> PaceWatch::count(std::int64_t step, Seconds measured, Seconds expected) {
  const double pace = std::log(measured / expected);
  if (!std::isfinite(pace)) return std::nullopt;
  if (recent_.count > 0) {
    differences_.add(std::abs(pace - recent_.values[(recent_.count - 1) % kReferenceSteps]));
  }
  recent_.add(pace);
  if (!watching_) {
    if (recent_.count >= kReferenceSteps) take_reference();
    return std::nullopt;
  }
  const double allowed = allowance();
  const double residual = pace - (slow_ ? slow_pace_ : usual_);
  const double cut = std::clamp(residual, -kCutOff * allowed, kCutOff * allowed);
  slower_.add(cut - allowed);
  faster_.add(-cut - allowed);
  for (const Sum* sum : {&slower_, &faster_}) {
    if (sum->sum >= kThreshold * allowed - kRounding && agree(sum->steps)) return changed(*sum, step);
  }
  follow(residual);
  if (slow_ && ++slow_steps_ == kRefinedAfter) {
    const double refined = level_since(kReferenceSteps);
    jump_ += refined - std::exchange(slow_pace_, refined);
  }
  if (!slow_) return std::nullopt;
  const double now = slow_pace_ - planned_;
  if (now < kReportedAgain) {  // it has come back slowly
    since_ = step;
    return recovered(slow_pace_);
  }
  if (std::abs(now - reported_) <= kReportedAgain) return std::nullopt;
  return report(kReferenceSteps);
}

void PaceWatch::take_reference() {
  const double middle = level_since(kReferenceSteps);
  if (middle < least_credible_ || middle > kMostCredible || deviation() > kMostDeviation) {
    begin_anew();
    return;
  }
  watching_ = true;
  anchor_ = usual_ = middle;
}

void PaceWatch::follow(double residual) {
  const double most = std::max(kMostFollowed, deviation());
  const double by = kFollowing * std::clamp(residual, -most, most);
  if (slow_) {
    slow_pace_ += by;
  } else {
    usual_ = std::min(usual_ + by, anchor_ + kMostDrift);
  }
}

// The difference of two independent steps deviates by sqrt(2) times as much as one of them.
double PaceWatch::deviation() const {
  std::array<double, kScaleSteps> values = differences_.values;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(differences_.size() / 2);
  std::nth_element(values.begin(), middle, values.begin() + static_cast<std::ptrdiff_t>(differences_.size()));
  return std::max(kLeastDeviation, kNormalScale * *middle / std::sqrt(2.0));
}

// A deviation that is known from a few steps may be larger than it seems.
double PaceWatch::allowance() const {
  const double doubt = 1.0 + 3.0 / static_cast<double>(differences_.size());
  return std::max(kLeastAllowance, kDeviationsAllowed * doubt * deviation());
}

double PaceWatch::level_since(std::size_t steps) const {
  steps = std::min(steps, recent_.size());
  std::array<double, kReferenceSteps> values{};
  for (std::size_t i = 0; i < steps; ++i) values[i] = recent_.values[(recent_.count - 1 - i) % kReferenceSteps];
  std::sort(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(steps));
  return 0.5 * (values[(steps - 1) / 2] + values[steps / 2]);
}

// Stalls that happen to follow each other are not of one length, as slow steps are.
bool PaceWatch::agree(std::size_t steps) const {
  if (steps >= kEnough) return true;
  const double level = level_since(steps);
  const double most = std::max(kAgreement, 2.0 * allowance());
  std::size_t agreeing = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    if (std::abs(recent_.values[(recent_.count - 1 - i) % kReferenceSteps] - level) <= most) ++agreeing;
  }
  return agreeing >= kAgreeing;
}

std::optional<PaceWatch::Change> PaceWatch::changed(const Sum& sum, std::int64_t step) {
  const std::size_t steps = sum.steps;
  const bool was_slow = slow_;
  const double level = level_since(steps);
  slower_ = faster_ = {};
  // What has drifted too far is slow since the beginning.
  if (!was_slow) planned_ = usual_ >= anchor_ + kMostDrift - kRounding ? anchor_ : usual_ + faster_by_;
  // What changed slowly meanwhile is in both paces, and not in their difference.
  const double left = was_slow ? jump_ - (slow_pace_ - level) : level - planned_;
  slow_ = left > std::max(kLeastAllowance, was_slow ? kRemainder * jump_ : 0.0);
  if (!slow_ && !was_slow) {
    faster_by_ = std::max(0.0, planned_ - level);
    usual_ = level;
    return std::nullopt;
  }
  since_ = step + 1 - static_cast<std::int64_t>(steps);
  if (!slow_) return recovered(level);
  slow_pace_ = level;
  slow_steps_ = 0;
  jump_ = left;
  return report(steps);
}

PaceWatch::Change PaceWatch::recovered(double pace) {
  slow_ = false;
  usual_ = pace;
  faster_by_ = std::max(0.0, planned_ - pace);
  return {1.0, since_};
}

PaceWatch::Change PaceWatch::report(std::size_t steps) {
  reported_ = slow_pace_ - planned_;
  const double doubt =
      kDeviationOfMedian * deviation() / std::sqrt(static_cast<double>(std::max<std::size_t>(1, steps)));
  return {std::exp(std::max(0.0, reported_ - doubt)), since_};
}

}  // namespace flyball
