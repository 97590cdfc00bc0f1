// The one interface of all planners: a problem in, a frontier of discrete plans out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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

// What is to be planned. The DAG must outlive it. A ClockPlan indexes into the measured options of each operation's
// type; planners choose among the Pareto-optimal ones that `choices` lists.
struct PlanProblem {
  const ComputationDag* dag = nullptr;
  std::vector<Watts> blocking;        // one per stage
  Nanoseconds unit_time = 1'000'000;  // spacing of the frontier's points
  CostModel cost_model = CostModel::kHull;
  double noise = 0.0;  // pareto_options' rule, already applied to the choices

  // Derived, per operation type.
  struct TypeChoices {
    std::vector<std::uint16_t> pareto;  // indices into the type's options, fastest first
    CostCurve hull;                     // of all measured options, net of blocking: what bounds
    std::uint16_t max_clock = 0;        // index of the highest clock
  };
  std::vector<TypeChoices> choices;

  // Iteration times that will be asked for (a target, a straggler's): planners may work harder on the points there.
  std::vector<Nanoseconds> focus;

  // Microbatches whose activations fit into a stage's memory, one per stage; empty for no limit. Planners that reorder
  // 1F1B (EnvPipe) keep to it; all others keep the order, and with it what the schedule holds.
  std::vector<int> memory_limit;

  [[nodiscard]] Watts total_blocking() const;
  // The hull of every type, in the order of the DAG's types, as solve_relaxation() takes them.
  [[nodiscard]] std::vector<CostCurve> hulls() const;
  // pipeline/timeline.h's, with the power of the operation's stage.
  [[nodiscard]] Watts charged_blocking(const OperationType& type) const {
    return flyball::charged_blocking(type, blocking[static_cast<std::size_t>(type.stage)]);
  }
};

// Derives the choices. `noise` is pareto_options' rule; one power or memory limit is for all stages. Throws UsageError
// when `unit_time` is not positive or longer than the shortest computation with a choice (naming it), since a frontier
// that coarse cannot tell plans apart, and what check_memory_limit (plan/reschedule.h) throws.
[[nodiscard]] PlanProblem make_problem(const ComputationDag& dag, std::vector<Watts> blocking, Nanoseconds unit_time,
                                       CostModel cost_model, double noise = 0.0, std::vector<int> memory_limit = {});

// All computations at the highest clock: the default mode of operation and everyone's baseline.
[[nodiscard]] ClockPlan max_clock_plan(const PlanProblem& problem);

// All computations at their fastest option, which noise may put below the highest clock: its makespan is T_min.
[[nodiscard]] ClockPlan fastest_plan(const PlanProblem& problem);

struct PlannerStats {
  std::int64_t nodes = 0;
  std::int64_t edges = 0;
  std::int64_t steps = 0;      // of the planner's main loop
  double solve_seconds = 0.0;  // wall-clock, planning alone
};

struct PlannerResult {
  Frontier frontier;
  PlannerStats stats;
  // Set by planners that reorder the operations of a stage (EnvPipe): the DAG that the frontier's plans are for, with
  // the same operation types. Its original_index() gives an operation's number in the problem's DAG, whose relaxation
  // bounds nothing on another order. Null: the problem's DAG.
  std::shared_ptr<const ComputationDag> dag;

  [[nodiscard]] const ComputationDag& dag_of(const PlanProblem& problem) const { return dag ? *dag : *problem.dag; }
};

// Called with the share done in [0, 1]; returns false to cancel, upon which plan() returns what it has.
using Progress = std::function<bool(double)>;

// Stateless but for its options; one instance may be used from several threads.
class Planner {
 public:
  virtual ~Planner() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual PlannerResult plan(const PlanProblem& problem, const Progress& progress) const = 0;
};

// Planners by their names in the one table of planners (planner_registry.cpp). Throws UsageError, which lists the
// names.
[[nodiscard]] std::unique_ptr<Planner> make_planner(std::string_view name);
[[nodiscard]] std::vector<std::string> planner_names();

}  // namespace flyball
