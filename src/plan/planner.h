// The one interface of all planners: a problem in, a frontier out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "pipeline/timeline.h"
#include "plan/frontier.h"
#include "profile/cost_curve.h"

namespace flyball {

enum class CostModel { kHull, kExponential };

// What a planner is given; make_problem() builds it. The DAG must outlive the problem. A ClockPlan names the clock of
// every operation by an index into the measured options of the operation's type. `choices` lists the Pareto-optimal
// options of each type: Perseus, joint and max choose among these. EnvPipe, uniform and Zeus's planners look for
// valleys and common clocks among all options, as their authors do; where labels make several options of one clock,
// they take the fastest. To Zeus's planners a power limit is part of the setting, like the clock.
struct PlanProblem {
  const ComputationDag* dag = nullptr;
  std::vector<Watts> blocking;        // one per stage
  Nanoseconds unit_time = 1'000'000;  // spacing of the frontier's points, or the least one where `energy_step` is more
  // Neighbouring points may be further apart than the unit time as long as their energies differ by no more than this.
  Joules energy_step{};
  CostModel cost_model = CostModel::kHull;
  double noise = 0.0;  // as pareto_options() takes it; `choices` was derived with it

  // Whether Perseus keeps what replan() (plan/replan.h) needs, at most some 30 MB.
  bool keep_flows = false;

  // How many threads a planner may use; 0: as many as there are processors. Plans do not depend on it.
  unsigned threads = 0;

  // Derived from the DAG, for each operation type.
  struct TypeChoices {
    std::vector<std::uint16_t> pareto;  // indices into the type's options, fastest first
    CostCurve hull;                     // of all measured options, whatever `noise` is; gives the lower bound
    std::uint16_t max_clock = 0;        // index of the highest clock's fastest option
  };
  std::vector<TypeChoices> choices;

  // Iteration times that the user will ask for, such as a target or a straggler's iteration time. Planners may search
  // longer for the points at these times.
  std::vector<Nanoseconds> focus;

  // The number of microbatches whose activations fit into each stage's memory; empty for no limit. Planners that change
  // the order of operations (EnvPipe, joint) keep to it. All others keep the order, and with it the number of
  // microbatches that the schedule holds.
  std::vector<int> memory_limit;

  [[nodiscard]] Watts total_blocking() const;
  // The hulls of all types, in the order of the DAG's types, as solve_relaxation() takes them.
  [[nodiscard]] std::vector<CostCurve> hulls() const;
  // charged_blocking() of pipeline/timeline.h with the blocking power of the operation's stage.
  [[nodiscard]] Watts charged_blocking(const OperationType& type) const {
    return flyball::charged_blocking(type, blocking[static_cast<std::size_t>(type.stage)]);
  }
};

// Where no spacing of points is given, it is a millisecond, or half of the shortest computation with a choice of clocks
// if that is less (usual_unit_time(), with `longest` in place of the millisecond), and more where neighbours then
// differ by no more than a 20,000th of what all operations take at maximum clocks. A frontier thus has some thousand
// points, however long an iteration takes (docs/decisions/0063-points-as-far-apart-as-energy-allows.md).
inline constexpr Nanoseconds kUsualUnitTime = 1'000'000;
inline constexpr double kUsualEnergyStep = 5e-5;
[[nodiscard]] Nanoseconds usual_unit_time(const ComputationDag& dag, Nanoseconds longest = kUsualUnitTime);

// Makes a problem and derives its choices. Points are `unit_time` apart everywhere, or as usual where none is
// given. `noise` is as in pareto_options(). A single blocking power or memory limit applies to all stages. Throws
// UsageError when `unit_time` is not positive, when it is longer than the shortest computation with a choice of clocks,
// since a frontier that coarse could not tell plans apart, and where check_memory_limit() (plan/reschedule.h) does.
// Throws InputError when a hull is steeper than the prices of relaxation.h can be.
[[nodiscard]] PlanProblem make_problem(const ComputationDag& dag, std::vector<Watts> blocking,
                                       std::optional<Nanoseconds> unit_time, CostModel cost_model, double noise = 0.0,
                                       std::vector<int> memory_limit = {});

// Returns a type's choices among the options that `allowed` takes, at least one. `charged` is the type's
// charged_blocking(). Throws InputError where two options that are allowed are next to each other in time but far apart
// in energy.
[[nodiscard]] PlanProblem::TypeChoices choices_among(const OperationType& type, Watts charged, double noise,
                                                     const std::function<bool(const ClockOption&)>& allowed);

// The plan with all computations at the highest clock, as they run without a plan. Savings are counted from it.
[[nodiscard]] ClockPlan max_clock_plan(const PlanProblem& problem);

// The plan with all computations at their fastest option, which noise may put below the highest clock. Its iteration
// takes T_min.
[[nodiscard]] ClockPlan fastest_plan(const PlanProblem& problem);

struct PlannerStats {
  std::int64_t nodes = 0;
  std::int64_t edges = 0;
  std::int64_t steps = 0;      // of the planner's main loop
  double solve_seconds = 0.0;  // wall-clock time of plan() alone
};

struct KeptFlows;

struct PlannerResult {
  Frontier frontier;
  PlannerStats stats;
  // The DAG that the frontier's plans are for, where the planner has changed the order of operations (EnvPipe, joint);
  // null where they are for the problem's DAG. It has the same operation types, and its original_index() gives an
  // operation's number in the problem's DAG. The relaxation of the problem's DAG bounds no plan of another order.
  std::shared_ptr<const ComputationDag> dag;

  // For replan() (plan/replan.h); null unless the problem says keep_flows.
  std::shared_ptr<const KeptFlows> flows;

  [[nodiscard]] const ComputationDag& dag_of(const PlanProblem& problem) const { return dag ? *dag : *problem.dag; }
};

// A function that is called with the share of work done, in [0, 1]. When it returns false, plan() stops and returns the
// part of the frontier that it has found. An empty function never stops it.
using Progress = std::function<bool(double)>;

// A planner makes a frontier from a problem. It holds no state but its options, so that one instance may be used from
// several threads at once.
class Planner {
 public:
  virtual ~Planner() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual PlannerResult plan(const PlanProblem& problem, const Progress& progress) const = 0;
};

inline constexpr const char* kMainPlanner = "perseus";     // in the schedule's order
inline constexpr const char* kFreeOrderPlanner = "joint";  // in the order that it finds best

// Returns the planner of this name from the table in planner_registry.cpp. Throws UsageError, which lists the known
// names, where there is none.
[[nodiscard]] std::unique_ptr<Planner> make_planner(std::string_view name);
[[nodiscard]] std::vector<std::string> planner_names();

// Returns the planners that somebody names: the one of that name, or for "all" all of them, the main one first.
inline constexpr const char* kAllPlanners = "all";
[[nodiscard]] std::vector<std::string> planners_named(const std::string& name);

}  // namespace flyball
