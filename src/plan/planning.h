// Answers all that is asked of a pipeline at once: the plan for a pace or inside limits on power, of one planner or of
// several, with what clock changes cost it, what can be expected of it, and what it comes to for the whole job. The
// figures that go with an answer are computed here, so that every interface shows the same.
//
// Units. Times are in seconds; energies in joules per iteration, of one pipeline with one GPU per stage unless they are
// said to be the job's; powers in watts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/names.h"
#include "base/units.h"
#include "plan/expected_saving.h"
#include "plan/planner.h"
#include "plan/planning_parts.h"
#include "plan/power_planning.h"
#include "plan/straggler.h"
#include "plan/summary.h"

namespace flyball {

struct PlanningRequest {
  std::vector<std::string> planners = {kMainPlanner};
  PaceRequest pace;
  std::vector<Nanoseconds> focus;            // iteration times that matter besides the pace's
  std::optional<PowerRequest> power;         // instead of a pace
  std::optional<SwitchingLimits> switching;  // what clock changes cost; none: they are free
  bool look_at_order = false;                // tell what another order could save
  // The same pipeline in 1F1B's order with whole backwards, where the one that is planned has them in two parts: tell
  // what is saved against that. Must outlive the planning.
  const PlanProblem* whole_backwards = nullptr;
  const MeasurementNoise* noise = nullptr;  // tell what to expect with it, where it is known
  JobShape job;
  PartBegins begins;  // called when a part of the work begins
};

// A point of a frontier that has a name.
enum class LandmarkName {
  kOnly,        // the one point of its frontier
  kFastest,     // the frontier's first
  kAsFast,      // the least energy that is no slower than all-maximum clocks
  kTarget,      // the point that a target time asks for
  kStraggler,   // the point that a straggler asks for
  kLeastTotal,  // the least energy, blocking included
  kTStar,       // the frontier's last
  kInLimits,    // the fastest that was found inside the limits on power
};
template <>
inline constexpr auto kNamesOf<LandmarkName> = name_list("only", "fastest", "as_fast", "target", "straggler",
                                                         "least_total", "t_star", "in_limits");

struct Landmark {
  LandmarkName name = LandmarkName::kOnly;
  std::size_t point = 0;  // index into the frontier
  PointFigures figures;
};

// What an iteration takes of `pipelines` pipelines with `gpus_per_stage` GPUs on every stage. Ranks of a stage do the
// same work: joules multiply, seconds do not (Perseus section 4.4).
struct JobEnergy {
  int pipelines = 1;
  int gpus_per_stage = 1;
  Joules baseline;
  Joules plan;

  [[nodiscard]] Joules saved() const { return baseline - plan; }
};

// In which order of operations a planner's frontier is.
enum class PlannedOrder {
  kSchedule,      // the schedule's, which the planner takes as given
  kOwn,           // one that the planner has chosen
  kNoneBetter,    // the schedule's, since the planner found none that saves more within the memory limit
  kCannotChange,  // the schedule's, since this pipeline's order cannot be changed
};
template <>
inline constexpr auto kNamesOf<PlannedOrder> = name_list("schedule", "own", "none_better", "cannot_change");

// What every stage could bring by holding one more microbatch than in the schedule's order.
struct OneMoreInFlight {
  std::vector<int> memory_limit;
  double saving_pct = 0.0;  // about, at the selected plan's pace: at most in one such order, while others save more
};

// What backwards in two parts are worth: 1F1B with whole backwards beside the frontier's plan of least energy that ends
// by the time that 1F1B takes at maximum clocks, or beside its fastest plan if none does.
struct AgainstWhole {
  Seconds whole_time;           // of 1F1B at maximum clocks
  Joules whole_energy;          // likewise
  double whole_saving_pct = 0;  // no clocks for 1F1B save more by that time
  Seconds time;                 // of the frontier's plan
  double saving_pct = 0;        // of the frontier's plan, of 1F1B's energy
};

// The answer of one planner. Operation i of its plans is operation i of result.dag_of(problem).
struct PlannerRun {
  PlannerResult result;
  PlanSummary summary;
  std::vector<Landmark> landmarks;  // by rising time; the selected point is one of them
  // One GPU on every stage; one whole pipeline, where its stages have several GPUs; and all pipelines, unless a
  // straggler is among them, whose energy is another one (emulate_job()). Empty for a job of one such pipeline.
  std::vector<JobEnergy> job;
  std::optional<SwitchingFigures> switching;  // of the selected plan, when asked for
  std::optional<ExpectedFigures> expected;    // of the selected plan, where the noise of its measurements is known
  PlannedOrder order = PlannedOrder::kSchedule;
  std::vector<int> in_flight;                 // microbatches that each stage holds at most; empty where unknown
  std::vector<int> schedule_in_flight;        // the same of the schedule's order
  std::optional<OneMoreInFlight> one_more;    // where it was asked for, can be run, and would save more
  std::optional<AgainstWhole> against_whole;  // where it was asked for, and nobody waits for a straggler
  std::optional<PowerFigures> power;          // of the selected plan, where there are limits
  std::vector<BudgetedPlan> budget;           // one for each period; the selected plan is that of the least power
  std::vector<TighterPlan> tighter;           // where the request has parts of its limits
};

struct PlanningResult {
  std::vector<PlannerRun> runs;     // in the order of the request; fewer where `progress` said no or limits are unmet
  std::optional<UnmetPower> unmet;  // the limits on power that no plan of the planner after the last run keeps to
};

// Plans with each of the request's planners, one after the other on this thread, and fills the lower bounds that
// planners leave open from the relaxation, which is solved once for each order of operations. The problem's focus is
// that of the request: its pace and its own. Within limits on power it plans anew for every share of kCapShares; the
// frontier is then that of the share whose plan was taken. `progress` tells the share of the part that is under way,
// and stops the planning when it returns false.
//
// Limits on power are for planners that plan with the problem's choices (plan/power_limits.h), and a budget for one
// that keeps the order. Throws Error where a planner finds no plan, and UsageError for a planner that is not known or a
// pace that summarise() refuses. The results point at the problem's DAG; nothing else is kept. Several threads may call
// this at once. Cost: that of the planners, and of switching_figures(), expected_figures() and plan_within() where
// asked for.
[[nodiscard]] PlanningResult plan_as_asked(const PlanProblem& problem, const PlanningRequest& request,
                                           const Progress& progress = {});

}  // namespace flyball
