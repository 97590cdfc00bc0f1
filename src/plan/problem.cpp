// Derives and checks the fields of PlanProblem, and makes the plans that need no planner.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "plan/planner.h"
#include "plan/reschedule.h"

namespace flyball {
namespace {

// Prices of time are 64-bit multiples of 2^-24 J/s. No real measurement comes near this limit.
void check_slopes(const OperationType& type, const CostCurve& hull) {
  constexpr double kSteepest = 1e9;  // W
  for (std::size_t k = 1; k < hull.size(); ++k) {
    const double watts =
        (hull[k - 1].net_joules - hull[k].net_joules) / to_seconds(hull[k].time - hull[k - 1].time).value();
    if (watts <= kSteepest) continue;
    throw InputError({fmt::format("stage {} {}", type.stage, type.instruction)},
                     fmt::format("two clocks are {} ns apart but differ by {:.4g} J net of blocking",
                                 hull[k].time - hull[k - 1].time, hull[k - 1].net_joules - hull[k].net_joules),
                     "average more measurements, delete one of the two rows, or correct the blocking power");
  }
}

void check_unit_time(const ComputationDag& dag, Nanoseconds unit_time) {
  if (unit_time <= 0) throw UsageError("the unit time must be above zero (--unit-time 1ms)");
  for (const OperationType& type : dag.types()) {
    if (type.options.size() < 2) continue;
    const auto fastest = std::min_element(type.options.begin(), type.options.end(),
                                          [](const auto& a, const auto& b) { return a.time < b.time; });
    if (to_nanoseconds(fastest->time) >= unit_time) continue;
    throw UsageError(
        fmt::format("the unit time of {} ms is longer than stage {} {}, which takes {:.4g} ms; choose a "
                    "shorter one (--unit-time)",
                    static_cast<double>(unit_time) * 1e-6, type.stage, type.instruction, fastest->time.value() * 1e3));
  }
}

}  // namespace

PlanProblem::TypeChoices choices_among(const OperationType& type, Watts charged, double noise,
                                       const std::function<bool(const ClockOption&)>& allowed) {
  std::vector<ClockOption> options;
  std::vector<std::uint16_t> index;  // of these among all
  for (std::size_t k = 0; k < type.options.size(); ++k) {
    if (!allowed(type.options[k])) continue;
    options.push_back(type.options[k]);
    index.push_back(static_cast<std::uint16_t>(k));
  }
  PlanProblem::TypeChoices choices;
  for (const std::size_t kept : pareto_indices(options, charged, noise)) choices.pareto.push_back(index[kept]);
  choices.hull = hull_curve(pareto_options(options, charged), charged);
  check_slopes(type, choices.hull);
  const auto highest = std::max_element(options.begin(), options.end(),
                                        [](const auto& a, const auto& b) { return a.frequency < b.frequency; });
  choices.max_clock = index[static_cast<std::size_t>(highest - options.begin())];
  return choices;
}

Watts PlanProblem::total_blocking() const {
  Watts total;
  for (const Watts power : blocking) total += power;
  return total;
}

std::vector<CostCurve> PlanProblem::hulls() const {
  std::vector<CostCurve> curves;
  for (const TypeChoices& type : choices) curves.push_back(type.hull);
  return curves;
}

Nanoseconds usual_unit_time(const ComputationDag& dag, Nanoseconds longest) {
  Nanoseconds unit = longest;
  for (const OperationType& type : dag.types()) {
    if (type.options.size() < 2) continue;
    for (const ClockOption& option : type.options) unit = std::min(unit, to_nanoseconds(option.time / 2));
  }
  return std::max<Nanoseconds>(unit, 1);
}

PlanProblem make_problem(const ComputationDag& dag, std::vector<Watts> blocking, std::optional<Nanoseconds> unit_time,
                         CostModel cost_model, double noise, std::vector<int> memory_limit) {
  if (unit_time) check_unit_time(dag, *unit_time);
  if (blocking.size() == 1) blocking.resize(static_cast<std::size_t>(dag.stages()), blocking[0]);
  if (memory_limit.size() == 1) memory_limit.resize(static_cast<std::size_t>(dag.stages()), memory_limit[0]);
  if (!memory_limit.empty()) check_memory_limit(dag, memory_limit);
  PlanProblem problem;
  problem.dag = &dag;
  problem.blocking = std::move(blocking);
  problem.unit_time = unit_time.value_or(usual_unit_time(dag));
  problem.memory_limit = std::move(memory_limit);
  problem.cost_model = cost_model;
  problem.noise = noise;
  for (const OperationType& type : dag.types()) {
    problem.choices.push_back(
        choices_among(type, problem.charged_blocking(type), noise, [](const ClockOption&) { return true; }));
  }
  if (!unit_time) {
    for (const Computation& computation : dag.computations()) {
      const auto type = static_cast<std::size_t>(computation.type);
      problem.energy_step += kUsualEnergyStep * dag.types()[type].options[problem.choices[type].max_clock].energy;
    }
  }
  return problem;
}

ClockPlan max_clock_plan(const PlanProblem& problem) {
  ClockPlan plan;
  for (const Computation& computation : problem.dag->computations()) {
    plan.push_back(problem.choices[static_cast<std::size_t>(computation.type)].max_clock);
  }
  return plan;
}

ClockPlan fastest_plan(const PlanProblem& problem) {
  ClockPlan plan;
  for (const Computation& computation : problem.dag->computations()) {
    plan.push_back(problem.choices[static_cast<std::size_t>(computation.type)].pareto.front());
  }
  return plan;
}

}  // namespace flyball
