// The iteration time-energy frontier of a pipeline: discrete plans, what they really give, and how far that is from
// what any plan could give.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "pipeline/timeline.h"

namespace flyball {

struct FrontierPoint {
  Nanoseconds time = 0;     // iteration time when the plan is replayed with the measured options
  double net_joules = 0.0;  // sum of e_i - P_blocking t_i (Perseus eq. 4), of the measured options
  // Certified: no plan, discrete or not, that ends by `time` has less net energy. NaN where none was computed.
  double net_lower_bound = std::numeric_limits<double>::quiet_NaN();
};

// Points in rising time and strictly falling net energy; plans kept as edits against the point before, so that many
// points of many operations stay small. Not thread-safe while points are added; const use is.
class Frontier {
 public:
  Frontier() = default;
  // `total_blocking` is the draw of all stages blocked: energy = net + total_blocking * time.
  explicit Frontier(Watts total_blocking) : total_blocking_(total_blocking) {}

  // Adds a point; call in any order of time, then finish(). Plans are stored in the order of calls, so neighbours in
  // time should be added one after the other.
  void add(const FrontierPoint& point, const ClockPlan& plan);

  // Sorts and drops points that are duplicate or dominated in (time, net energy).
  void finish();

  [[nodiscard]] std::size_t size() const { return points_.size(); }
  [[nodiscard]] bool empty() const { return points_.empty(); }
  [[nodiscard]] std::span<const FrontierPoint> points() const { return points_; }
  [[nodiscard]] FrontierPoint& point(std::size_t index) { return points_[index]; }

  // Seconds, joules of one iteration of one pipeline, blocking included, no straggler (Perseus eq. 3 with T' = T).
  [[nodiscard]] Seconds time(std::size_t index) const { return to_seconds(points_[index].time); }
  [[nodiscard]] Joules energy(std::size_t index) const;
  [[nodiscard]] Joules lower_bound(std::size_t index) const;

  // Rebuilds one plan. Cost: nodes + edits up to the nearest full copy.
  [[nodiscard]] ClockPlan plan(std::size_t index) const;

  // The point to run when others are waited for until `deadline` anyway: the slowest point not slower than that, or the
  // fastest when all are slower. With points up to T*, this is T_opt = min(T*, T') (Perseus eq. 2). Cost O(log points).
  [[nodiscard]] std::size_t lookup(Nanoseconds deadline) const;

  // The point to run when nothing else sets the pace and the iteration may take `deadline`: of the points not slower
  // than that the one of least total energy, blocking included, or the fastest point when all are slower. Beyond the
  // point of least energy a plan is slower and dearer both: its stages' blocking costs more than its clocks save. Cost
  // O(points).
  [[nodiscard]] std::size_t cheapest_by(Nanoseconds deadline) const;

  // The point of least total energy of all.
  [[nodiscard]] std::size_t least_total_energy() const { return cheapest_by(points_.back().time); }

  [[nodiscard]] Watts total_blocking() const { return total_blocking_; }
  [[nodiscard]] std::size_t edit_count() const { return edits_.size(); }

 private:
  struct Edit {
    std::int32_t node;
    std::uint16_t option;
  };
  struct StoredPlan {
    std::size_t base;   // index into full_plans_
    std::size_t begin;  // edits from the base's begin up to `end` lead to this plan
    std::size_t end;
  };

  Watts total_blocking_;
  std::vector<FrontierPoint> points_;
  std::vector<std::size_t> stored_of_point_;
  std::vector<StoredPlan> stored_;
  std::vector<Edit> edits_;
  std::vector<ClockPlan> full_plans_;
  ClockPlan last_;
};

}  // namespace flyball
