// Rounds the relaxation's event times to clocks: chooses the measured option at which each operation runs.
//
// Perseus (section 4.3) gives each computation the slowest clock that is not slower than planned, and wastes the slack
// that this leaves. Here the relaxed event times become times of gates (gates.h), and four steps spend the slack. The
// numbers in brackets are the energy that each step saves when all other steps are taken: mean and largest, in per cent
// of an iteration's energy.
//   paths   The gates along one stage are moved to their best times together (path_search.h), stage after stage
//           [0.052, 2.27 along the frontier].
//   carry   Neighbouring points of the frontier have similar plans. The next point therefore takes over the gates of
//           the last one, moved as far as the relaxation moves its events, and one stage is searched again at every
//           second point. Now and then a point is rounded from the relaxation alone, lest small errors add up
//           [0.005, 1.09 along the frontier, in a sixth of the time].
//   fill    One pass forwards in time slows operations down into the slack that is left
//           [0.006, 0.15 along the frontier].
//   search  The gates along random paths are moved to their best times together, until that brings nothing any more
//           [0.083, 0.67 where a time was asked for]. Where plans are still far above the bound, others are made with
//           other seeds and disturbed: many operations are sped up at random, and paths searched again
//           [0.006, 0.09 where a time was asked for]. Seeds are fixed: the same input gives the same plan.
// round() and follow() do all but the search, for every point of a frontier; polish() searches, for the points that
// matter. Every step keeps the iteration within its deadline.
//
// The numbers are for the per-clock profiles of GPT-3 175B (A40) and Bloom 176B (A100) that Perseus' authors published,
// measured by
//   build/bench/bench/rounding_value ${FLYBALL_SHARED_DATA:-../shared/data}/perseus-sosp24/emulation/*_bf16.csv
// (docs/decisions/0042-what-rounding-keeps.md, 0096-searched-until-near-enough.md).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "base/index.h"
#include "base/units.h"
#include "pipeline/timeline.h"
#include "plan/gates.h"
#include "plan/path_search.h"
#include "plan/planner.h"
#include "plan/relaxation.h"

namespace flyball {

// xorshift64 (Marsaglia 2003): the same numbers, whatever was planned before.
class RoundingRandom {
 public:
  explicit RoundingRandom(std::uint64_t seed = 0) : state_(0x9E3779B97F4A7C15u * (2 * seed + 1)) {}
  std::uint32_t draw() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::uint32_t>(state_ >> 24);
  }

 private:
  std::uint64_t state_;
};

// Which steps are taken. Planners take all; bench/rounding_value leaves out one at a time to measure what it saves.
struct Searches {
  bool stage_paths = true;
  bool carry = true;  // read by perseus.cpp: if false, every point is made by round()
  bool fill = true;
  bool random_paths = true;
  bool further = true;  // read by perseus.cpp, too: if false, no more plans are polished where the bound is far
};

// What all rounders of a problem share, derived from it once. Immutable; the problem must outlive it.
struct RoundingTables {
  explicit RoundingTables(const PlanProblem& problem);

  const ComputationDag& dag;
  std::vector<ClockChoices> choices;  // by type
  GateGraph graph;
  std::vector<Nanoseconds> tail;      // by gate: the least time from there to the end
  std::vector<std::int32_t> sources;  // operations without predecessors
};

// When each gate passes in the relaxation, by gate.
using GateTimes = std::vector<Nanoseconds>;

// Returns the relaxation's times at iteration time `deadline`, which must lie within the stretch. Cost O(operations).
[[nodiscard]] GateTimes relaxed_times(const RoundingTables& tables, const FrontierStretch& stretch,
                                      Nanoseconds deadline);

// Holds one plan at a time and improves it. Not thread-safe, but several rounders may share their tables.
class ClockRounder {
 public:
  explicit ClockRounder(const PlanProblem& problem, Searches searches = {});
  explicit ClockRounder(std::shared_ptr<const RoundingTables> tables, Searches searches = {});

