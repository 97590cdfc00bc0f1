// A power trace as if only every n-th reading had been taken (Smaragdine 5.4.1: sample sparsing). Header only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "trace/trace.h"

namespace flyball {

// A kept reading holds until the next kept one; kept readings of a counter give the mean between them, so that no
// energy is lost. Gaps stay gaps: the first reading after one is kept. Memory: the segments between two kept readings.
class SparsePower final : public PowerSource {
 public:
  // `means[device]` tells whether its segments are means between two readings.
  SparsePower(PowerSource& source, std::size_t keep, std::vector<bool> means)
      : source_(source), keep_(keep), means_(std::move(means)) {}

  bool next(PowerSegment& segment) override {
    while (finished_.empty() || (!at_end_ && finished_.top().begin > earliest_open())) {
      if (at_end_) return false;
      PowerSegment read;
      if (source_.next(read)) {
        take(read);
      } else {
        for (Stretch& open : open_) finish(open);
        at_end_ = true;
      }
    }
    segment = finished_.top();
    finished_.pop();
    return true;
  }

 private:
  // The segments from one reading that is kept to the next.
  struct Stretch {
    PowerSegment whole;
    std::size_t segments = 0;
  };
  struct BeginsLater {
    bool operator()(const PowerSegment& a, const PowerSegment& b) const {
      return a.begin != b.begin ? a.begin > b.begin : a.device > b.device;
    }
  };

  void take(const PowerSegment& segment) {
    latest_ = segment.begin;
    if (segment.device >= open_.size()) open_.resize(segment.device + std::size_t{1});
    Stretch& open = open_[segment.device];
    if (open.segments > 0 && segment.begin != open.whole.end) finish(open);
    if (open.segments++ == 0) {
      open.whole = segment;
    } else {
      if (segment.device < means_.size() && means_[segment.device]) {
        const Joules energy = open.whole.power * to_seconds(open.whole.end - open.whole.begin) +
                              segment.power * to_seconds(segment.end - segment.begin);
        open.whole.power = energy / to_seconds(segment.end - open.whole.begin);
      }
      open.whole.end = segment.end;
    }
    if (open.segments == keep_) finish(open);
  }

  void finish(Stretch& open) {
    if (open.segments > 0) finished_.push(open.whole);
    open.segments = 0;
  }

  // The time before which no segment can still come.
  [[nodiscard]] Nanoseconds earliest_open() const {
    Nanoseconds earliest = latest_;
    for (const Stretch& open : open_) {
      if (open.segments > 0) earliest = std::min(earliest, open.whole.begin);
    }
    return earliest;
  }

  PowerSource& source_;
  std::size_t keep_;
  std::vector<bool> means_;
  std::vector<Stretch> open_;  // by device
  std::priority_queue<PowerSegment, std::vector<PowerSegment>, BeginsLater> finished_;
  Nanoseconds latest_ = 0;
  bool at_end_ = false;
};

}  // namespace flyball
