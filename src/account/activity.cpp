// Each segment or event is cut at the bins' edges and added to the bins that it covers.
#include "account/activity.h"

#include <algorithm>

namespace flyball {

ActivityBins::ActivityBins(Nanoseconds begin, Nanoseconds end, std::size_t count)
    : begin_(begin), count_(std::max<std::size_t>(count, 1)) {
  const auto bins = static_cast<Nanoseconds>(count_);
  width_ = std::max<Nanoseconds>((end - begin + bins - 1) / bins, 1);
}

template <class Add>
void ActivityBins::spread(Nanoseconds begin, Nanoseconds end, Add add) const {
  begin = std::max(begin, begin_);
  end = std::min(end, begin_ + width_ * static_cast<Nanoseconds>(count_));
  while (begin < end) {
    const Nanoseconds bin = (begin - begin_) / width_;
    const Nanoseconds stop = std::min(end, begin_ + (bin + 1) * width_);
    add(static_cast<std::size_t>(bin), to_seconds(stop - begin));
    begin = stop;
  }
}

void ActivityBins::add_power(PowerSource& power) {
  PowerSegment segment;
  while (power.next(segment)) {
    if (segment.device >= energy_.size()) {
      energy_.resize(segment.device + 1, std::vector<double>(count_));
      powered_.resize(segment.device + 1, std::vector<double>(count_));
    }
    spread(segment.begin, segment.end, [&](std::size_t bin, Seconds time) {
      energy_[segment.device][bin] += (segment.power * time).value();
      powered_[segment.device][bin] += time.value();
    });
  }
}

void ActivityBins::add_events(EventSource& events, const std::vector<std::size_t>& lane_of, std::size_t lanes) {
  busy_.resize(lanes, std::vector<double>(count_));
  TraceEvent event;
  while (events.next(event)) {
    if (event.operation >= lane_of.size() || lane_of[event.operation] >= lanes) continue;
    std::vector<double>& lane = busy_[lane_of[event.operation]];
    spread(event.begin, event.end, [&](std::size_t bin, Seconds time) { lane[bin] += time.value(); });
  }
}

Watts ActivityBins::power(std::size_t device, std::size_t bin) const {
  const double time = powered_[device][bin];
  return time > 0.0 ? Watts(energy_[device][bin] / time) : Watts(-1.0);
}

double ActivityBins::activity(std::size_t lane, std::size_t bin) const {
  return std::min(busy_[lane][bin] / to_seconds(width_).value(), 1.0);
}

}  // namespace flyball