  // Makes the plan for iteration time `deadline` from the relaxed times at that time alone. Cost: one path search per
  // stage, 0.3 to 0.6 us per operation.
  void round(const GateTimes& relaxed, Nanoseconds deadline);

  // Makes the plan for a deadline near that of the last round() or follow(), starting from that call's gates; every
  // second one searches a stage, one stage after the other. No function but makespan(), net_joules() and plan() may be
  // called between that call and this one. Cost: half a path search and a few passes over the operations, some 0.05 us
  // per operation with four stages.
  void follow(const GateTimes& relaxed, Nanoseconds deadline);

  // Makes the plan without path searches: Perseus' rounding, with the slack filled from the end backwards. polish() may
  // find a better plan from here than from the plan of round().
  void floor(const GateTimes& relaxed, Nanoseconds deadline);

  // Takes over a plan, which must consist of Pareto-optimal options.
  void load(const ClockPlan& plan);

  struct Polish {
    int most_turns = 60;  // of each search, which ends sooner when turns bring nothing any more
    PathSearch::Slots slots = PathSearch::Slots::kMany;  // few take half of the time and find less
    int disturbances = 0;
    std::uint64_t seed = 0;                                    // other seeds find other plans
    double enough = -std::numeric_limits<double>::infinity();  // net energy in J at which the search may end
  };
  // Makes the present plan cheaper within `deadline`, which the plan must meet already. In turns, from the earliest and
  // from the latest times that the plan allows, some random paths are searched, until five turns have brought nothing.
  // Then the cheapest plan is disturbed as often as `how` says: half of the operations in one half of the order are
  // sped up, three quarters of all are passed over in a first filling of the slack, and paths are searched until a turn
  // brings nothing; what comes of it is kept if it is cheaper.
  void polish(Nanoseconds deadline, const Polish& how);
  void polish(Nanoseconds deadline) { polish(deadline, {}); }

  // Time and energy of the present plan.
  [[nodiscard]] Nanoseconds makespan();
  [[nodiscard]] double net_joules() const;
  [[nodiscard]] const ClockPlan& plan();

 private:
  [[nodiscard]] const ClockChoices& choices(int i) const { return tables_->choices[at(dag_[i].type)]; }
  [[nodiscard]] Nanoseconds duration(int i) const { return ladder_[at(i)].time[level_[at(i)]]; }

  void schedule_relaxed(const GateTimes& relaxed, Nanoseconds deadline);
  void schedule_plan(Nanoseconds deadline, bool late);
  void settle(Nanoseconds deadline);
  void fit(int i);
  void publish();
  void search_random_paths(Nanoseconds deadline, int turn, const Polish& how, RoundingRandom& random);
  void improve_random_path(RoundingRandom& random, PathSearch::Slots slots);
  void disturb(Nanoseconds deadline, RoundingRandom& random);
  [[nodiscard]] int paths_per_turn(PathSearch::Slots slots) const;

  void place_early();
  void place_late(Nanoseconds deadline);
  // The two fill functions slow operations down into slack. fill_forwards() needs late_ of the present plan and
  // updates early_; fill_backwards() needs early_ and updates late_.
  template <class MayBeRaised>
  void fill_forwards(MayBeRaised may_be_raised);
  void fill_backwards(Nanoseconds deadline);
  void raise(int i, Nanoseconds room);

  std::shared_ptr<const RoundingTables> tables_;
  Searches searches_;
  const ComputationDag& dag_;
  const GateGraph& graph_;
  std::vector<ClockLadder> ladder_;  // by operation
  PathSearch paths_;
  GateSchedule schedule_;           // the gates from which follow() continues
  GateTimes last_relaxed_;          // relaxed times of the last point
  int followed_ = 0;                // points since the last round()
  std::vector<Level> level_;        // the plan
  std::vector<Nanoseconds> early_;  // by gate: the earliest time that the plan allows
  std::vector<Nanoseconds> late_;   // by gate: the latest time that the deadline allows
  bool is_early_ = false;           // whether early_ is that of the present plan
  std::vector<std::int32_t> path_;
  ClockPlan plan_;
};

}  // namespace flyball
