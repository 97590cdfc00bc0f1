// Rounds the points of a frontier (clock_rounding.h) in several threads. Internal to plan/.
//
// Points are rounded in groups, the first of a group from the relaxation alone and the others from the plan before
// them, so that groups are independent of each other. Which points a group holds does not depend on the number of
// threads, and groups are added to the frontier in the order in which they came: the same problem gives the same
// frontier on every machine.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/units.h"
#include "pipeline/timeline.h"
#include "plan/clock_rounding.h"
#include "plan/frontier.h"
#include "plan/planner.h"

namespace flyball {

// Not thread-safe; it makes the threads itself, and its destructor ends them without what they have not begun. Problem
// and frontier must outlive it.
class PointRounding {
 public:
  // Every `anew_every`-th point is rounded from the relaxation alone. With one thread, it is the caller's.
  PointRounding(const PlanProblem& problem, Searches searches, std::int64_t anew_every, unsigned threads,
                Frontier& frontier);
  ~PointRounding();

  // Rounds the point at `deadline`, which must lie within the stretch. Points come in falling order of time. What is
  // needed of the stretch is copied; the point is added to the frontier sooner or later.
  void add(const FrontierStretch& stretch, Nanoseconds deadline);

  // The same for a point that matters, and polishes two plans of it: the one that was made without path searches, from
  // which the search gets further where slack is scarcest, and, if `both`, the one that add() makes, from which it gets
  // further where there is more. These take longest, so that they begin before points that wait.
  void add_polished(const FrontierStretch& stretch, Nanoseconds deadline, bool both);

  // Adds a plan as it is, before those that are under way.
  void add(const ClockPlan& plan);

  // Polishes a plan within its deadline, and adds what comes of it.
  void polish(ClockPlan plan, Nanoseconds deadline);

  // The times for which two plans were polished.
  [[nodiscard]] std::vector<Nanoseconds> asked() const;
  // Makes so many more plans for such a time, each with a seed of its own and disturbed so often.
  void search_further(Nanoseconds asked, int plans, int disturbances);

  // Returns when the frontier holds all points but the polished ones of T_min, which may still be under way.
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

  using Job = std::packaged_task<std::vector<Rounded>(ClockRounder&)>;
  enum class Turn { kFirst, kLast };  // of the jobs that wait

  // How a polish begins.
  using Beginning = void (ClockRounder::*)(const GateTimes&, Nanoseconds);

  [[nodiscard]] static Rounded rounded(ClockRounder& rounder);
  void polish(const Target& target, Beginning begin, const ClockRounder::Polish& how, Turn turn);
  void start(Job job, Turn turn = Turn::kLast);
  void start_group();
  void take_oldest();
  void work();

  std::shared_ptr<const RoundingTables> tables_;
  Searches searches_;
  std::size_t anew_every_;
  std::size_t group_size_;
  std::size_t most_under_way_;     // groups
  std::vector<Target> asked_;      // for which two plans were polished
  std::size_t last_searches_ = 0;  // of add_polished(), begun last
  Frontier& frontier_;
  ClockRounder rounder_;                                     // the caller's
  std::vector<Target> group_;                                // that has not begun
  std::deque<std::future<std::vector<Rounded>>> under_way_;  // in the order in which they are added

  std::mutex mutex_;  // of what follows, but the threads
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  bool ended_ = false;
  std::vector<std::jthread> threads_;  // none where the caller does all the work
};

}  // namespace flyball
