// A rank that finds its iterations too long has gone to default clocks by itself. All ranks then run at maximum clocks
// for a moment, since only that tells whether the plan is at fault or everything has become slower. A plan at fault is
// tried again, after a pause that doubles.
//
// Energies are compared in the same way: where they seem to be too large, all ranks run at maximum clocks for a
// moment, and only what is then measured decides. They also do so now and then for the comparison itself, as seldom as
// kMostCost says.
#include "server/promise_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace flyball {
namespace {

constexpr std::int64_t kFirstComparison = 20;    // iterations by plan before any comparison
constexpr std::int64_t kLeastIterations = 1000;  // between two comparisons that nothing calls for
constexpr std::int64_t kMostTaken = 1000;        // iterations of a comparison
constexpr std::int64_t kOnTheWay = 5;            // of these, until all ranks run at maximum clocks and back
constexpr std::int64_t kFirstMeasured = 20;      // at maximum clocks, in which each rank has measured them itself
constexpr std::int64_t kLastRank = 30;           // in which all ranks will have been heard
constexpr double kLeastSaving = 0.02;            // share by which maximum clocks are taken to cost more, at least
constexpr double kSharp = 0.002;                 // standard error of a share that needs no more iterations
constexpr double kBlurred = 0.02;                // and of one that tells little

}  // namespace

bool PromiseWatch::take(const PromiseReport& report, double ratio, const std::optional<EnergyComparison>& energy) {
  if (!(ratio > 0.0)) return false;
  const bool was_at_maximum = at_maximum();
  const Seconds maximum = was_at_maximum ? report.time : report.at_maximum;
  // What was slow before is so at maximum clocks, too, or has passed. But a plan that is soon too slow again is at
  // fault, and then took too long by what maximum clocks took before.
  const bool all_slow = mode_ == Mode::kMeasuring && too_long_ <= (1.0 + kPromiseTolerance) * ratio * report.time;
  const bool soon_again = all_slow && resumed_;
  if (!soon_again && (was_at_maximum || maximum > Seconds(0))) {
    known_.at_maximum = maximum;
    known_.promised = ratio * maximum;
  }
  switch (mode_) {
    case Mode::kBeginning:
      if (report.iterations >= kFirstMeasured) mode_ = Mode::kPlanned;
      break;
    case Mode::kPlanned:
      known_.measured = report.time;
      if (report.slower) {
        too_long_ = report.time;
        if (!report.cause.empty()) known_.cause = fmt::format("rank {}: {}", report.rank, report.cause);
        mode_ = Mode::kMeasuring;
      } else {
        take_planned(report, energy);
      }
      break;
    case Mode::kMeasuring:
      if (all_slow && !soon_again) {
        resumed_ = true;
        mode_ = Mode::kPlanned;
      } else {
        give_up(PromiseVerdict::kSlower);
      }
      break;
    case Mode::kComparing: compare(report, energy); break;
    case Mode::kGivenUp:
      if (report.iterations < pause_) break;
      pause_ = std::min(2 * pause_, kMostPause);
      resumed_ = true;
      mode_ = Mode::kPlanned;
      break;
  }
  if (was_at_maximum && !at_maximum()) since_ = 0;
  return was_at_maximum != at_maximum();
}

void PromiseWatch::take_limited(const PromiseReport& report, Seconds promised) {
  limited_ = true;
  known_.promised = promised;
  known_.measured = report.time;
  known_.verdict = report.slower ? PromiseVerdict::kSlower : PromiseVerdict::kKept;
  known_.cause.clear();
  if (!report.cause.empty()) known_.cause = fmt::format("rank {}: {}", report.rank, report.cause);
}

void PromiseWatch::explain(const std::string& cause) {
  const bool given_up = mode_ == Mode::kGivenUp || limited_;
  if (mode_ == Mode::kMeasuring || (given_up && known_.verdict == PromiseVerdict::kSlower)) known_.cause = cause;
}

void PromiseWatch::take_planned(const PromiseReport& report, const std::optional<EnergyComparison>& energy) {
  count_planned(report);
  if (report.at_maximum > Seconds(0)) {
    if (known_.verdict != PromiseVerdict::kDearer) known_.verdict = PromiseVerdict::kKept;
    known_.cause.clear();
    if (report.iterations >= kWindow) {
      resumed_ = false;
      if (!costs_more_) pause_ = kWindow;
    }
  }
  if (!energy) return;
  take_energy(*energy);
  if (is_due(*energy)) mode_ = Mode::kComparing;
}

