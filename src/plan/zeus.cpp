// All baselines are one planner with different lists of candidates: each candidate is replayed, and the frontier keeps
// the best.
#include "plan/zeus.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "pipeline/instruction.h"
#include "plan/stage_clock.h"

namespace flyball {
namespace {

// The candidates to try: one option per operation type.
using Candidates = std::function<std::vector<TypeOptions>(const PlanProblem&)>;

class StageClockPlanner : public Planner {
 public:
  StageClockPlanner(std::string_view name, Candidates candidates) : name_(name), candidates_(std::move(candidates)) {}

  [[nodiscard]] std::string_view name() const override { return name_; }

  [[nodiscard]] PlannerResult plan(const PlanProblem& problem, const Progress& progress) const override {
    const auto begin = std::chrono::steady_clock::now();
    PlannerResult result;
    result.frontier = Frontier(problem.total_blocking());
    const std::vector<TypeOptions> candidates = candidates_(problem);
    for (const TypeOptions& options : candidates) {
      const ClockPlan plan = plan_of_types(*problem.dag, options);
      result.frontier.add(replay(*problem.dag, problem.blocking, plan), plan);
      ++result.stats.steps;
      if (progress && !progress(static_cast<double>(result.stats.steps) / static_cast<double>(candidates.size())))
        break;
    }
    result.frontier.finish();
    result.stats.nodes = problem.dag->size();
    result.stats.edges = static_cast<std::int64_t>(problem.dag->edge_count());
    result.stats.solve_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
  }

 private:
  std::string_view name_;
  Candidates candidates_;
};

TypeOptions max_options(const PlanProblem& problem) {
  TypeOptions options;
  for (const PlanProblem::TypeChoices& choices : problem.choices) options.push_back(choices.max_clock);
  return options;
}

// Sets every type of a stage to the clock, and leaves other stages alone.
void set_stage_clock(const ComputationDag& dag, int stage, Megahertz clock, TypeOptions& options) {
  for (std::size_t t = 0; t < options.size(); ++t) {
    if (dag.types()[t].stage == stage) options[t] = nearest_option(dag.types()[t], clock);
  }
}

std::vector<TypeOptions> global_candidates(const PlanProblem& problem) {
  std::set<Megahertz> clocks;
  for (const OperationType& type : problem.dag->types()) {
    if (type.options.size() < 2) continue;
    for (const ClockOption& option : type.options) clocks.insert(option.frequency);
  }
  std::vector<TypeOptions> candidates;
  for (auto clock = clocks.rbegin(); clock != clocks.rend(); ++clock) {
    candidates.push_back(max_options(problem));
    for (int stage = 0; stage < problem.dag->stages(); ++stage) {
      set_stage_clock(*problem.dag, stage, *clock, candidates.back());
    }
  }
  if (candidates.empty()) candidates.push_back(max_options(problem));
  return candidates;
}

// The forward of a stage; of several chunks the first, since they are alike.
const OperationType* forward_type(const ComputationDag& dag, int stage) {
  const auto types = dag.types();
  const auto found = std::find_if(types.begin(), types.end(), [&](const OperationType& type) {
    return type.stage == stage && type.options.size() > 1 &&
           type.instruction.starts_with(instruction_name(InstructionKind::kForward));
  });
  return found == types.end() ? nullptr : &*found;
}

std::vector<TypeOptions> per_stage_candidates(const PlanProblem& problem) {
  const ComputationDag& dag = *problem.dag;
  std::set<Nanoseconds> targets;
  Nanoseconds slowest = 0;  // the slowest stage's fastest forward
  for (int stage = 0; stage < dag.stages(); ++stage) {
    const OperationType* forward = forward_type(dag, stage);
    if (forward == nullptr) continue;
    Nanoseconds fastest = to_nanoseconds(forward->options.front().time);
    Megahertz before{-1.0};
    for (const ClockOption& option : forward->options) {
      if (std::exchange(before, option.frequency) == option.frequency) continue;  // the clock's fastest comes first
      targets.insert(to_nanoseconds(option.time));
      fastest = std::min(fastest, to_nanoseconds(option.time));
    }
    slowest = std::max(slowest, fastest);
  }

  std::vector<TypeOptions> candidates;
  for (const Nanoseconds target : targets) {
    if (target < slowest) continue;
    TypeOptions options = max_options(problem);
    for (int stage = 0; stage < dag.stages(); ++stage) {
      const OperationType* forward = forward_type(dag, stage);
      if (forward == nullptr) continue;
      // Options are ordered by falling clock, so that the last one within the target has the lowest clock.
      const auto lowest =
          std::find_if(forward->options.rbegin(), forward->options.rend(),
                       [&](const ClockOption& option) { return to_nanoseconds(option.time) <= target; });
      set_stage_clock(dag, stage, lowest->frequency, options);
    }
    if (candidates.empty() || options != candidates.back()) candidates.push_back(std::move(options));
  }
  if (candidates.empty()) candidates.push_back(max_options(problem));
  return candidates;
}

}  // namespace

std::unique_ptr<Planner> make_max() {
  return std::make_unique<StageClockPlanner>(
      "max", [](const PlanProblem& problem) { return std::vector<TypeOptions>{max_options(problem)}; });
}

std::unique_ptr<Planner> make_uniform() {
  return std::make_unique<StageClockPlanner>(
      "uniform", [](const PlanProblem& problem) { return std::vector<TypeOptions>{valley_options(*problem.dag)}; });
}

std::unique_ptr<Planner> make_zeus_global() {
  return std::make_unique<StageClockPlanner>("zeus-global", global_candidates);
}

std::unique_ptr<Planner> make_zeus_per_stage() {
  return std::make_unique<StageClockPlanner>("zeus-per-stage", per_stage_candidates);
}

}  // namespace flyball
