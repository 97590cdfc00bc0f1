#include "support/exhaustive.h"

#include <algorithm>
#include <limits>

namespace flyball::testing {

void for_each_plan(const PlanProblem& problem, const std::function<void(Nanoseconds, double)>& see) {
  const ComputationDag& dag = *problem.dag;
  ClockPlan plan(static_cast<std::size_t>(dag.size()), 0);
  std::vector<Nanoseconds> finish(plan.size());
  while (true) {
    double net = 0.0;
    for (int i = 0; i < dag.size(); ++i) {
      const OperationType& type = dag.type_of(i);
      net += net_joules(type.options[plan[static_cast<std::size_t>(i)]], problem.charged_blocking(type));
    }
    see(makespan(dag, plan_durations(dag, plan), finish), net);
    int digit = 0;
    for (; digit < dag.size(); ++digit) {
      std::uint16_t& option = plan[static_cast<std::size_t>(digit)];
      if (++option < dag.type_of(digit).options.size()) break;
      option = 0;
    }
    if (digit == dag.size()) return;
  }
}

double discrete_optimum(const PlanProblem& problem, Nanoseconds deadline) {
  double best = std::numeric_limits<double>::infinity();
  for_each_plan(problem, [&](Nanoseconds time, double net) {
    if (time <= deadline) best = std::min(best, net);
  });
  return best;
}

}  // namespace flyball::testing
