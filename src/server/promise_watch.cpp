// A rank that finds its iterations too long has gone to default clocks by itself. All ranks then run at maximum clocks
// for a moment, since only that tells whether the plan is at fault or everything has become slower. A plan at fault is
// tried again, after a pause that doubles.
#include "server/promise_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace flyball {

bool PromiseWatch::take(const PromiseReport& report, double ratio) {
  if (!(ratio > 0.0)) return false;
  const bool was_at_maximum = at_maximum();
  const Seconds maximum = was_at_maximum ? report.time : report.at_maximum;
  if (was_at_maximum || maximum > Seconds(0)) {
    known_.at_maximum = maximum;
    known_.promised = ratio * maximum;
  }
  switch (mode_) {
    case Mode::kPlanned:
      known_.measured = report.time;
      if (report.slower) {
        allowed_at_maximum_ = report.time.value() / ratio;
        mode_ = Mode::kMeasuring;
      } else if (report.at_maximum > Seconds(0)) {
        known_.verdict = PromiseVerdict::kKept;
        if (report.iterations >= kWindow) {
          resumed_ = false;
          pause_ = kWindow;
        }
      }
      break;
    case Mode::kMeasuring:
      // What was slow before is so at maximum clocks, too, or has passed. But a plan that is soon too slow again is at
      // fault.
      if (allowed_at_maximum_ <= (1.0 + kPromiseTolerance) * report.time.value() && !std::exchange(resumed_, true)) {
        mode_ = Mode::kPlanned;
      } else {
        known_.verdict = PromiseVerdict::kSlower;
        mode_ = Mode::kGivenUp;
      }
      break;
    case Mode::kGivenUp:
      if (report.iterations < pause_) break;
      pause_ = std::min(2 * pause_, kMostPause);
      resumed_ = true;
      mode_ = Mode::kPlanned;
      break;
  }
  return was_at_maximum != at_maximum();
}

std::string PromiseWatch::trouble() const {
  if (mode_ != Mode::kGivenUp) return {};
  return fmt::format(
      "iterations by the plan take {:.4g} s, but {:.4g} s are promised and maximum clocks take {:.4g} s: the ranks run "
      "at maximum clocks, and try the plan again after {} iterations; profile again if the training or its machines "
      "have changed",
      known_.measured.value(), known_.promised.value(), known_.at_maximum.value(), pause_);
}

}  // namespace flyball
