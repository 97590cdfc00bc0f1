// A plan as runs of equal clock, which edits make cheaper, fewer or faster. Internal to plan/: switching.cpp searches
// with it.
//
// An edit is applied, the iteration is replayed with changes that take hold late (pipeline/late_clocks.h), and the edit
// is kept or taken back. The plan is taken to repeat: the last operation of a stage precedes its first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"
#include "pipeline/late_clocks.h"
#include "pipeline/timeline.h"
#include "plan/planner.h"

namespace flyball {

// Not thread-safe; the problem must outlive it.
class ClockRuns {
 public:
  // Where a straggler's iteration takes `waits_until` (0: none), energies include waiting for it.
  ClockRuns(const PlanProblem& problem, Nanoseconds latency, Nanoseconds waits_until = 0);

  // Takes over a plan of the problem's DAG. Cost O(nodes).
  void load(ClockPlan plan);

  // The present plan, with its changes charged: the longest iteration, the mean energy of one with its wait for the
  // straggler, and the shortest time between two changes of a stage (the iteration's where no stage changes its clock).
  [[nodiscard]] const ClockPlan& plan() const { return plan_; }
  [[nodiscard]] Nanoseconds longest() const { return timeline_.makespan; }
  [[nodiscard]] Joules energy() const { return energy_; }
  [[nodiscard]] Nanoseconds shortest_dwell() const;

  // How much work may still be done, in replayed operations; edits end when it is spent, as if no further one paid.
  // Without a limit at first.
  void set_budget(std::int64_t operations) { budget_ = operations; }
  void spend(std::int64_t operations) { budget_ -= operations; }
  [[nodiscard]] bool spent() const { return budget_ < 0; }

  // Called with each edit that is kept.
  std::function<void()> kept;

  // While the iteration is longer than `deadline` because operations on the critical path ask for their clock too late,
  // the nearest operation before one of them that has a lower clock is raised to it.
  void ask_earlier(Nanoseconds deadline);

  // While the iteration is longer than `deadline`, the run is raised by a clock that buys critical time for the least
  // energy. Adds no change. Returns whether the deadline is met.
  bool raise_runs(Nanoseconds deadline);

  // Where a stage changes its clock twice within `min_dwell`, operations of equal clock on one side of the change take
  // the clock of the other side, which removes a change, or the run grows into its neighbours, which removes none and
  // is done some times only; of these the one of least energy within the deadline is taken.
  void keep_dwell(Nanoseconds min_dwell, Nanoseconds deadline);

  // Runs take the clock of the run before or after them wherever that meets the deadline and does not raise the energy.
  // Returns whether the plan has changed, as the next two do.
  bool merge_runs(Nanoseconds deadline);

  // Runs take the next lower clock under the same conditions, which spends the slack that is left.
  bool lower_runs(Nanoseconds deadline);

  // The first or the last operations of a run, one, two or four, take their neighbour's clock where that saves energy
  // within the deadline. Adds no change.
  bool shift_bounds(Nanoseconds deadline);

 private:
  // Consecutive operations of equal clock on a stage. `begin` counts the stage's operations that have a choice of
  // clocks; a run may continue past the end of the iteration at its beginning.
  struct Run {
    std::size_t begin = 0;
    std::size_t length = 0;
  };
  using Edit = std::vector<std::pair<int, std::uint16_t>>;  // new options for some operations
  // What an edit does to the charged iteration.
  struct Effect {
    Nanoseconds makespan = 0;    // of the longest iteration
    double energy_change = 0.0;  // J, blocking included
  };

  [[nodiscard]] Megahertz clock(int i) const;
  [[nodiscard]] Nanoseconds duration(int i, std::uint16_t option) const;
  [[nodiscard]] double net(int i, std::uint16_t option) const;
  [[nodiscard]] int operation(std::size_t stage, std::size_t position) const {
    return order_[stage][position % order_[stage].size()];
  }
  [[nodiscard]] std::optional<std::pair<int, std::uint16_t>> slower_before(int i) const;
  [[nodiscard]] std::vector<Run> runs(std::size_t stage) const;
  [[nodiscard]] Nanoseconds dwell_of(std::size_t stage, const std::vector<Run>& all, std::size_t r) const;
  [[nodiscard]] std::optional<Edit> at_clock(std::size_t stage, const Run& run, Megahertz target) const;
  [[nodiscard]] std::vector<Edit> grown(std::size_t stage, const std::vector<Run>& all, std::size_t r,
                                        Nanoseconds least) const;
  [[nodiscard]] std::optional<Edit> raised(std::size_t stage, const Run& run) const;
  [[nodiscard]] bool may_pay(const Edit& edit, Nanoseconds deadline) const;
  [[nodiscard]] bool better(const Effect& a, const Effect& b, Nanoseconds deadline) const;
  [[nodiscard]] double rounding() const;

  const SwitchedRun& run_present();
  void swap(Edit& edit);
  [[nodiscard]] Effect try_edit(Edit edit);
  void accept(Edit edit);
  void adopt();
  template <class EditsFor>
  bool improve_runs(Nanoseconds deadline, double least_saving, EditsFor edits_for);

  const PlanProblem& problem_;
  const ComputationDag& dag_;
  Nanoseconds latency_;
  Nanoseconds waits_until_;
  ClockPlan plan_;
  std::vector<std::vector<int>> order_;      // by stage: the operations with a choice of clocks
  std::vector<std::pair<int, int>> beside_;  // by operation: those before and after it on the stage, in a circle
  LateClocks late_;
  std::vector<Nanoseconds> durations_;  // charged, of the longest iteration
  Timeline timeline_;                   // of durations_
  Joules energy_;                       // charged, of an iteration
  std::int64_t budget_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace flyball
