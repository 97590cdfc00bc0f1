// Power and activity over time in equal bins, for pictures: each device's power, and what ran at the same time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "trace/trace.h"

namespace flyball {

class ActivityBins {
 public:
  // `count` bins over [begin, end); at least one, at least 1 ns wide.
  ActivityBins(Nanoseconds begin, Nanoseconds end, std::size_t count);

  // Both read their source to the end and leave out what lies outside the bins. `lane_of[operation]` is the operation's
  // row, below `lanes`; operations without such a row are left out.
  void add_power(PowerSource& power);
  void add_events(EventSource& events, const std::vector<std::size_t>& lane_of, std::size_t lanes);

  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::size_t devices() const { return energy_.size(); }
  [[nodiscard]] Nanoseconds begin() const { return begin_; }
  [[nodiscard]] Nanoseconds width() const { return width_; }
  // Returns the mean over the part of the bin in which power is known; negative where none is.
  [[nodiscard]] Watts power(std::size_t device, std::size_t bin) const;
  // Returns the part of the bin in which events of the lane ran, in [0, 1].
  [[nodiscard]] double activity(std::size_t lane, std::size_t bin) const;

 private:
  template <class Add>
  void spread(Nanoseconds begin, Nanoseconds end, Add add) const;

  Nanoseconds begin_;
  Nanoseconds width_;
  std::size_t count_;
  std::vector<std::vector<double>> energy_;   // J, per device and bin
  std::vector<std::vector<double>> powered_;  // s
  std::vector<std::vector<double>> busy_;     // s, per lane and bin
};

// Power of the devices over time with a lane of activity for each part beneath (Smaragdine figure 3).
struct PowerPicture {
  std::shared_ptr<const ActivityBins> activity;
  std::vector<std::string> devices;  // by index of the activity's devices
  std::vector<std::string> lanes;
};

}  // namespace flyball