void PromiseWatch::take_energy(const EnergyComparison& energy) {
  known_.promised_saving_pct = 100.0 * (1.0 - energy.promised);
  known_.measured_saving_pct = 100.0 * (1.0 - energy.measured);
  known_.measured_saving_error_pct = 100.0 * energy.error;
}

void PromiseWatch::count_planned(const PromiseReport& report) {
  if (report.version != std::exchange(counted_version_, report.version)) counted_ = 0;
  if (report.iterations <= counted_) return;
  since_ += report.iterations - counted_;
  counted_ = report.iterations;
}

// The iterations by plan of whose energy a comparison costs kMostCost, if maximum clocks take more by the saving.
std::int64_t PromiseWatch::least_since(const EnergyComparison& energy) const {
  const double saving = std::clamp(1.0 - std::min(energy.measured, energy.promised), kLeastSaving, 0.9);
  const double cost = static_cast<double>(takes_) * saving / (1.0 - saving);
  return std::max(kLeastIterations, static_cast<std::int64_t>(std::ceil(cost / kMostCost)));
}

bool PromiseWatch::is_due(const EnergyComparison& energy) const {
  if (since_ < kFirstComparison) return false;
  // A plan that takes more than it should loses more than the comparison does. What is known of it is no news.
  if (energy.costs_more()) return true;
  if (energy.is_dearer() && known_.verdict != PromiseVerdict::kDearer) return true;
  return since_ >= least_since(energy);
}

void PromiseWatch::compare(const PromiseReport& report, const std::optional<EnergyComparison>& energy) {
  const bool sharp = energy && energy->error <= kSharp;
  // Short iterations need more than ten for their energy.
  if (!sharp && report.iterations + kOnTheWay < takes_) return;
  if (!energy && report.iterations < kLastRank) return;
  mode_ = Mode::kPlanned;
  // A comparison that told little takes longer the next time, and is made more seldom.
  if (!energy || energy->error > kBlurred) takes_ = std::min(2 * takes_, kMostTaken);
  if (!energy) return;
  take_energy(*energy);
  if (energy->costs_more()) {
    costs_more_ = true;
    give_up(PromiseVerdict::kDearer);
  } else if (energy->is_dearer()) {
    known_.verdict = PromiseVerdict::kDearer;
  } else {
    costs_more_ = false;
    known_.verdict = PromiseVerdict::kKept;
  }
}

void PromiseWatch::give_up(PromiseVerdict verdict) {
  known_.verdict = verdict;
  mode_ = Mode::kGivenUp;
}

std::string PromiseWatch::trouble() const {
  if (limited_ && known_.verdict == PromiseVerdict::kSlower) {
    return fmt::format(
        "iterations by the plan take {:.4g} s, but {:.4g} s are promised inside the limits on power: the plan stays in "
        "force, since others may draw more; profile again if the training or its machines have changed{}{}",
        known_.measured.value(), known_.promised.value(), known_.cause.empty() ? "" : "; ", known_.cause);
  }
  const bool dearer = known_.verdict == PromiseVerdict::kDearer;
  if (mode_ != Mode::kGivenUp && !dearer) return {};
  if (!dearer) {
    return fmt::format(
        "iterations by the plan take {:.4g} s, but {:.4g} s are promised and maximum clocks take {:.4g} s: the ranks "
        "run at maximum clocks, and try the plan again after {} iterations; profile again if the training or its "
        "machines have changed{}{}",
        known_.measured.value(), known_.promised.value(), known_.at_maximum.value(), pause_,
        known_.cause.empty() ? "" : "; ", known_.cause);
  }
  if (mode_ == Mode::kGivenUp) {
    return fmt::format(
        "iterations by the plan take {:.2f} % more energy than maximum clocks (+-{:.2f}), but {:.2f} % less is "
        "promised: the ranks run at maximum clocks, and try the plan again after {} iterations; profile again if the "
        "training or its machines have changed",
        -known_.measured_saving_pct, known_.measured_saving_error_pct, known_.promised_saving_pct, pause_);
  }
  return fmt::format(
      "the plan saves {:.2f} % of the energy of maximum clocks (+-{:.2f}), but {:.2f} % is promised; profile again if "
      "the training or its machines have changed",
      known_.measured_saving_pct, known_.measured_saving_error_pct, known_.promised_saving_pct);
}

}  // namespace flyball
