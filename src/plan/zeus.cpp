// All baselines are one planner with different lists of candidates: each candidate is replayed, and the frontier keeps
// the best.
#include "plan/zeus.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
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

// What a board is set to for a whole iteration: a clock and, where the profile has them, a power limit. Other labels
// belong to operations; of options that differ in these, the fastest is taken.
struct Setting {
  Megahertz clock;
  double limit_w = 0.0;  // 0: none

  auto operator<=>(const Setting&) const = default;
};

Setting setting_of(const OperationType& type, std::size_t option) {
  Setting setting{type.options[option].frequency};
  for (const Label& label : type.labels.of(option)) {
    if (label.name == kPowerLimitLabel) setting.limit_w = parse_number(label.value).value_or(0.0);
  }
  return setting;
}

// The type's options of different settings, the fastest of each, in the order of the options.
std::vector<std::uint16_t> options_by_setting(const OperationType& type) {
  std::set<Setting> seen;
  std::vector<std::uint16_t> options;
  for (std::size_t k = 0; k < type.options.size(); ++k) {
    if (seen.insert(setting_of(type, k)).second) options.push_back(static_cast<std::uint16_t>(k));
  }
  return options;
}

// Sets every type of a stage to the setting, and leaves other stages alone. A type that was not measured at it gets the
// option of the nearest clock.
void set_stage(const ComputationDag& dag, int stage, const Setting& setting, TypeOptions& options) {
  for (std::size_t t = 0; t < options.size(); ++t) {
    const OperationType& type = dag.types()[t];
    if (type.stage != stage) continue;
    options[t] = nearest_option(type, setting.clock);
    if (type.labels.empty()) continue;
    for (const std::uint16_t option : options_by_setting(type)) {
      if (setting_of(type, option) == setting) options[t] = option;
    }
  }
}

std::vector<TypeOptions> global_candidates(const PlanProblem& problem) {
  std::set<Setting> settings;
  for (const OperationType& type : problem.dag->types()) {
    if (type.options.size() < 2) continue;
    for (const std::uint16_t option : options_by_setting(type)) settings.insert(setting_of(type, option));
  }
  std::vector<TypeOptions> candidates;
  for (auto setting = settings.rbegin(); setting != settings.rend(); ++setting) {
    candidates.push_back(max_options(problem));
    for (int stage = 0; stage < problem.dag->stages(); ++stage) {
      set_stage(*problem.dag, stage, *setting, candidates.back());
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
    for (const std::uint16_t option : options_by_setting(*forward)) {
      const Nanoseconds time = to_nanoseconds(forward->options[option].time);
      targets.insert(time);
      fastest = std::min(fastest, time);
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
      // Options are ordered by falling clock and, within a clock, by rising time, so that the last one within the
      // target has the lowest clock and limit.
      const std::vector<std::uint16_t> of_forward = options_by_setting(*forward);
      const auto lowest = std::find_if(of_forward.rbegin(), of_forward.rend(), [&](std::uint16_t option) {
        return to_nanoseconds(forward->options[option].time) <= target;
      });
      set_stage(dag, stage, setting_of(*forward, *lowest), options);
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
