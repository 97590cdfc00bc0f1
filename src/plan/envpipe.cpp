// EnvPipe's algorithms as the paper states them, on executed steps. Options are ordered by falling clock; a step raises
// an operation to the next clock, and of several options of that clock to the fastest.
#include "plan/envpipe.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/index.h"
#include "plan/reschedule.h"
#include "plan/stage_clock.h"

namespace flyball {
namespace {

Megahertz clock_of(const ComputationDag& dag, const ClockPlan& plan, int i) {
  return dag.type_of(i).options[plan[at(i)]].frequency;
}

bool can_rise(const PlanProblem& problem, const ClockPlan& plan, int i) {
  const ComputationDag& dag = *problem.dag;
  return clock_of(dag, plan, i) < dag.type_of(i).options[problem.choices[at(dag[i].type)].max_clock].frequency;
}

// By how many steps the operation's clock can still be raised.
int steps_below_maximum(const PlanProblem& problem, const ClockPlan& plan, int i) {
  const auto& options = problem.dag->type_of(i).options;
  int steps = 0;
  for (std::size_t k = problem.choices[at((*problem.dag)[i].type)].max_clock; k < plan[at(i)]; ++k) {
    if (options[k].frequency != options[k + 1].frequency) ++steps;
  }
  return steps;
}

// raise_balanced() and raise_greedy() return the number of steps by which they raised clocks, 0 if none can be raised.
int raise_balanced(const PlanProblem& problem, const std::vector<int>& path, ClockPlan& plan) {
  std::optional<Megahertz> lowest;
  for (const int i : path) {
    if (!can_rise(problem, plan, i)) continue;
    const Megahertz clock = clock_of(*problem.dag, plan, i);
    if (!lowest || clock < *lowest) lowest = clock;
  }
  int raised = 0;
  for (const int i : path) {
    if (!can_rise(problem, plan, i) || clock_of(*problem.dag, plan, i) != *lowest) continue;
    plan[at(i)] = *one_clock_up(problem.dag->type_of(i), plan[at(i)]);
    ++raised;
  }
  return raised;
}

int raise_greedy(const PlanProblem& problem, const std::vector<int>& path, ClockPlan& plan) {
  const auto last = std::find_if(path.rbegin(), path.rend(), [&](int i) { return can_rise(problem, plan, i); });
  if (last == path.rend()) return 0;
  const int steps = steps_below_maximum(problem, plan, *last);
  plan[at(*last)] = problem.choices[at((*problem.dag)[*last].type)].max_clock;
  return steps;
}

ClockPlan envelope_plan(const PlanProblem& problem) {
  const ComputationDag& dag = *problem.dag;
  ClockPlan plan = plan_of_types(dag, valley_options(dag));
  const std::vector<bool> outer = envelope(dag);
  for (int i = 0; i < dag.size(); ++i) {
    if (outer[at(i)]) plan[at(i)] = problem.choices[at(dag[i].type)].max_clock;
  }
  return plan;
}

class EnvPipePlanner : public Planner {
 public:
  EnvPipePlanner(EnvPipeOptions options, StepExecutor execute)
      : options_(std::move(options)), execute_(std::move(execute)) {}

  [[nodiscard]] std::string_view name() const override { return name_of(options_.policy); }

  [[nodiscard]] PlannerResult plan(const PlanProblem& problem, const Progress& progress) const override {
    const auto begin = std::chrono::steady_clock::now();
    PlannerResult result;
    PlanProblem realised = problem;
    if (const auto in_flight = options_.reschedule ? in_flight_of_1f1b(*problem.dag) : std::nullopt) {
      const std::vector<int>& limit = options_.memory_limit.empty() ? problem.memory_limit : options_.memory_limit;
      const std::vector<int> deeper = rescheduled_in_flight(problem, limit);
      if (deeper != *in_flight) {
        result.dag = std::make_shared<const ComputationDag>(reschedule(*problem.dag, deeper));
        realised.dag = result.dag.get();
      }
    }

    Reconfigured outcome{envelope_plan(realised), 0, ReconfigureStatus::kEnvelope};
    if (options_.policy != EnvPipePolicy::kNoReconfigure) {
      outcome = reconfigure(realised, options_.policy, std::move(outcome.plan), execute_, progress);
    }
    result.frontier = Frontier(problem.total_blocking());
    result.frontier.add(replay(*realised.dag, problem.blocking, outcome.plan), outcome.plan);
    result.frontier.finish();
    result.stats.nodes = realised.dag->size();
    result.stats.edges = static_cast<std::int64_t>(realised.dag->edge_count());
    result.stats.steps = outcome.steps;
    result.stats.solve_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
  }

