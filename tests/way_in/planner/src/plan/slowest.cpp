// One option per operation type, replayed: no search.
#include "plan/slowest.h"

#include "plan/stage_clock.h"

namespace flyball {
namespace {

class Slowest final : public Planner {
 public:
  [[nodiscard]] std::string_view name() const override { return "slowest"; }

  [[nodiscard]] PlannerResult plan(const PlanProblem& problem, const Progress& /*progress*/) const override {
    TypeOptions options;
    for (const PlanProblem::TypeChoices& choices : problem.choices) options.push_back(choices.pareto.back());
    const ClockPlan plan = plan_of_types(*problem.dag, options);
    PlannerResult result;
    result.frontier = Frontier(problem.total_blocking());
    result.frontier.add(replay(*problem.dag, problem.blocking, plan), plan);
    result.frontier.finish();
    return result;
  }
};

}  // namespace

std::unique_ptr<Planner> make_slowest() { return std::make_unique<Slowest>(); }

}  // namespace flyball
