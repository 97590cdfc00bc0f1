// A power trace of a counter that changes in even steps of time, of which the stamps are late by lot: by up to the time
// between two looks at the counter. The stamps are put where a straight line through those around them has them, the
// energy of each reading stays what it was, and what all are late by on average is left to the fit's lag. Header only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "base/units.h"
#include "trace/trace.h"

namespace flyball {

// Memory: the whole power trace, 32 bytes for each reading.
class RegularPower final : public PowerSource {
 public:
  // `periods[device]`: the usual time between two readings of a device; 0: its readings stay as they are.
  RegularPower(PowerSource& source, const std::vector<Seconds>& periods) {
    PowerSegment segment;
    while (source.next(segment)) segments_.push_back(segment);
    for (std::size_t i = 0; i < periods.size(); ++i) {
      if (periods[i] > Seconds(0)) straighten(static_cast<DeviceId>(i), periods[i]);
    }
    std::stable_sort(segments_.begin(), segments_.end(),
                     [](const PowerSegment& a, const PowerSegment& b) { return a.begin < b.begin; });
  }

  bool next(PowerSegment& segment) override {
    if (at_ == segments_.size()) return false;
    segment = segments_[at_++];
    return true;
  }

 private:
  static constexpr std::size_t kAround = 200;    // stamps on either side
  static constexpr std::size_t kFewStamps = 10;  // are left as they are

  void straighten(DeviceId device, Seconds period) {
    std::vector<std::size_t> stretch;  // readings without a gap between them
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      if (segments_[i].device != device) continue;
      if (!stretch.empty() && segments_[stretch.back()].end != segments_[i].begin) {
        straighten_stretch(stretch, period);
        stretch.clear();
      }
      stretch.push_back(i);
    }
    straighten_stretch(stretch, period);
  }

  void straighten_stretch(const std::vector<std::size_t>& stretch, Seconds period) {
    if (stretch.size() < kFewStamps) return;
    const Nanoseconds first = segments_[stretch.front()].begin;
    // Sums over the stamps before each, of how many periods it is from the first (n) and of its time (t).
    struct Sums {
      double n = 0.0, t = 0.0, nn = 0.0, nt = 0.0;
    };
    std::vector<double> numbers = {0.0};
    std::vector<double> times = {0.0};
    for (const std::size_t i : stretch) {
      const double length = to_seconds(segments_[i].end - segments_[i].begin).value();
      numbers.push_back(numbers.back() + std::max(1.0, std::round(length / period.value())));
      times.push_back(to_seconds(segments_[i].end - first).value());
    }
    std::vector<Sums> sums(1);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const Sums& s = sums.back();
      sums.push_back({s.n + numbers[i], s.t + times[i], s.nn + numbers[i] * numbers[i], s.nt + numbers[i] * times[i]});
    }
    std::vector<Nanoseconds> stamps;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t from = i > kAround ? i - kAround : 0;
      const std::size_t to = std::min(i + kAround + 1, numbers.size());
      const auto count = static_cast<double>(to - from);
      const double n = (sums[to].n - sums[from].n) / count;
      const double t = (sums[to].t - sums[from].t) / count;
      const double variance = (sums[to].nn - sums[from].nn) / count - n * n;
      const double slope = ((sums[to].nt - sums[from].nt) / count - n * t) / variance;
      stamps.push_back(first + to_nanoseconds(Seconds(t + slope * (numbers[i] - n))));
    }
    // What lies beyond a stretch stays where it is, so that no energy is lost to an overlap.
    stamps.front() = first;
    stamps.back() = segments_[stretch.back()].end;
    if (std::adjacent_find(stamps.begin(), stamps.end(), std::greater_equal<>()) != stamps.end()) return;
    for (std::size_t k = 0; k < stretch.size(); ++k) {
      PowerSegment& segment = segments_[stretch[k]];
      const auto length = static_cast<double>(segment.end - segment.begin);
      segment.power = (length / static_cast<double>(stamps[k + 1] - stamps[k])) * segment.power;
      segment.begin = stamps[k];
      segment.end = stamps[k + 1];
    }
  }

  std::vector<PowerSegment> segments_;
  std::size_t at_ = 0;
};

}  // namespace flyball
