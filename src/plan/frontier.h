// The iteration time-energy frontier of a pipeline: discrete plans, their time and energy when replayed, and a lower
// bound of the energy of any plan as fast.
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
  Nanoseconds time = 0;  // iteration time when the plan is replayed with the measured options
  // Sum of e_i - P_blocking t_i over the measured options (Perseus eq. 4), plus the energy that waiting within the
  // iteration takes above P_blocking.
  double net_joules = 0.0;
  // No plan, discrete or relaxed, that ends by `time` has less net energy than this. NaN where no bound was computed.
  double net_lower_bound = std::numeric_limits<double>::quiet_NaN();
  Watts waiting_above{};  // what the stages draw above P_blocking while they wait for a straggler
};

// The points of a frontier, in order of rising time and strictly falling net energy, with a plan for each. A plan is
// stored as its differences from the plan added before it, which keeps many points of many operations small. Const
// functions may be called from several threads while no point is added.
class Frontier {
 public:
  Frontier() = default;
  // `total_blocking` is the power of all stages while blocked: energy = net + total_blocking * time.
  explicit Frontier(Watts total_blocking) : total_blocking_(total_blocking) {}

  // Adds a point, in any order of time; finish() must follow. Plans are stored in the order of calls, so that points
  // next to each other in time should be added one after the other.
  void add(const FrontierPoint& point, const ClockPlan& plan);

  // Sorts the points and drops those that another beats or equals in time and net energy.
  void finish();

  [[nodiscard]] std::size_t size() const { return points_.size(); }
  [[nodiscard]] bool empty() const { return points_.empty(); }
  [[nodiscard]] std::span<const FrontierPoint> points() const { return points_; }
  [[nodiscard]] FrontierPoint& point(std::size_t index) { return points_[index]; }

  // Time and energy of one iteration of one pipeline, blocking included, without straggler (Perseus eq. 3 with T' = T).
  [[nodiscard]] Seconds time(std::size_t index) const { return to_seconds(points_[index].time); }
  [[nodiscard]] Joules energy(std::size_t index) const;
  [[nodiscard]] Joules lower_bound(std::size_t index) const;

  // Returns whether some point has no lower bound yet.
  [[nodiscard]] bool bounds_are_open() const;

  // Rebuilds the plan of one point. Cost: the number of operations, plus that of the differences since the last plan
  // that was stored in full, which are a few times as many at most.
  [[nodiscard]] ClockPlan plan(std::size_t index) const;

  // Returns the point to run when the pipeline has to wait for others until `deadline` anyway: the slowest point that
  // ends by then, or the fastest when none does. With points up to T*, this is T_opt = min(T*, T') (Perseus eq. 2).
  // Where some points wait at a power above P_blocking (FrontierPoint::waiting_above), a faster point may take less
  // energy until `deadline`, and is then returned. The frontier must not be empty. Cost: O(log points), or O(points)
  // where some point has such a power.
  [[nodiscard]] std::size_t lookup(Nanoseconds deadline) const;

  // Returns the point to run when nothing else sets the pace and the iteration may take until `deadline`: of the points
  // that end by then, the one of least total energy, blocking included, or the fastest point when none does. Beyond the
  // point of least energy a plan is both slower and dearer, since the stages' blocking costs more than lower clocks
  // save. The frontier must not be empty. Cost: O(points).
  [[nodiscard]] std::size_t cheapest_by(Nanoseconds deadline) const;

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
    std::size_t begin;  // the edits from the base's begin up to `end` turn the base into this plan
    std::size_t end;
  };

  Watts total_blocking_;
  bool waits_alike_ = true;  // waiting_above is zero at every point
  std::vector<FrontierPoint> points_;
  std::vector<std::size_t> stored_of_point_;
  std::vector<StoredPlan> stored_;
  std::vector<Edit> edits_;
  std::vector<ClockPlan> full_plans_;
  ClockPlan last_;
};

// Returns the points that are worth choosing, in rising time: up to the one of least total energy those that take less
// than every faster one; beyond it, where only waiting for others is a reason to go, those that take less than every
// slower one. Cost: O(points).
[[nodiscard]] std::vector<std::size_t> worthwhile_points(const Frontier& frontier);

}  // namespace flyball
