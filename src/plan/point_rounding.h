// Rounds the points of a frontier (clock_rounding.h) in several threads. Internal to plan/.
//
// Points are rounded in groups, the first of a group from the relaxation alone and the others from the plan before
// them, so that groups are independent of each other. Which points a group holds does not depend on the number of
// threads, and groups are added to the frontier in the order in which they came: the same problem gives the same
// frontier on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <vector>

#include "base/units.h"
#include "pipeline/timeline.h"
#include "plan/clock_rounding.h"
#include "plan/frontier.h"
#include "plan/planner.h"

namespace flyball {

// Not thread-safe; it makes the threads itself. Problem and frontier must outlive it.
class PointRounding {
 public:
  // Every `anew_every`-th point is rounded from the relaxation alone. With one thread, it is the caller's.
  PointRounding(const PlanProblem& problem, Searches searches, std::int64_t anew_every, unsigned threads,
                Frontier& frontier);

  // Rounds the point at `deadline`, which must lie within the stretch. Points come in falling order of time. What is
  // needed of the stretch is copied; the point is added to the frontier sooner or later.
  void add(const FrontierStretch& stretch, Nanoseconds deadline);

  // The same for the point at T_min, where slack is scarcest: also polishes the plan that was made without path
  // searches, from which the search gets further than from a plan that paths have settled.
  void add_fastest(const FrontierStretch& stretch, Nanoseconds t_min, int trials);

  // Adds a plan as it is, before those that are under way.
  void add(const ClockPlan& plan);

  // Polishes a plan within its deadline, and adds what comes of it.
  void polish(ClockPlan plan, Nanoseconds deadline, int trials);

  // Returns when the frontier holds all points but the polished one of T_min, which may still be under way.
  void finish_points();
  // Returns when the frontier holds all points.
  void finish();

 private:
  struct Rounded {
    FrontierPoint point;
    ClockPlan plan;
  };
  struct Target {
    GateTimes relaxed;
    Nanoseconds deadline;
  };

  [[nodiscard]] static Rounded rounded(ClockRounder& rounder);
  template <class Work>
  void start(Work work);
  void start_group();
  void take_oldest();

  std::shared_ptr<const RoundingTables> tables_;
  Searches searches_;
  std::size_t anew_every_;
  std::size_t group_size_;
  unsigned threads_;
  Frontier& frontier_;
  std::vector<Target> group_;  // that has not begun
  std::deque<std::future<std::vector<Rounded>>> at_work_;
};

}  // namespace flyball
