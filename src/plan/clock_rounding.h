// From relaxed event times to clocks: which measured option each operation runs at.
//
// Perseus (section 4.3) gives each computation the slowest clock not slower than planned and stops there; what rounding
// leaves over is lost. Here the relaxed times become times of gates (gates.h), and what is left over is spent again. In
// brackets what each step brings, in per cent of an iteration's energy, mean and worst, with all others in place:
//   paths   the gates along one stage are moved to their best times together (path_search.h), stage after stage
//           [0.055, 2.33 along the frontier];
//   carry   like points have like plans: the next point of the frontier takes over the gates of the last, moved as the
//           relaxation moves its events, and one stage is gone through again. Drift ends where a point starts anew
//           [0.008, 1.13 along the frontier, and a fourth of the time];
//   fill    one pass forwards in time raises operations into the slack that is left [0.005, 0.11 along the frontier];
//   search  small neighbourhoods are sped up at random and refilled, and kept when no dearer [0.010, 0.11], in turns
//           with random paths [0.038, 0.31 where a time was asked for] (fixed seed, fixed number of trials: same input,
//           same plan).
// round() and follow() do all but the search, for every point of a frontier; polish() searches, for the points that
// matter. Every step keeps the iteration within its deadline.
//
// Measured on the per-clock profiles of GPT-3 175B (A40) and Bloom 176B (A100) that Perseus' authors published, by
//   build/bench/bench/rounding_value ${FLYBALL_SHARED_DATA:-../shared/data}/perseus-sosp24/emulation/*_bf16.csv
// (docs/decisions/0042-what-rounding-keeps.md).
#pragma once

#include <cstdint>
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

// What bench/rounding_value leaves out, one after the other, to tell what each brings. Plans are made with all.
struct Searches {
  bool stage_paths = true;
  bool carry = true;  // perseus.cpp: where not, every point is rounded anew
  bool fill = true;
  bool neighbourhoods = true;
  bool random_paths = true;
};

// Holds one plan at a time. Not thread-safe; the problem must outlive it.
class ClockRounder {
 public:
  explicit ClockRounder(const PlanProblem& problem, Searches searches = {});

  // The plan for iteration time `deadline`, which must lie within the stretch, from the relaxed times alone. Cost: one
  // path search per stage, 0.3 to 0.6 us per operation.
  void round(const FrontierStretch& stretch, Nanoseconds deadline);

  // The same from where the last call of round() or follow() left off, for a deadline near that one's; nothing else may
  // have been called between but what tells about the plan. Cost: one path search and a few passes over the operations,
  // about 0.1 us per operation with four stages.
  void follow(const FrontierStretch& stretch, Nanoseconds deadline);

  // The plan of round() without path searches: floors, filled from the end backwards. Another place for polish() to
  // begin, since what it ends at depends on that.
  void floor(const FrontierStretch& stretch, Nanoseconds deadline);

  // Takes over a plan of Pareto-optimal options.
  void load(const ClockPlan& plan);

  // Makes the present plan cheaper within `deadline`, which it must meet. `trials` bounds the random search, each trial
  // costing O(nodes + edges).
  void polish(Nanoseconds deadline, int trials);

  // What the present plan really gives.
  [[nodiscard]] Nanoseconds makespan();
  [[nodiscard]] double net_joules() const;
  [[nodiscard]] const ClockPlan& plan();

 private:
  [[nodiscard]] const ClockChoices& choices(int i) const { return choices_[at(dag_[i].type)]; }
  [[nodiscard]] Nanoseconds duration(int i) const { return ladder_[at(i)].time[level_[at(i)]]; }

  void find_relaxed(const FrontierStretch& stretch, Nanoseconds deadline);
  void schedule_relaxed(const FrontierStretch& stretch, Nanoseconds deadline);
  void schedule_plan(Nanoseconds deadline, bool late);
  void settle(Nanoseconds deadline);
  void fit(int i);
  void publish();
  void improve_random_path();

  void place_early();
  void place_late(Nanoseconds deadline);
  // Raise operations into slack; `skip_eighths` of those that could be raised, drawn at random, are passed over.
  // Forwards needs late_ of the plan and leaves early_ of what becomes of it; backwards the other way round.
  void fill_forwards(std::uint32_t skip_eighths);
  void fill_backwards(Nanoseconds deadline, std::uint32_t skip_eighths);
  void raise(int i, Nanoseconds room, std::uint32_t skip_eighths);
  void search(Nanoseconds deadline, int trials);
  std::uint32_t draw();

  Searches searches_;
  const ComputationDag& dag_;
  std::vector<ClockChoices> choices_;  // by type
  std::vector<ClockLadder> ladder_;    // by operation
  GateGraph graph_;
  PathSearch paths_;
  GateSchedule schedule_;                            // what follow() goes on from
  std::vector<Nanoseconds> tail_;                    // by gate: from there to the end with all at their fastest
  std::vector<Nanoseconds> relaxed_, last_relaxed_;  // by gate: where the relaxation has it, now and a point ago
  int next_stage_ = 0;
  std::vector<Level> level_;        // the plan
  std::vector<Nanoseconds> early_;  // by gate: as early as the plan allows
  std::vector<Nanoseconds> late_;   // as late as the deadline allows
  bool is_early_ = false;           // early_ is of the present plan
  std::vector<std::int32_t> sources_, path_;
  ClockPlan plan_;
  std::uint64_t random_ = 0;
};

}  // namespace flyball
