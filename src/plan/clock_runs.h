// A plan as runs of operations with equal clocks, and edits that make the runs cheaper, fewer or faster. Internal to
// plan/: switching.cpp searches with it.
//
// To try an edit, the iteration is replayed with clock changes that take hold late (pipeline/late_clocks.h); then the
// edit is kept or taken back. The plan is taken to repeat: the last operation of a stage precedes its first.
//
// What it brings: priced_clocks.h says what edits save alone and with other plans to begin with.
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

// Holds one plan of the problem's DAG and edits it. Not thread-safe; the problem must outlive it. load() must be called
// before any other function but set_budget().
class ClockRuns {
 public:
  // A clock change takes hold `latency` after it is requested. `waits_until` is the iteration time of a straggler, the
  // wait for which energies then include; 0 where there is no straggler.
  ClockRuns(const PlanProblem& problem, Nanoseconds latency, Nanoseconds waits_until = 0,
            ClocksAsked asked = ClocksAsked::kAtBegin);

  // Replaces the present plan by another one of the problem's DAG. Cost: O(nodes).
  void load(ClockPlan plan);

  // The present plan and its figures with clock changes charged: the time of the longest iteration, the mean energy of
  // an iteration with its wait for the straggler, and the shortest time between two changes of a stage (the iteration
  // time where no stage changes its clock).
  [[nodiscard]] const ClockPlan& plan() const { return plan_; }
  [[nodiscard]] Nanoseconds longest() const { return timeline_.makespan; }
  [[nodiscard]] Joules energy() const { return energy_; }
  [[nodiscard]] Nanoseconds shortest_dwell() const;

  // The budget is how much work may still be done, counted in replayed operations. Edits end when it is spent, as if no
  // further one paid. There is no limit until set_budget() is called.
  void set_budget(std::int64_t operations) { budget_ = operations; }
  void spend(std::int64_t operations) { budget_ -= operations; }
  [[nodiscard]] bool spent() const { return budget_ < 0; }

  // Called after each edit that is kept.
  std::function<void()> kept;

  // While the iteration is longer than `deadline` because operations on the critical path request their clock too late,
  // raises the nearest earlier operation of a lower clock to the clock of such an operation, which requests it earlier.
  void ask_earlier(Nanoseconds deadline);

  // While the iteration is longer than `deadline`, raises one run to its next higher clock: the run that shortens the
  // critical path for the least energy per second. Adds no clock change. Returns whether the deadline is met.
  bool raise_runs(Nanoseconds deadline);

  // Where a stage changes its clock twice within `min_dwell`, lengthens or removes the run between the two changes.
  // Either the run or its neighbour takes the clock of the other, which removes a change; or the run grows into its
  // neighbours, which removes none and is done a limited number of times. Of these edits the one of least energy within
  // the deadline is taken.
  void keep_dwell(Nanoseconds min_dwell, Nanoseconds deadline);

  // Gives runs the clock of the run before or after them wherever that does not raise the energy and the iteration ends
  // by the deadline, or no later than it does now. Returns whether the plan has changed, as the next two functions do.
  bool merge_runs(Nanoseconds deadline);

  // Gives runs the next lower clock wherever that saves energy within the same limits, which spends the slack that is
  // left.
  bool lower_runs(Nanoseconds deadline);

  // Gives the first or the last one, two or four operations of a run the clock of the neighbouring run where that saves
  // energy within the same limits. Adds no clock change.
  bool shift_bounds(Nanoseconds deadline);

 private:
  // Consecutive operations of equal clock on a stage. `begin` counts the stage's operations that have a choice of
  // clocks; a run may continue past the end of the iteration at its beginning.
  struct Run {
    std::size_t begin = 0;
    std::size_t length = 0;
  };
  using Edit = std::vector<std::pair<int, std::uint16_t>>;  // new options for some operations
  // What an edit does to the iteration with its clock changes charged.
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
  [[nodiscard]] Nanoseconds asked_at(std::size_t stage, std::size_t position) const;
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
  ClocksAsked asked_;
  ClockPlan plan_;
  std::vector<std::vector<int>> order_;      // by stage: the operations with a choice of clocks
  std::vector<std::pair<int, int>> beside_;  // by operation: the one before and the one after it in order_, in a circle
  LateClocks late_;
  std::vector<Nanoseconds> durations_;  // charged, of the longest iteration
  Timeline timeline_;                   // of durations_
  Joules energy_;                       // charged, of an iteration
  std::int64_t budget_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace flyball