 private:
  EnvPipeOptions options_;
  StepExecutor execute_;
};

}  // namespace

std::vector<bool> envelope(const ComputationDag& dag) {
  std::vector<bool> outer(at(dag.size()), false);
  for (int stage = 0; stage < dag.stages(); ++stage) {
    const auto order = dag.stage_order(stage);
    const auto has_choice = [&](std::int32_t i) { return dag.type_of(i).options.size() > 1; };
    const auto first = std::find_if(order.begin(), order.end(), has_choice);
    if (first == order.end()) continue;
    const auto last = std::find_if(order.rbegin(), order.rend(), has_choice);
    outer[at(*first)] = outer[at(*last)] = true;
    if (stage + 1 < dag.stages()) continue;
    for (const std::int32_t i : order) outer[at(i)] = true;
  }
  return outer;
}

std::vector<int> find_critical_path(const ComputationDag& dag, const ExecutedStep& step) {
  std::vector<int> path;
  int current = -1;
  for (int i = 0; i < dag.size(); ++i) {
    // Of equally late operations that of the first stage is taken, where a 1F1B iteration ends.
    const bool later = current < 0 || step.finish[at(i)] > step.finish[at(current)];
    const bool equal = !later && step.finish[at(i)] == step.finish[at(current)];
    if (later || (equal && dag.type_of(i).stage <= dag.type_of(current).stage)) current = i;
  }
  while (current >= 0) {
    path.push_back(current);
    const OperationType& type = dag.type_of(current);
    int previous = -1;    // on the same stage
    int dependency = -1;  // the one that finished last, on another stage
    for (const std::int32_t p : dag.predecessors(current)) {
      const bool same_stage =
          type.occupies_stage && dag.type_of(p).occupies_stage && dag.type_of(p).stage == type.stage;
      int& chosen = same_stage ? previous : dependency;
      if (chosen < 0 || step.finish[at(p)] > step.finish[at(chosen)]) chosen = p;
    }
    if (previous >= 0 && dependency >= 0) {
      const Nanoseconds t_slack = step.start[at(current)] - step.finish[at(previous)];
      const Nanoseconds t_depdelay = step.start[at(current)] - step.finish[at(dependency)];
      current = t_slack < t_depdelay ? previous : dependency;
    } else {
      current = previous >= 0 ? previous : dependency;
    }
  }
  std::reverse(path.begin(), path.end());
  return path;
}

Reconfiguration::Reconfiguration(const PlanProblem& problem, EnvPipePolicy policy, ClockPlan plan)
    : problem_(&problem), policy_(policy), envelope_(envelope(*problem.dag)), plan_(std::move(plan)) {
  for (int i = 0; i < problem.dag->size(); ++i) possible_ += steps_below_maximum(problem, plan_, i);
}

double Reconfiguration::progress() const {
  if (status_ != ReconfigureStatus::kRunning || possible_ == 0) return 1.0;
  return static_cast<double>(raised_) / static_cast<double>(possible_);
}

ReconfigureStatus Reconfiguration::learn(const ExecutedStep& step) {
  if (status_ != ReconfigureStatus::kRunning) return status_;
  const ComputationDag& dag = *problem_->dag;
  ++steps_;
  const std::vector<int> path = find_critical_path(dag, step);
  // Operations without a choice of clocks lie on every such path and say nothing.
  const bool on_envelope = std::all_of(path.begin(), path.end(),
                                       [&](int i) { return envelope_[at(i)] || dag.type_of(i).options.size() < 2; });
  if (on_envelope) return status_ = ReconfigureStatus::kEnvelope;
  const int raised =
      policy_ == EnvPipePolicy::kGreedy ? raise_greedy(*problem_, path, plan_) : raise_balanced(*problem_, path, plan_);
  raised_ += raised;
  if (raised == 0) status_ = ReconfigureStatus::kMaximumClocks;
  return status_;
}

Reconfigured reconfigure(const PlanProblem& problem, EnvPipePolicy policy, ClockPlan plan, const StepExecutor& execute,
                         const Progress& progress) {
  Reconfiguration reconfiguration(problem, policy, std::move(plan));
  const auto result = [&](ReconfigureStatus status) {
    return Reconfigured{reconfiguration.plan(), reconfiguration.steps(), status};
  };
  while (reconfiguration.learn(execute(*problem.dag, reconfiguration.plan())) == ReconfigureStatus::kRunning) {
    if (progress && !progress(reconfiguration.progress())) return result(ReconfigureStatus::kCancelled);
  }
  return result(reconfiguration.status());
}

std::unique_ptr<Planner> make_envpipe(EnvPipeOptions options, StepExecutor execute) {
  return std::make_unique<EnvPipePlanner>(std::move(options), std::move(execute));
}

std::unique_ptr<Planner> make_envpipe(EnvPipePolicy policy) { return make_envpipe(EnvPipeOptions{policy, true, {}}); }

}  // namespace flyball
