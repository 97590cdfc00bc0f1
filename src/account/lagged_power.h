// A power trace with the readings of some devices moved to earlier times, since they come late. Header only.
#pragma once

#include <algorithm>
#include <queue>
#include <utility>
#include <vector>

#include "trace/trace.h"

namespace flyball {

// Memory: the segments within the greatest difference of two lags.
class LaggedPower final : public PowerSource {
 public:
  // `lags[device]` is taken off the device's times; it may be negative. Devices beyond its end stay.
  LaggedPower(PowerSource& source, std::vector<Nanoseconds> lags) : source_(source), lags_(std::move(lags)) {
    for (const Nanoseconds lag : lags_) most_ = std::max(most_, lag);
  }

  bool next(PowerSegment& segment) override {
    while (!at_end_ && (waiting_.empty() || waiting_.top().begin > latest_ - most_)) {
      PowerSegment read;
      if (!source_.next(read)) {
        at_end_ = true;
        break;
      }
      latest_ = read.begin;
      const Nanoseconds lag = read.device < lags_.size() ? lags_[read.device] : 0;
      read.begin -= lag;
      read.end -= lag;
      waiting_.push(read);
    }
    if (waiting_.empty()) return false;
    segment = waiting_.top();
    waiting_.pop();
    return true;
  }

 private:
  struct BeginsLater {
    bool operator()(const PowerSegment& a, const PowerSegment& b) const {
      return a.begin != b.begin ? a.begin > b.begin : a.device > b.device;
    }
  };

  PowerSource& source_;
  std::vector<Nanoseconds> lags_;
  Nanoseconds most_ = 0;  // no segment that is still to come begins before the latest one read, less this
  std::priority_queue<PowerSegment, std::vector<PowerSegment>, BeginsLater> waiting_;
  Nanoseconds latest_ = 0;
  bool at_end_ = false;
};

}  // namespace flyball
